// Takes pictures of the live page, of a real `weigh serve` with real jobs, for people to look at, light and dark.
// As root it runs all of it as a user who has nothing else, so that no other process of the machine is on them.
// usage: npm run pictures -- WEIGH PROGRAM FOLDER
// PROGRAM: regions_phases of libweigh's tests. FOLDER: where the pictures go.

import { spawn } from "node:child_process";
import { chmod, chown, copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { launch } from "./pages.mjs";

const [weigh, program, out] = process.argv.slice(2).map((word) => resolve(word));
if (!out) {
  console.error("usage: npm run pictures -- WEIGH PROGRAM FOLDER");
  process.exit(2);
}

const USER = 61_234;
const isRoot = process.getuid() === 0;
const user = isRoot ? { uid: USER, gid: USER } : {};
const children = [];

/** A command of weigh, and its first line. */
function start(...words) {
  const env = { PATH: `${home}/bin:${process.env.PATH}`, HOME: home, LANG: "C.UTF-8" };
  const child = spawn("weigh", words, { stdio: ["ignore", "pipe", "inherit"], cwd: home, env, ...user });
  children.push(child);
  const lines = createInterface({ input: child.stdout });
  return { line: new Promise((done) => lines.once("line", done)), ended: new Promise((done) => child.once("exit", done)) };
}

const home = await mkdtemp(join(tmpdir(), "weigh-pictures-"));
if (isRoot) await chown(home, USER, USER);
await chmod(home, 0o755);
await mkdir(out, { recursive: true });
const run = (name, ...words) => start("run", "--quiet", "-o", join("runs", name), ...words).ended;
const sh = (text) => ["--", "sh", "-c", text];
await mkdir(join(home, "bin"));
await copyFile(weigh, join(home, "bin/weigh"));
await copyFile(program, join(home, "heat"));
await mkdir(join(home, "runs"));
if (isRoot) await chown(join(home, "runs"), USER, USER);

await run("build-1", "--category", "build", "--label", "branch=main", ...sh("find /usr/bin -type f | xargs sha256sum >/dev/null"));
await run("build-2", "--category", "build", "--label", "branch=next", ...sh("sort -R /usr/share/dict/* /etc/services 2>/dev/null | wc -l; exit 3"));
await run("copy", "--category", "transfer", "--io", ...sh("head -c 60000000 /dev/zero >a; cp a b; sync; cat a b | sha256sum; rm a b"));
await run("limited", "--category", "solver", "--limit", "wall_seconds=1s", "--", "sleep", "30");
const serve = start("serve", "runs");
const url = await serve.line;
const running = run("heat", "--category", "solver", "--label", "mesh=fine", "--io", "--", "./heat", "heat.log", "150");
const feeding = run("feed", "--category", "transfer", "--io", ...sh("while :; do head -c 3000000 /dev/urandom >part; cat part >/dev/null; sleep 0.2; done"));

/** What lies further down a page is on no picture. */
const HEIGHT = 1_560;
const browser = await launch();
const options = { viewport: { width: 1280, height: 900 }, deviceScaleFactor: 1 };
for (const name of ["light", "dark"]) {
  const page = await browser.newPage({ ...options, colorScheme: name });
  // What is not in view is not drawn: all of it is in view for a while.
  const take = async (view) => {
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    await page.setViewportSize({ width: options.viewport.width, height: Math.min(height, 6_000) });
    await page.waitForTimeout(8_000);
    const clip = { x: 0, y: 0, width: options.viewport.width, height: Math.min(height, HEIGHT) };
    await page.screenshot({ path: join(out, `live-${view}-${name}.png`), clip });
    await page.setViewportSize(options.viewport);
  };
  await page.goto(url);
  await page.locator("#activity .card tbody tr").first().waitFor();
  await take("now");
  await page.locator("nav a", { hasText: "Jobs" }).click();
  await page.locator(".history tbody tr").nth(4).waitFor();
  await page.waitForTimeout(500);
  await take("history");
  await page.locator(".history a", { hasText: "heat" }).first().click();
  await page.locator("#series canvas").first().waitFor();
  await take("job");
  await page.close();
}
await browser.close();
for (const child of children) child.kill();
await Promise.all([running, feeding, serve.ended]);
await rm(home, { recursive: true, force: true });
