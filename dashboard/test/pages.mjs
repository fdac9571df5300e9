// Opens pages that weigh has made in a browser, and runs checks on each. CHROMIUM names the browser,
// /usr/bin/chromium if it is not set.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

let browser;

/**
 * Runs all checks on all files that the command line names, and ends with what came of it: `ok` or `FAIL`
 * for each. No page may leave errors on the console, or ask for anything besides itself.
 */
export async function hold(checks, usage) {
  const files = process.argv.slice(2);
  if (files.length === 0) {
    console.error(usage);
    process.exit(2);
  }
  browser = await launch();
  let failures = 0;
  for (const file of files) {
    for (const [name, check] of Object.entries(checks)) {
      const opened = await open(file);
      try {
        await check(opened);
        assert.deepEqual(opened.errors, [], "errors on the console");
        assert.deepEqual(opened.requests, [], "requests besides the page itself");
        console.log(`ok    ${file}: ${name}`);
      } catch (error) {
        failures += 1;
        console.log(`FAIL  ${file}: ${name}\n${error.stack}`);
      }
      await opened.page.close();
    }
  }
  await browser.close();
  process.exit(failures === 0 ? 0 : 1);
}

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** The same page with other data. */
export async function openChanged(file, change) {
  const html = await readFile(file, "utf8");
  const place = /(<script type="application\/json" id="weigh-data">)([\s\S]*?)(<\/script>)/;
  const data = JSON.parse(html.match(place)[2]);
  change(data);
  const folder = await mkdtemp(join(tmpdir(), "weigh-page-"));
  const changed = join(folder, "report.html");
  const text = JSON.stringify(data).replaceAll("<", "\\u003c");
  await writeFile(changed, html.replace(place, (_, opening, __, closing) => opening + text + closing));
  try {
    return await open(changed);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** A module of src/, to call its functions. */
export async function source(name) {
  const entry = fileURLToPath(new URL(`../src/${name}.ts`, import.meta.url));
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, write: false, format: "esm" });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

/** A page, the data that it carries, and what it says and asks for from now on. */
export async function open(file, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const errors = [];
  const requests = [];
  const url = pathToFileURL(resolve(file)).href;
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("request", (request) => {
    if (request.url() !== url && request.url() !== "data:,") requests.push(request.url());
  });
  await page.goto(url);
  const data = JSON.parse(await page.locator("#weigh-data").textContent());
  return { page, data, errors, requests, file };
}
