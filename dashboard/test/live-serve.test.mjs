// Checks the live page of a real `weigh serve` with a real job of `weigh run`: how long a write() of the job takes to be
// a number on the page, and that each number is the one of summary.json; that regions have their exact counts when their
// program has ended, and published values all their digits.
// usage: npm run test-live-serve -- WEIGH [PROGRAM]
// PROGRAM: regions_phases of libweigh's tests.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { launch } from "./pages.mjs";

const WRITES = 40;
const BYTES = 1_000_003;
/** Writes now and then, once it may, and says at its end when each write was made. */
const JOB = `
const fs = require("node:fs");
const [path, writes, bytes] = [process.argv[1], Number(process.argv[2]), Number(process.argv[3])];
const file = fs.openSync(path, "w");
const data = Buffer.alloc(bytes, "x");
const times = [];
const step = () => {
  times.push(Date.now());
  fs.writeSync(file, data, 0, bytes, 0);
  if (times.length < writes) return setTimeout(step, 150 + Math.random() * 100);
  console.log(JSON.stringify(times));
  setTimeout(() => {}, 600);
};
const begin = () => (fs.existsSync(path + ".go") ? step() : setTimeout(begin, 50));
begin();
`;

const [weigh, program] = process.argv.slice(2, 4).map((word) => resolve(word));
if (!weigh) {
  console.error("usage: npm run test-live-serve -- WEIGH [PROGRAM]");
  process.exit(2);
}

const folder = await mkdtemp(join(tmpdir(), "weigh-live-"));
const children = [];
let browser;
let failed = false;
await hold("a write() of the job is soon on the page, and its numbers are the summary's", check);
if (program) await hold("regions have their exact counts as soon as their program has ended", checkRegions);
await hold("published values have all their digits", checkPublished);
await browser?.close();
for (const child of children) child.kill();
await rm(folder, { recursive: true, force: true });
process.exit(failed ? 1 : 0);

async function hold(name, act) {
  try {
    await act();
    console.log(`ok    live, weigh serve: ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL  live, weigh serve: ${name}\n${error.stack}`);
  }
}

function start(...words) {
  const child = spawn(weigh, words, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const lines = createInterface({ input: child.stdout });
  return { child, line: new Promise((done) => lines.once("line", done)), ended: new Promise((done) => child.once("exit", done)) };
}

async function check() {
  const serve = start("serve", "--http", "127.0.0.1:0", folder);
  const url = await serve.line;
  browser ??= await launch();
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const errors = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(error.stack));
  await page.goto(url);
  assert.equal(new URL(page.url()).search, "", "the token is not left in the URL");
  await page.waitForSelector("#node .value");
  await page.locator("nav a", { hasText: "Jobs" }).click();
  await page.locator(".tally", { hasText: "no recording" }).waitFor();

  const run = start("run", "--quiet", "-o", join(folder, "job"), "--", process.execPath, "-e", JOB, join(folder, "data"), String(WRITES), String(BYTES));
  await page.locator(".history a").click({ timeout: 20_000 });
  await page.locator(".outcome", { hasText: "running" }).waitFor();
  await page.evaluate(() => {
    window.seen = [];
    const look = () => {
      const title = document.querySelector('.headline [data-metric="io_written_bytes_total"] .amount')?.title ?? "";
      const value = parseInt(title, 10);
      const last = window.seen[window.seen.length - 1]?.[1];
      if (Number.isFinite(value) && value !== last) window.seen.push([Date.now(), value]);
      requestAnimationFrame(look);
    };
    look();
  });
  await writeFile(join(folder, "data.go"), "");
  const times = JSON.parse(await run.line);
  assert.equal(await run.ended, 0);
  await page.locator(".outcome.good").waitFor();

  const seen = await page.evaluate(() => window.seen);
  const delays = times.map((time, i) => {
    const found = seen.find(([, value]) => value >= (i + 1) * BYTES);
    return (found?.[0] ?? Infinity) - time;
  }).sort((a, b) => a - b);
  const at = (part) => delays[Math.ceil(delays.length * part) - 1];
  console.log(`      write() to number on the page: median ${at(0.5)} ms, p95 ${at(0.95)} ms, at most ${at(1)} ms of ${delays.length}`);
  assert.ok(at(0.95) < 3_000, `p95 ${at(0.95)} ms`);

  const { metrics } = JSON.parse(await readFile(join(folder, "job/summary.json"), "utf8"));
  await page.evaluate(() => document.querySelectorAll("details").forEach((found) => { found.open = true; }));
  let [known, missing] = [0, 0];
  for (const [name, { value, unit, quality, reason }] of Object.entries(metrics)) {
    const row = page.locator(`.metrics tr[data-metric="${name}"]`);
    const figure = page.locator(`.headline [data-metric="${name}"] .amount`);
    assert.equal(await row.count(), 1, name);
    assert.ok((await row.locator(".trust").innerText()).includes(quality), `${name} is ${quality}`);
    if (value === null || value === undefined) {
      missing += 1;
      assert.equal(await row.locator("td.number").innerText(), "–", name);
      assert.equal(await row.locator(".reason").textContent(), reason, name);
      continue;
    }
    known += 1;
    assert.equal(await row.locator("td.number").getAttribute("title"), `${value} ${unit}`, name);
    if (await figure.count() > 0) assert.equal(await figure.getAttribute("title"), `${value} ${unit}`, `${name} above`);
  }
  console.log(`      ${known} numbers are those of summary.json, and so are ${missing} reasons why there is none`);
  assert.ok(known > 20);
  assert.deepEqual(errors, [], "errors on the console");
}

