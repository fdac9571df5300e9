// Opens a report in a browser and holds what it shows to the data that it carries.
// npm test -- FILE [FILE...]; see pages.mjs.

import assert from "node:assert/strict";
import { hold, open, openChanged, source } from "./pages.mjs";

await hold(checks(), "which report? npm test -- FILE [FILE...]");

async function stretch(page) {
  return page.locator(".stretch").evaluate((e) => [Number(e.dataset.from), Number(e.dataset.to)]);
}

/** Waits for what was asked of the page to be drawn. */
function drawn(page) {
  return page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

async function drag(page, locator, fromPart, toPart) {
  await locator.scrollIntoViewIfNeeded();
  const box = await locator.boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * fromPart, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((fromPart + toPart) / 2), y);
  await page.mouse.move(box.x + box.width * toPart, y);
  await page.mouse.up();
  await drawn(page);
}

/** Opens what is folded. */
async function unfold(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((e) => { e.open = true; }));
  await drawn(page);
}

/** As the page has it: from the job's directory on. */
function relative(data, path) {
  return path.startsWith(`${data.job.cwd}/`) && data.job.cwd !== "/" ? path.slice(data.job.cwd.length + 1) : path;
}

/** How many different colours a canvas has. */
function colours(locator) {
  return locator.evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
}

