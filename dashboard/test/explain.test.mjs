// Opens a page of `weigh explain` in a browser and holds what it shows to the data that it carries.
// npm run test-explain -- FILE [FILE...]; see pages.mjs.

import assert from "node:assert/strict";
import { hold } from "./pages.mjs";

await hold(checks(), "which page? npm run test-explain -- FILE [FILE...]");

function checks() {
  return {
    "what was followed heads the page, with what slow means": async ({ page, data }) => {
      assert.equal(await page.locator("h1").textContent(), data.command || "system calls");
      assert.ok((await page.locator("header").textContent()).includes(data.definitions));
      assert.equal(await page.locator(".banner").count(), data.warnings.length);
    },

    "each kind has its sentences, the whole first": async ({ page, data }) => {
      assert.ok(data.kinds.length > 0, "nothing to look at");
      assert.equal(await page.locator(".kind").count(), data.kinds.length);
      for (const [i, kind] of data.kinds.entries()) {
        const section = page.locator(`#kind-${i}`);
        assert.equal(await section.locator("h2").textContent(), kind.title);
        assert.equal(await section.locator("p").first().textContent(), kind.sentences[0]);
        assert.deepEqual(await section.locator("li").allTextContents(), kind.sentences.slice(1));
      }
    },

    "every call is in a bar, and more calls make a higher one": async ({ page, data }) => {
      for (const [i, kind] of data.kinds.entries()) {
        const bars = await page.locator(`#kind-${i} .bar`).evaluateAll((all) => all.map((bar) => {
          const { x, y, height } = bar.querySelector(".calls").getBBox();
          return { calls: Number(bar.dataset.calls), left: x, height, bottom: y + height };
        }));
        assert.deepEqual(bars.map((bar) => bar.calls), kind.count);
        assert.equal(bars.reduce((sum, bar) => sum + bar.calls, 0), kind.calls);
        const words = await page.locator(`#kind-${i} svg`).getAttribute("aria-label");
        assert.ok(words.endsWith(` ${data.noun}`), words);
        const seen = bars.filter((bar) => bar.calls > 0);
        for (const a of seen) {
          for (const b of seen) if (a.calls > b.calls * 1.01) assert.ok(a.height > b.height, JSON.stringify([a, b]));
        }
        assert.ok(seen.every((bar) => Math.abs(bar.bottom - seen[0].bottom) < 0.5));
        assert.ok(seen.every((bar, b) => b === 0 || bar.left > seen[b - 1].left));
      }
    },

    "the colours below a bar are the shares in the data, and of the same height whatever the calls": async ({ page, data }) => {
      for (const [i, kind] of data.kinds.entries()) {
        const bars = await page.locator(`#kind-${i} .bar`).evaluateAll((all) => all.map((bar) =>
          [...bar.querySelectorAll("rect:not(.calls)")].map((part) => [part.getAttribute("class"), part.height.baseVal.value])));
        const heights = new Set();
        for (const [b, bar] of bars.entries()) {
          const shares = kind.shares[b].filter((share) => share > 0);
          assert.equal(bar.length, shares.length);
          const whole = bar.reduce((sum, [, height]) => sum + height, 0);
          if (bar.length > 0) heights.add(Math.round(whole));
          bar.forEach(([, height], part) =>
            assert.ok(Math.abs(height / whole - shares[part]) < 0.002, `${height} of ${whole}`));
        }
        assert.ok(heights.size <= 1, `shares are of different wholes: ${[...heights]}`);
      }
      const legend = page.locator("#legend li i");
      assert.equal(await legend.count(), data.parts.length);
      const colours = await legend.evaluateAll((all) => all.map((e) => getComputedStyle(e).backgroundColor));
      assert.equal(new Set(colours).size, colours.length, "two parts have the same colour");
    },

    "what differs beside the time is in a table, whose rows are those of the data": async ({ page, data }) => {
      for (const [i, kind] of data.kinds.entries()) {
        const rows = await page.locator(`#kind-${i} tbody tr`).evaluateAll((all) =>
          all.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent)));
        assert.deepEqual(rows, kind.counters.map((row) => [`${row.later ? "later, " : ""}${row.part}: ${row.name}`, row.slow, row.ordinary]));
      }
    },

    "where slow begins is marked where there are slow ones": async ({ page, data }) => {
      for (const [i, kind] of data.kinds.entries()) {
        assert.equal(await page.locator(`#kind-${i} line.slow`).count(), kind.slow_from === null ? 0 : 1);
      }
    },

    "nothing is wider than the page": async ({ page }) => {
      for (const width of [1280, 600]) {
        await page.setViewportSize({ width, height: 900 });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${wide} of ${width}`);
      }
    },
  };
}