/** The program makes 41 writes and 40,001 calls of "hot" in each round. */
async function checkRegions() {
  const rounds = 7;
  const serve = start("serve", "--http", "127.0.0.1:0", folder);
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(await serve.line);
  const [go, later] = [join(folder, "regions.go"), 'until [ -e "$0" ]; do sleep 0.05; done; exec "$@"'];
  const run = start("run", "--quiet", "--category", "regions", "-o", join(folder, "regions"), "--", "sh", "-c", later, go, program, join(folder, "log"), String(rounds));
  await page.locator("nav a", { hasText: "Jobs" }).click();
  await page.locator(".history tr", { hasText: "regions" }).locator("a").click({ timeout: 20_000 });
  await page.locator(".outcome", { hasText: "running" }).waitFor();
  await writeFile(go, "");
  assert.equal(await run.ended, 0);
  await page.locator(".outcome.good").waitFor();
  await page.evaluate(() => document.querySelectorAll("details").forEach((found) => { found.open = true; }));
  for (const [name, calls] of [["write", 41 * rounds], ["hot", 40_001 * rounds], ["spin", rounds]]) {
    const row = page.locator("section", { hasText: "Regions by name" }).locator("tr", { has: page.locator(`td[title="${name}"]`) }).first();
    const numbers = (await row.locator("td.number").allInnerTexts()).map((text) => text.replace(/\s/gu, ""));
    assert.ok(numbers.includes(String(calls)), `${name}: ${calls} calls, not ${numbers.join(" ")}`);
  }
  await page.close();
}

async function checkPublished() {
  const socket = join(folder, "weigh.sock");
  start("agent", "--socket", socket);
  const values = [["queue_length", "17.0625", []], ["backlog", "123456789", ["--unit", "bytes"]], ["debt", "-0.001953125", ["--unit", "seconds"]]];
  const push = () => Promise.all(values.map(([name, value, options]) => start("push", "--socket", socket, ...options, `${name}=${value}`).ended));
  const end = Date.now() + 30_000;
  while ((await push()).some((status) => status !== 0)) {
    assert.ok(Date.now() < end, "the agent takes no value");
    await new Promise((done) => setTimeout(done, 300));
  }
  const serve = start("serve", "--http", "127.0.0.1:0", `--agent=${socket}`, folder);
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(await serve.line);
  for (const [name, value, [, unit]] of values) {
    const row = page.locator("#published tr", { hasText: name });
    await row.waitFor();
    const title = await row.locator(".value").getAttribute("title");
    assert.ok(title.startsWith(`${value}${unit === undefined ? "" : ` ${unit}`}, published at `), title);
  }
  await page.close();
}
