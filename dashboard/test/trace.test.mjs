// Opens a page of events in a browser and holds what it shows to the data that it carries.
// npm run test-trace -- FILE [FILE...]; see pages.mjs.

import assert from "node:assert/strict";
import { hold, open } from "./pages.mjs";

await hold(checks(), "which page? npm run test-trace -- FILE [FILE...]");

function checks() {
  return {
    "what was followed heads the page, and what is missing is said": async ({ page, data }) => {
      assert.equal(await page.locator("h1").textContent(), data.command || "events");
      assert.ok((await page.locator("header").textContent()).includes(data.summary));
      assert.equal(await page.locator(".banner").count(), data.warnings.length);
    },

    "each event has its row, with its number": async ({ page, data }) => {
      const rows = page.locator("#events tbody tr");
      assert.equal(await rows.count(), data.events.length);
      for (const [i, event] of data.events.entries()) {
        const row = rows.nth(i);
        assert.equal(await row.locator("th").textContent(), event.name);
        const total = (await row.locator("td").first().textContent()).replace(/\D/g, "");
        assert.equal(Number(total), event.total);
      }
    },

    "every pair is in a bar, and more pairs make a higher one": async ({ page, data }) => {
      assert.ok(data.pairs.length > 0, "nothing to look at");
      assert.equal(await page.locator(".pair").count(), data.pairs.length);
      for (const [i, pair] of data.pairs.entries()) {
        const bars = await page.locator(".pair").nth(i).locator(".bar").evaluateAll((all) => all.map((bar) => ({
          pairs: Number(bar.dataset.pairs), height: bar.getBBox().height,
        })));
        assert.deepEqual(bars.map((bar) => bar.pairs), pair.count);
        assert.equal(bars.reduce((sum, bar) => sum + bar.pairs, 0), pair.total);
        for (const a of bars) for (const b of bars) if (a.pairs > b.pairs * 1.01) assert.ok(a.height > b.height);
      }
    },

    "threads are drawn, and what is under the pointer is said": async ({ page, data }) => {
      const canvas = page.locator(".lanes canvas");
      const box = await canvas.boundingBox();
      assert.ok(box.height > data.lanes.length * 20, JSON.stringify(box));
      // A place where something is: the column with most events of the first thread.
      const lane = data.lanes[0];
      const sums = data.from.map((_, column) => lane.counts.reduce((sum, counts) => sum + counts[column], 0));
      const column = sums.indexOf(Math.max(...sums));
      const of = data.marks.lane.findIndex((drawn, i) => drawn === 0
        && data.marks.at[i] >= data.from[column] && data.marks.at[i] <= data.to[column]);
      const time = of < 0 ? (data.from[column] + data.to[column]) / 2 : data.marks.at[of];
      const x = 150 + (box.width - 150) * time / data.duration;
      await canvas.hover({ position: { x, y: 22 + 5 } });
      const said = await page.locator(".lanes .said").textContent();
      assert.ok(said.includes(lane.label), said);
      assert.ok(data.events.some((event) => said.includes(event.name)), said);
      const painted = await canvas.evaluate((c) => new Set(
        new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)).size);
      assert.ok(painted > 5, `${painted} colours`);
    },

    "dragging looks closer, and a double click shows all again": async ({ page }) => {
      const canvas = page.locator(".lanes canvas");
      const picture = () => canvas.evaluate((c) => c.toDataURL());
      await page.waitForTimeout(100);
      const whole = await picture();
      const box = await canvas.boundingBox();
      await page.mouse.move(box.x + 300, box.y + 30);
      await page.mouse.down();
      await page.mouse.move(box.x + 500, box.y + 30);
      await page.mouse.up();
      await page.mouse.move(0, 0);
      await page.waitForTimeout(100);
      assert.notEqual(await picture(), whole);
      await canvas.dblclick({ position: { x: 400, y: 30 } });
      await page.mouse.move(0, 0);
      await page.waitForTimeout(100);
      assert.equal(await picture(), whole);
    },

    "nothing is wider than a phone": async ({ file }) => {
      for (const colorScheme of ["light", "dark"]) {
        const { page, errors } = await open(file, { viewport: { width: 390, height: 800 }, colorScheme });
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
        assert.deepEqual(errors, []);
        await page.close();
      }
    },
  };
}
