// Opens pages that weigh has made in a browser, and runs checks on each. CHROMIUM names the browser,
// /usr/bin/chromium if it is not set.

import assert from "node:assert/strict";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
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
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
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
