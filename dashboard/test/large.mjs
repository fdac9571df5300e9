// Measures the page of a large recording, which `page_sizes FOLDER ended SAMPLES` (crates/keep/examples) has made: how soon
// it is painted, what the server holds of memory, and that its one high sample is seen at every zoom.
// usage: npm run measure-large -- WEIGH FOLDER

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { launch } from "./pages.mjs";

const [weigh, folder] = process.argv.slice(2).map((word) => resolve(word));
if (!folder) {
  console.error("usage: npm run measure-large -- WEIGH FOLDER");
  process.exit(2);
}
const SPIKE = 1e12;
const SERIES = "cpu_seconds";

const server = spawn(weigh, ["serve", "--http", "127.0.0.1:0", folder], { stdio: ["ignore", "pipe", "inherit"] });
const url = new URL(await new Promise((done) => createInterface({ input: server.stdout }).once("line", done)));
const token = url.searchParams.get("token");
const browser = await launch();
try {
  await measure();
} finally {
  await browser.close();
  server.kill();
}

/** The most that the server has held of memory, in MiB. */
async function peak() {
  const status = await readFile(`/proc/${server.pid}/status`, "utf8");
  return (Number(/VmHWM:\s+(\d+)/.exec(status)[1]) / 1024).toFixed(1);
}

async function get(path) {
  const began = performance.now();
  const answer = await fetch(new URL(`/api/v1${path}`, url), { headers: { authorization: `Bearer ${token}`, accept: "application/json" } });
  const value = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(value));
  return { value, took: performance.now() - began };
}

async function measure() {
  console.log(`server with nothing asked: ${await peak()} MiB`);
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(url.href);
  await page.waitForSelector("#node .value");
  console.log(`after Now: ${await peak()} MiB`);
  const list = await get("/jobs");
  const [job] = list.value.jobs;
  console.log(`list: ${list.took.toFixed(0)} ms, ${await peak()} MiB`);
  for (let turn = 0; turn < 5; turn += 1) {
    const began = performance.now();
    await page.goto(new URL(`/jobs/${encodeURIComponent(job.id)}`, url).href);
    await page.waitForFunction(() => [...document.querySelectorAll("#series canvas")].some((canvas) => canvas.width > 0));
    const drawn = performance.now() - began;
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    console.log(`job page, turn ${turn + 1}: first paint ${paint.toFixed(0)} ms, charts ${drawn.toFixed(0)} ms; ${await peak()} MiB`);
  }
  await zooms(job.id);
}

async function zooms(id) {
  const whole = await get(`/series?job=${encodeURIComponent(id)}&metric=${SERIES}&points=20000`);
  const { time, max } = whole.value;
  const at = time[max.indexOf(SPIKE)];
  assert.ok(at !== undefined, "the spike is in the whole");
  const samples = (await get(`/series?job=${encodeURIComponent(id)}`)).value.reduce((sum, row) => sum + row.samples, 0);
  console.log(`${samples} samples; whole: ${whole.took.toFixed(0)} ms`);
  let middle = at;
  const length = time[time.length - 1] - time[0];
  for (let part = length; part > 0.05; part /= 10) {
    const [from, to] = [middle - part / 2, middle + part / 2].map((seconds) => `${BigInt(Math.round(seconds * 1e6))}000`);
    const found = await get(`/series?job=${encodeURIComponent(id)}&metric=${SERIES}&points=1000&from=${from}&to=${to}`);
    const place = found.value.max.indexOf(SPIKE);
    assert.ok(place >= 0, `the spike in ${part} s`);
    middle = found.value.time[place];
    console.log(`${part.toPrecision(3)} s: ${found.value.max.length} columns in ${found.took.toFixed(0)} ms; ${await peak()} MiB`);
  }
}
