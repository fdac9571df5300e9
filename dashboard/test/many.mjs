// Measures a server with many jobs that run (`page_sizes FOLDER jobs 200 60`, crates/keep/examples) and ten readers: of the
// node's stream, and of what is busiest, as pages ask for it.
// usage: npm run measure-many -- WEIGH FOLDER [READERS [SECONDS]]

import { spawn } from "node:child_process";
import { readFile, readdir } from "node:fs/promises";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const [weigh, folder] = process.argv.slice(2, 4).map((word) => resolve(word));
const [readers, seconds] = [Number(process.argv[4] ?? 10), Number(process.argv[5] ?? 20)];
if (!folder) {
  console.error("usage: npm run measure-many -- WEIGH FOLDER [READERS [SECONDS]]");
  process.exit(2);
}
const server = spawn(weigh, ["serve", "--all", "--http", "127.0.0.1:0", folder], { stdio: ["ignore", "pipe", "inherit"] });
const url = new URL(await new Promise((done) => createInterface({ input: server.stdout }).once("line", done)));
const headers = { authorization: `Bearer ${url.searchParams.get("token")}`, accept: "application/json" };
const ask = (path) => fetch(new URL(`/api/v1${path}`, url), { headers });

let [bytes, isOver] = [0, false];
async function read() {
  const stream = await ask("/stream?node=1");
  for await (const chunk of stream.body) {
    bytes += chunk.length;
    if (isOver) break;
  }
}
async function poll() {
  while (!isOver) {
    await (await ask("/busiest")).text();
    await new Promise((done) => setTimeout(done, 2_000));
  }
}

/** CPU time of all its threads, in seconds. */
async function cpu() {
  const tasks = await readdir(`/proc/${server.pid}/task`);
  const times = await Promise.all(tasks.map((task) => readFile(`/proc/${server.pid}/task/${task}/schedstat`, "utf8").catch(() => "0")));
  return times.reduce((sum, text) => sum + Number(text.split(" ")[0]), 0) / 1e9;
}

const { jobs } = await (await ask("/jobs")).json();
const all = Array.from({ length: readers }, () => [read(), poll()]).flat();
await new Promise((done) => setTimeout(done, 3_000));
const [began, cpuBefore, bytesBefore] = [performance.now(), await cpu(), bytes];
await new Promise((done) => setTimeout(done, seconds * 1000));
const took = (performance.now() - began) / 1000;
const used = await cpu() - cpuBefore;
const resident = /VmHWM:\s+(\d+)/.exec(await readFile(`/proc/${server.pid}/status`, "utf8"))[1] / 1024;
const running = jobs.filter((job) => job.state === "running").length;
console.log(`${running} jobs run, ${readers} readers: ${(100 * used / took).toFixed(2)} % of a CPU, ${resident.toFixed(1)} MiB at most, ` +
  `${((bytes - bytesBefore) / took / 1000 / Math.max(readers, 1)).toFixed(1)} kB/s each`);
isOver = true;
server.kill();
await Promise.allSettled(all);