function checks() {
  return {
    "command and outcome head the page": async ({ page, data }) => {
      assert.equal(await page.locator("h1").textContent(), data.command);
      assert.equal(await page.locator(".outcome").textContent(), data.outcome.words);
    },

    "the lines of the digest come first, then advice, then series; the rest is closed": async ({ page, data }) => {
      const rows = await page.locator("#digest dl > div").evaluateAll((all) =>
        all.map((row) => [...row.children].map((cell) => cell.textContent)));
      assert.deepEqual(rows, data.digest.map((row) => [row.label, row.text]));
      assert.ok(rows.some(([label]) => label === "CPU") && rows.some(([label]) => label === "memory"));
      const order = await page.locator("main > *").evaluateAll((all) => all.map((e) => e.id || e.className));
      const wanted = ["digest", "advice", "over-time", "files", "io", "metrics", "collectors", "host"];
      assert.deepEqual(order.filter((name) => wanted.includes(name)), wanted.filter((name) => order.includes(name)));
      const advice = [...data.advice === null ? [] : [data.advice], ...(data.io?.advice ?? []).map((a) => a.text)];
      assert.equal(await page.locator("#advice .lines > li").count(), advice.length);
      for (const id of ["files", "io", "io-places", "limits", "snapshots", "metrics", "collectors", "host"]) {
        const isOpen = await page.locator(`#${id} > details`).evaluateAll((all) => all.some((e) => e.open));
        assert.equal(isOpen, false, id);
      }
    },

    "the machine and the job's file systems stand there before and after it": async ({ page, data }) => {
      const titles = await page.locator("#host tr.group").evaluateAll((all) => all.map((row) => row.textContent));
      const hasMachine = Object.keys(data.host.at_start ?? {}).length > 0;
      assert.deepEqual(titles.map((title) => title.split(" (")[0]),
        [...hasMachine ? ["machine"] : [], ...data.file_systems.map((system) => system.mount)]);
      const names = [data.host.at_start, ...data.file_systems.map((system) => system.at_start)].flatMap((values) => Object.keys(values ?? {}));
      assert.deepEqual(await page.locator("#host td code").evaluateAll((all) => all.map((name) => name.textContent)), names);
      for (const system of data.file_systems.filter((one) => one.least.node_filesystem_available_bytes?.value != null)) {
        const cells = await page.locator("#host tbody", { hasText: `${system.mount} (${system.kind})` })
          .locator("tr", { hasText: "node_filesystem_available_bytes" }).locator("td.number").allTextContents();
        assert.equal(cells.length, 3);
        assert.ok(cells.every((cell) => /^[\d.]+ [KMGTP]?i?B /.test(cell)), cells.join("|"));
      }
    },

    "a short job has a short page, where nothing is cut and no two charts have one name": async ({ page, data }) => {
      const { height, cut } = await page.evaluate(() => ({
        height: document.documentElement.scrollHeight,
        cut: document.body.innerText.split("\n").filter((line) => line.includes("…")),
      }));
      if (data.duration <= 3) assert.ok(height <= 3 * 800, `${height} pixels`);
      // What the job itself has written is its own.
      const own = JSON.stringify([data.command, data.processes.texts, data.files.paths]);
      if (!own.includes("…")) assert.deepEqual(cut, []);
      const titles = await page.locator(".chart h3").evaluateAll((all) => all.map((e) => e.firstChild.textContent));
      assert.deepEqual(titles, [...new Set(titles)]);
    },

    "all lines of a chart are shown at first": async ({ page }) => {
      const pressed = await page.locator(".chart .key[aria-pressed]").evaluateAll((all) => all.map((e) => e.ariaPressed));
      assert.ok(pressed.every((shown) => shown === "true"), `${pressed}`);
    },

    "marks of an axis have as many digits as their distance needs": async () => {
      const { clock, tick, power } = await source("format");
      const marks = (step, longest) => [1, 2, 3].map((n) => clock(n * step, step, longest));
      assert.deepEqual(marks(0.25, 1), ["0.25 s", "0.50 s", "0.75 s"]);
      assert.deepEqual(marks(0.2, 1), ["0.2 s", "0.4 s", "0.6 s"]);
      assert.deepEqual(marks(0.025, 1), ["0.025 s", "0.050 s", "0.075 s"]);
      assert.deepEqual(marks(2.5, 30), ["2.5 s", "5.0 s", "7.5 s"]);
      assert.deepEqual(marks(15, 200), ["0:15", "0:30", "0:45"]);
      assert.equal(power(0.0031), 0.001);
      const bytes = { unit: "bytes", perSecond: false };
      assert.deepEqual([1280, 1536, 1 << 20].map((n) => tick(n, bytes)), ["1.25 KiB", "1.5 KiB", "1 MiB"]);
    },

    "a process has its arguments beside its name, whole ones as far as they fit": async () => {
      const { argumentsOf } = await source("timeline-paint");
      const of = (command, most) => argumentsOf({ command }, (text) => text.length <= most);
      assert.equal(of("/usr/bin/python3 /home/u/train.py --epochs 3", 99), "train.py --epochs 3");
      assert.equal(of("/usr/bin/python3 /home/u/train.py --epochs 3", 12), "train.py +2");
      assert.equal(of("true", 99), "");
    },

    "CPU is drawn where nothing was read or written, too": async ({ file, data }) => {
      if (data.io_over_time === null) return;
      const { page, errors } = await openChanged(file, (d) => {
        Object.assign(d.io_over_time, { from: [0], to: [d.duration / 10], processes: [], files: [],
          all: { read: [4096], written: [4096], seconds: [d.duration / 20] } });
        d.series.cpu_seconds = { total: 2, at: [d.duration / 2, d.duration], value: [d.duration / 2, d.duration] };
      });
      const map = page.locator("#io-time canvas");
      await map.scrollIntoViewIfNeeded();
      await drawn(page);
      const at = (part) => map.evaluate((canvas, where) => {
        const labels = 116;
        const x = Math.round(labels + (canvas.width - labels) * where);
        return [0, 1, 2, 3].map((row) => canvas.getContext("2d").getImageData(x, row * 20 + 8, 1, 1).data[3] > 0);
      }, part);
      assert.deepEqual(await at(0.05), [true, true, true, true]);
      for (const part of [0.3, 0.55, 0.98]) assert.deepEqual(await at(part), [false, false, false, true], `${part}`);
      const box = await map.boundingBox();
      await page.mouse.move(box.x + 116 + (box.width - 116) * 0.8, box.y + 70);
      assert.match(await page.locator("#io-time .said").textContent(), /1\.00 CPUs busy/);
      assert.deepEqual(errors, []);
      await page.close();
    },

    "files of the system, and pipes, stand in a line each, which opens": async ({ page, data }) => {
      const { path, paths, fold } = data.files;
      if (path.length === 0) return;
      await unfold(page);
      const own = new Set(path.flatMap((index, row) => (fold[row] === "own" ? [paths[index]] : [])));
      const shown = () => page.locator(".files td.path").evaluateAll((all) => all.map((e) => e.title));
      assert.ok((await shown()).every((name) => own.has(name)));
      const system = new Set(path.flatMap((index, row) => (fold[row] === "system" && !own.has(paths[index]) ? [paths[index]] : [])));
      const line = page.locator("button.fold", { hasText: /system file/ });
      assert.equal(await line.count(), system.size > 0 ? 1 : 0);
      if (system.size === 0) return;
      await line.click();
      assert.ok((await shown()).some((name) => system.has(name)), "they are there when wanted");
    },

    "the data flow is drawn: each process and file once, and an end for each line": async ({ page, data }) => {
      const flows = (data.io?.flows ?? []).slice(0, 60);
      await unfold(page);
      const graph = page.locator("#io .flow svg");
      if (/ cat .*\| *sort >/.test(data.command)) assert.ok(flows.length >= 2, "what flowed is in the page");
      assert.equal(await graph.count(), flows.length > 0 ? 1 : 0);
      if (flows.length === 0) return;
      const names = (selector) => graph.locator(`${selector} > title`).allTextContents();
      const processes = flows.flatMap((f) => [`${f.writer_name} ${f.writer}`, `${f.reader_name} ${f.reader}`]);
      assert.deepEqual((await names(".process")).sort(), [...new Set(processes)].sort());
      const files = flows.filter((f) => f.is_file).map((f) => f.name);
      assert.deepEqual((await names(".file")).sort(), [...new Set(files)].sort());
      const ends = flows.flatMap((f) => f.is_file
        ? [`${f.writer} > ${f.name}`, `${f.name} > ${f.reader}`] : [`${f.writer} ${f.name} ${f.reader}`]);
      const lines = graph.locator("path.of-file, path.of-pipe");
      assert.equal(await lines.count(), new Set(ends).size);
      const called = new Set(flows.filter((f) => !f.is_file).map((f) => `${f.writer} ${f.name} ${f.reader}`));
      const shown = await graph.locator("text.name").allTextContents();
      assert.deepEqual(shown.sort(), [...called].map((c) => c.split(" ").slice(1, -1).join(" ")).sort(), "pipes and sockets have their names");
      const lengths = await lines.evaluateAll((paths) => paths.map((path) => path.getTotalLength()));
      assert.ok(lengths.every((length) => length > 10), `${lengths}`);
      const boxes = await graph.locator("rect").evaluateAll((rects) => rects.map((rect) => rect.getBoundingClientRect()));
      const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
      boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => assert.ok(apart(a, b), "boxes lie over each other")));
    },

    "what was read and written over time is drawn, and each cell says its numbers": async ({ page, data }) => {
      const io = data.io_over_time;
      if (io === null) return assert.equal(await page.locator("#io-time").count(), 0);
      await unfold(page);
      const maps = page.locator("#io-time canvas, #io-places canvas");
      assert.equal(await maps.count(), 1 + (io.processes.length > 1 ? 1 : 0) + io.files.length);
      for (const map of await maps.all()) {
        await map.scrollIntoViewIfNeeded();
        await drawn(page);
        assert.ok(await colours(map) > 2, "nothing is drawn");
      }
      // Files of the system come behind the others.
      const own = (file) => data.files.path.some((p, row) => data.files.paths[p] === file.path && data.files.fold[row] === "own");
      const files = [...io.files.filter(own), ...io.files.filter((file) => !own(file))];
      for (const [i, file] of files.entries()) {
        // The last place is the topmost row.
        const column = io.from.findIndex((_, c) => file.read[(file.places - 1) * io.from.length + c] +
          file.written[(file.places - 1) * io.from.length + c] > 0);
        const map = page.locator("#io-places .charts canvas").nth(i);
        // Not beneath the toolbar, which stays at the top.
        await map.evaluate((canvas) => canvas.scrollIntoView({ block: "center" }));
        const box = await map.boundingBox();
        const left = 116;
        // The last look may be a little after the end of what is shown.
        const middle = (io.from[column] + Math.min(io.to[column], data.duration)) / 2 / data.duration;
        await page.mouse.move(box.x + left + (box.width - left) * middle, box.y + 2);
        const said = await page.locator("#io-places .charts .said").nth(i).textContent();
        assert.match(said, /^[0-9.]+ [KMG]?i?B to .* read, .* written$/, file.path);
      }
    },

    "every metric stands in the table, absent ones without a number": async ({ page, data }) => {
      const rows = await page.locator(".metrics tr[data-metric]").evaluateAll((all) =>
        all.map((r) => [r.dataset.metric, r.querySelector(".number").firstChild.textContent]));
      assert.deepEqual(rows, data.metrics.map((m) => [m.name, m.text ?? "–"]));
    },

    "what went wrong is said": async ({ page, data }) => {
      const text = (await page.locator(".banner").allTextContents()).join("\n");
      if (data.exit === null) assert.match(text, /incomplete/);
      for (const { outcome } of data.limits.filter((l) => l.outcome.exceeded)) {
        assert.ok(text.includes(outcome.metric));
        for (const frame of outcome.offender?.stack ?? []) assert.ok(text.includes(frame));
      }
      assert.equal(text.includes("lost"), data.collectors.some((c) => c.lost > 0));
    },

    "a drag over a chart zooms all of them, a double click shows the whole run": async ({ page, data }) => {
      const plots = page.locator("#series > .charts .u-over");
      if (await plots.count() === 0) return assert.ok(Object.values(data.series).every((s) => Math.max(...s.value) === 0 || s.at.length < 2));
      const whole = await stretch(page);
      assert.equal(whole[0], 0);
      await drag(page, plots.first(), 0.25, 0.75);
      const [from, to] = await stretch(page);
      assert.ok(Math.abs(from - whole[1] * 0.25) < whole[1] * 0.02, `from ${from}`);
      assert.ok(Math.abs(to - whole[1] * 0.75) < whole[1] * 0.02, `to ${to}`);
      await plots.last().dblclick();
      assert.deepEqual(await stretch(page), whole);
      return undefined;
    },

    "the pointer over a chart tells the values at that time": async ({ page }) => {
      const plot = page.locator(".chart .u-over").first();
      if (await plot.count() === 0) return;
      const values = () => page.locator(".chart .key-value").allTextContents();
      const before = await values();
      assert.ok(before.every((text) => text.startsWith("max ")));
      await plot.hover();
      assert.ok((await values()).every((text) => !text.startsWith("max ")));
    },

    "keys zoom and move": async ({ page }) => {
      const plot = page.locator(".chart .plot").first();
      if (await plot.count() === 0) return;
      const whole = await stretch(page);
      await plot.focus();
      await page.keyboard.press("+");
      const zoomed = await stretch(page);
      assert.ok(zoomed[1] - zoomed[0] < (whole[1] - whole[0]) * 0.51);
      await page.keyboard.press("ArrowRight");
      assert.ok((await stretch(page))[0] > zoomed[0]);
      await page.keyboard.press("0");
      assert.deepEqual(await stretch(page), whole);
    },

    "the time line draws, tells of a process, and zooms": async ({ page, data }) => {
      const canvas = page.locator(".timeline canvas");
      if (data.processes.pid.length === 0) return assert.equal(await canvas.count(), 0);
      await canvas.scrollIntoViewIfNeeded();
      await drawn(page);
      assert.ok(await colours(canvas) > 8, "it is blank");
      const box = await canvas.boundingBox();
      await page.mouse.move(box.x + 30, box.y + 32);
      const tip = await page.locator(".timeline .floating").textContent();
      const told = data.processes.pid.some((pid) => tip.includes(`${pid}, child of`)) || tip.includes("×");
      assert.ok(told, tip);
      const whole = await stretch(page);
      await drag(page, canvas, 0.55, 0.8);
      const [from, to] = await stretch(page);
      assert.ok(from > 0 && to < whole[1], `${from} ${to}`);
      return undefined;
    },

    "the time line finds a process by its PID": async ({ page, data }) => {
      if (data.processes.pid.length === 0) return;
      const pid = data.processes.pid.at(-1);
      await page.getByLabel("Filter the processes").fill(String(pid));
      await page.locator(".timeline canvas").focus();
      await page.keyboard.press("ArrowDown");
      const spoken = await page.locator(".timeline [aria-live]").textContent();
      const { pid: pids, texts, command } = data.processes;
      const said = (p, i) => spoken.includes(`PID ${p},`) && `${p} ${texts[command[i]]}`.includes(String(pid));
      assert.ok(pids.some(said), spoken);
    },

    "what was read and written stands by the files, with the advice": async ({ page, data }) => {
      if (data.io === null) return assert.equal(await page.locator("#io").count(), 0);
      const said = await page.locator("#io").textContent();
      assert.ok(said.includes(data.io.sums));
      for (const note of data.io.notes.slice(0, 20)) assert.ok(said.includes(note), note);
      const advised = data.io.advice.length > 0 ? await page.locator("#advice").textContent() : "";
      for (const advice of data.io.advice) {
        assert.ok(advised.includes(advice.text) && advised.includes(relative(data, advice.file)));
      }
      const heads = await page.locator(".files thead th").allTextContents();
      // What nothing is known of has no column.
      const read = data.io.are_reads_unseen ? [] : ["read", "reads"];
      const written = data.io.are_writes_unseen ? [] : ["written", "writes"];
      const expected = ["path", "time", ...read, ...written];
      assert.deepEqual(heads.slice(0, expected.length), expected);
      // The file that took most time comes first.
      const time = new Map();
      const { path, fold, is_waited_at: waited } = data.files;
      const own = new Set(path.filter((_, i) => fold[i] === "own" && !waited[i]));
      path.forEach((p, i) => own.has(p) && time.set(p, (time.get(p) ?? 0) + data.files.used.seconds[i]));
      if (time.size === 0) return undefined;
      const most = [...time].reduce((a, b) => (b[1] > a[1] ? b : a));
      const first = await page.locator(".files td.path").first().getAttribute("title");
      assert.equal(first, data.files.paths[most[0]]);
      return undefined;
    },

    "files are filtered and sorted": async ({ page, data }) => {
      if (data.files.path.length === 0) return assert.equal(await page.locator("#files").count(), 0);
      const path = data.files.paths[data.files.path.at(-1)];
      await unfold(page);
      await page.getByLabel("Filter the files").fill(path);
      const shown = await page.locator(".files td.path").evaluateAll((all) => all.map((e) => e.title));
      assert.ok(shown.includes(path) && shown.every((p) => p.includes(path)), shown.join());
      await page.getByLabel("Filter the files").fill("");
      await page.getByRole("button", { name: "path" }).click();
      const sorted = await page.locator(".files td.path").evaluateAll((all) => all.map((e) => e.title));
      assert.deepEqual(sorted, [...sorted].sort());
      return undefined;
    },

    "a file opens, by the mouse and by the keyboard, and all that is known of it is there": async ({ page, data }) => {
      const used = data.files.used;
      if (used === null) return assert.equal(await page.locator(".opener").count(), 0);
      const of = used.details;
      const fields = of.parts.flatMap((part) => part.fields);
      const pairs = (flat) => flat.flatMap((n, i) => (i % 2 ? [] : [[n, flat[i + 1]]]));
      await unfold(page);
      const openers = page.locator(".opener");
      assert.equal(await openers.count(), await page.locator(".files tr.opens").count());
      for (const [i, turn] of [[0, (o) => o.press("Enter")], [1, (o) => o.click()]]) {
        const opener = openers.nth(i);
        const id = await opener.getAttribute("aria-controls");
        const panel = page.locator(`#${id}`);
        assert.equal(await panel.isVisible(), false);
        await turn(opener);
        assert.equal(await opener.getAttribute("aria-expanded"), "true");
        const path = await page.locator("tr.opens .path").nth(i).getAttribute("title");
        const rows = data.files.path.flatMap((p, row) => (data.files.paths[p] === path ? [row] : []));
        const uses = panel.locator(".use");
        assert.equal(await uses.count(), Math.min(rows.length, 8));
        for (const use of await uses.all()) {
          const row = Number(await use.getAttribute("data-row"));
          assert.ok(rows.includes(row));
          const words = await use.locator("dt").allTextContents();
          const values = await use.locator("dd").allTextContents();
          for (const [place] of pairs(of.numbers[row])) assert.ok(words.includes(fields[place].word), fields[place].word);
          // Of what is nothing, or is not known, there is nothing.
          const zero = /^0( s| B)?$/;
          const places = ["from", "first used at", "first at", "0 B", "last used at", "last at"];
          values.forEach((v, n) => assert.ok(!zero.test(v) || places.includes(words[n]), `${words[n]} ${v}`));
          const bars = await use.locator(".sizes rect").evaluateAll((all) =>
            all.map((bar) => [Number(bar.dataset.from), Number(bar.dataset.calls), bar.getBoundingClientRect().height]));
          const sizes = [...pairs(of.read_sizes[row]), ...pairs(of.write_sizes[row])];
          assert.deepEqual(bars.map(([from, calls]) => [from, calls]), sizes);
          assert.ok(bars.every(([, , height]) => height >= 1), `${bars}`);
          const text = await use.textContent();
          for (const doubt of of.doubts[row]) assert.ok(text.includes(of.doubt[doubt].reason));
          const shown = await panel.locator(".not-exact").allTextContents();
          for (const trust of data.io?.trust ?? []) {
            if (fields.some((field) => field.key === trust.key)) assert.ok(shown.join().includes(trust.reason), trust.key);
          }
          if (of.slowest[row] !== null) assert.ok(text.includes(of.texts[of.slowest[row]]), "the slowest call");
        }
      }
      const calls = data.files.path.some((_, row) => of.read_sizes[row].length + of.write_sizes[row].length > 0);
      assert.ok(calls && of.slowest.some((call) => call !== null), "a recording has sizes and slowest calls");
      // What is open stays open when the table is drawn anew, and closes.
      const path = await page.locator("tr.opens .path").first().getAttribute("title");
      await page.getByLabel("Filter the files").fill(path);
      assert.equal(await openers.first().getAttribute("aria-expanded"), "true");
      await page.locator("tr.opens td.number").first().click();
      assert.equal(await openers.first().getAttribute("aria-expanded"), "false");
      assert.equal(await page.locator(".below .use").first().isVisible(), false);
      return undefined;
    },

    "system calls stand in a table, those that took most time first, where they were followed": async ({ page, data }) => {
      await unfold(page);
      assert.equal(await page.locator("#calls").count(), data.calls === null ? 0 : 1);
      if (data.calls === null) return;
      const rows = page.locator("#calls tbody tr");
      assert.equal(await rows.count(), data.calls.rows.length);
      const first = await rows.first().locator("td").allTextContents();
      const { call, calls, parts } = data.calls.rows[0];
      assert.equal(first[0], call);
      assert.equal(first[1].replace(/\D/g, ""), String(calls));
      assert.equal(first.at(-1), parts);
    },

    "each snapshot stands in a table, with what it was taken for": async ({ page, data }) => {
      const rows = await page.locator("#snapshots tbody tr").evaluateAll((all) =>
        all.map((r) => [...r.children].map((cell) => cell.textContent)));
      assert.deepEqual(rows, data.snapshots.map((s) =>
        [s.label, s.when, ...s.values.map((v) => v ?? "–"), s.because]));
    },

    "phases are bands behind every chart, with name and iteration under the pointer": async ({ page, data }) => {
      const phases = data.regions?.phases;
      if (!phases?.name.length) return assert.equal(await page.locator("#phases").count(), 0);
      const canvas = page.locator("#phases canvas");
      await canvas.scrollIntoViewIfNeeded();
      await drawn(page);
      assert.ok(await colours(canvas) > 4, "it is blank");
      const of = (row) => data.regions.texts[phases.name[row]];
      const longest = phases.start.map((from, row) => [phases.end[row] - from, row]).sort((a, b) => b[0] - a[0])[0][1];
      const at = (phases.start[longest] + phases.end[longest]) / 2 / data.duration;
      // Every chart has another colour where a phase is than where none is; the text says which.
      const plots = page.locator("#series > .charts .plot");
      for (const plot of await plots.all()) {
        const over = plot.locator(".u-over");
        await plot.evaluate((e) => e.scrollIntoView({ block: "center" }));
        const box = await over.boundingBox();
        const column = () => plot.locator("canvas").evaluate((c, part) => {
          const [u, scale] = [c.closest(".uplot").querySelector(".u-over").getBoundingClientRect(), devicePixelRatio];
          const own = c.getBoundingClientRect();
          const x = (u.left - own.left + u.width * part) * scale;
          return [...c.getContext("2d").getImageData(Math.round(x), Math.round((u.top - own.top) * scale), 1, Math.round(u.height * scale)).data].join();
        }, at);
        const shown = await column();
        await page.mouse.move(box.x + box.width * at, box.y + box.height / 2);
        const said = await plot.locator(".phase-at").textContent();
        assert.ok(said.includes(`${of(longest)} ${phases.first[longest]}`), said);
        const key = page.locator("#phases .key", { hasText: of(longest) }).first();
        await key.evaluate((e) => e.click());
        await drawn(page);
        assert.notEqual(await column(), shown, `the band of ${of(longest)} is drawn, and can be hidden: ${await plot.getAttribute("aria-label")}`);
        await key.evaluate((e) => e.click());
      }
      // The keyboard goes from phase to phase, and shows one alone.
      await canvas.focus();
      await page.keyboard.press("ArrowRight");
      const words = await page.locator("#phases .said").textContent();
      assert.match(words, / to .*; process \d+, thread \d+$/);
      const whole = await stretch(page);
      await page.keyboard.press("Enter");
      const [from, to] = await stretch(page);
      assert.ok(to - from < whole[1] - whole[0], words);
      return undefined;
    },

    "the flame graph has each region as wide as its time, zooms by click and key": async ({ page, data }) => {
      const { regions } = data;
      if (regions === null) {
        for (const id of ["regions", "regions-flat", "regions-values", "phases", "counters"]) {
          assert.equal(await page.locator(`#${id}`).count(), 0, id);
        }
        return undefined;
      }
      const { tree, texts } = regions;
      const time = (row) => tree.inclusive[row] + tree.open[row];
      const tops = tree.depth.flatMap((depth, row) => (depth === 0 ? [row] : []));
      const whole = tops.reduce((sum, row) => sum + time(row), 0);
      const frames = page.locator(".flame .frame");
      const boxes = () => frames.evaluateAll((all) => all.map((e) => [e.getAttribute("aria-label"), e.getAttribute("aria-level"), e.offsetWidth]));
      const width = (await boxes())[0][2];
      const widest = tree.depth.map((depth, row) => [depth, row]).filter(([depth]) => depth > 0)
        .sort((a, b) => time(b[1]) - time(a[1]))[0];
      for (const row of [...tops, ...widest ? [widest[1]] : []]) {
        const label = `${texts[tree.name[row]]}: `;
        const found = (await boxes()).find(([text, level]) => text.startsWith(label) && Number(level) === tree.depth[row] + 2);
        const expected = width * time(row) / whole;
        if (expected > 3) assert.ok(found && Math.abs(found[2] - expected) < 3, `${label} ${found} ${expected}`);
      }
      if (!widest) return undefined;
      const name = texts[tree.name[widest[1]]];
      const frame = page.locator(`.flame .frame[aria-level="${widest[0] + 2}"]`, { hasText: name }).first();
      await frame.hover();
      const tip = await page.locator(".flame .floating").textContent();
      assert.ok(tip.startsWith(name) && tip.includes("inclusive") && tip.includes("calls"), tip);
      if (tree.quality[widest[1]] === "sampled") assert.ok(tip.includes("±"), tip);
      await frame.click();
      assert.ok((await boxes()).some(([text, level, wide]) => text.startsWith(`${name}: `) && Number(level) === widest[0] + 2 && wide >= width - 2), "it has the whole width");
      await page.keyboard.press("ArrowUp");
      assert.equal(await page.evaluate(() => Number(document.activeElement.ariaLevel)), widest[0] + 1);
      await page.keyboard.press("Escape");
      assert.equal(await page.getByRole("button", { name: "All regions" }).isDisabled(), true);
      return undefined;
    },

    "regions by name, counters and metadata stand in tables, with their quality": async ({ page, data }) => {
      const { regions } = data;
      if (regions === null) return;
      await unfold(page);
      const rows = await page.locator(".regions tbody tr").evaluateAll((all) => all.map((r) =>
        [r.firstChild.title, r.children[3].textContent.replace(/\s/g, ""), r.querySelector(".badge").textContent]));
      assert.equal(rows.length, Math.min(regions.flat.length, 50));
      for (const region of regions.flat) {
        const found = rows.find(([name]) => name === region.name);
        if (found === undefined) continue;
        assert.equal(found[1], String(region.calls));
        assert.ok(found[2].startsWith(region.quality), found[2]);
        if (region.error_seconds) assert.ok(found[2].includes("±"), found[2]);
      }
      await page.getByLabel("Filter the regions").fill(regions.flat[0].name);
      assert.ok((await page.locator(".regions tbody tr").count()) >= 1);
      const told = await page.locator("#regions-values").textContent();
      for (const counter of regions.counters) assert.ok(told.includes(counter.name), counter.name);
      for (const [key, value] of Object.entries(regions.metadata)) assert.ok(told.includes(key) && told.includes(value), key);
      for (const note of regions.notes) assert.ok((await page.locator("#regions").textContent()).includes(note), note);
      const charts = new Set(regions.counter_series.filter((s) => s.rows.at.length > 1).map((s) => s.name));
      const titles = await page.locator("#counters h3").allTextContents();
      for (const name of charts) assert.ok(titles.some((title) => title.includes(name)), `${name} in ${titles}`);
    },

    "what is estimated, left over, cut short or of several ranks is marked": async ({ file, data }) => {
      if (data.regions === null) return;
      const { page, errors } = await openChanged(file, (d) => {
        const { tree, texts } = d.regions;
        texts.push("(other)");
        for (const [key, value] of Object.entries({ depth: 0, name: texts.length - 1, kind: "region", threads: 3, calls: 7,
          inclusive: d.duration, exclusive: d.duration, error: null, least: null, most: null, open_calls: 1, open: 0.5, unbalanced: 2,
          quality: "estimated" })) tree[key].push(value);
        tree.kernel_costs.push({ row: tree.depth.length - 1, quality: "exact", words: ["411 B sent (socket)"] });
        const ranks = { ranks: 4, mean_seconds: 1, max_seconds: 2.5, max_rank: 3, imbalance_ratio: 2.5 };
        d.regions.flat.unshift({ name: "(other)", threads: 3, calls: 7, inclusive_seconds: 9, exclusive_seconds: 9e9,
          longest_thread_seconds: 9, min_seconds: null, max_seconds: null, open_calls: 1, quality: "estimated", ranks });
        d.regions.notes.push("2 processes had not ended in order: it is shown as it was last");
      });
      await unfold(page);
      const other = page.locator(".flame .frame.other");
      assert.ok((await other.textContent()).includes("~"));
      await other.hover();
      const tip = await page.locator(".flame .floating").textContent();
      for (const word of ["found no room", "estimated", "open at the end", "unbalanced", "3 threads", "in the kernel411 B sent"]) assert.ok(tip.includes(word), `${word}: ${tip}`);
      const first = await page.locator(".regions tbody tr").first().textContent();
      for (const word of ["(other)", "2.50", "estimated", "1 open"]) assert.ok(first.includes(word), `${word}: ${first}`);
      assert.match(await page.locator(".regions tbody tr").first().locator("td[title^='rank']").getAttribute("title"), /rank 3 took 2.5/);
      assert.ok((await page.locator("#regions").textContent()).includes("had not ended in order"));
      assert.deepEqual(errors, []);
      await page.close();
    },

    "nothing is cut off on a phone": async ({ file }) => {
      const { page, errors } = await open(file, { viewport: { width: 390, height: 800 }, colorScheme: "dark" });
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      await page.close();
      assert.equal(width, 390);
      assert.deepEqual(errors, []);
    },
  };
}
