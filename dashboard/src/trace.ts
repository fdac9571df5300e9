// The page of events: which there are, what each thread did when, how long pairs lasted, and how many events each
// process had over time.

import "./report.css";
import "./trace.css";

import { append, h, section } from "./dom";
import { count } from "./format";
import type { EventRow, PairRow, TracePage } from "./generated";
import { type Heat, heatMap } from "./heat";
import { latencies, short } from "./latency";
import { lanes } from "./lanes";
import { View } from "./view";

/** The page has six colours. */
const COLOURS = 6;

function draw(page: TracePage, root: HTMLElement): void {
  const view = new View(page.duration);
  append(root,
    h("header", { class: "top" },
      h("div", { class: "mark" }, h("strong", {}, "weigh"), h("span", {}, "events")),
      h("h1", {}, page.command || "events"),
      h("p", { class: "muted" }, page.place === "" ? page.summary : `${page.summary}; ${page.place}`)),
    h("main", {},
      ...page.warnings.map((text) =>
        h("aside", { class: "banner open" }, h("h2", {}, "Not all is here"), h("p", {}, text))),
      section("events", "Events", table(page.events)),
      page.lanes.length > 0 && section("threads", "Threads",
        h("p", { class: "note" }, `${page.marks_note} ${page.spans_note} Drag to look closer, double-click for all; + - 0 and arrow keys do the same.`),
        pairLegend(page.pairs), lanes(page, view)),
      page.pairs.length > 0 && section("pairs", "Pairs", ...page.pairs.map((pair) => pairFigure(pair, page, view))),
      page.processes.length > 0 && section("processes", "Events of each process",
        heatMap(processHeat(page), view))));
}

function table(events: EventRow[]): HTMLElement {
  const row = (event: EventRow, number: number) => h("tr", {},
    h("th", { scope: "row" }, h("i", { class: `colour-${number % COLOURS}` }), event.name),
    h("td", {}, count(event.total)),
    h("td", {}, event.per_second < 10 ? event.per_second.toFixed(1) : count(event.per_second)),
    h("td", {}, event.lost === null ? "" : count(event.lost)),
    h("td", { class: "which" }, event.which));
  const heads = ["event", "events", "a second", "lost", ""];
  return h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...events.map(row)));
}

function pairLegend(pairs: PairRow[]): HTMLElement | false {
  return pairs.length > 0 && h("ul", { class: "legend-pairs", "aria-label": "Kinds of pairs" },
    ...pairs.map((pair, number) => h("li", {}, h("i", { class: pairColour(number) }), pair.name)));
}

function pairColour(number: number): string {
  return `colour-${(number + 3) % COLOURS}`;
}

function pairFigure(pair: PairRow, page: TracePage, view: View): HTMLElement {
  const top = Math.max(1, ...pair.heat.flat());
  const heat: Heat = {
    title: `${pair.name}, over time`,
    rows: pair.heat.map((values, row) => ({
      label: `≥ ${short(pair.heat_from[row] ?? 0)}`, values, colour: () => 0, top,
    })),
    from: page.from, to: page.to, rowHeight: 16,
    say: (row, column) => `${count(pair.heat[row]?.[column] ?? 0)} that took ${short(pair.heat_from[row] ?? 0)} `
      + `to ${short(2 * (pair.heat_from[row] ?? 0))}, at ${short(page.from[column] ?? 0)}`,
  };
  return h("article", { class: "pair" },
    h("h3", {}, pair.name),
    h("p", {}, `${count(pair.total)} pairs: mean ${short(pair.mean)}, least ${short(pair.least)}, `
      + `p50 ${short(pair.p50)}, p99 ${short(pair.p99)}, most ${short(pair.most)}`),
    latencies(pair), heatMap(heat, view));
}

function processHeat(page: TracePage): Heat {
  const top = Math.max(1, ...page.processes.flatMap((process) => process.counts));
  return {
    title: "Events over time, by process",
    rows: page.processes.map(({ label, counts }) => ({ label, values: counts, colour: () => 2, top })),
    from: page.from, to: page.to, rowHeight: 18,
    say: (row, column) => {
      const process = page.processes[row];
      return `${process?.label ?? ""}: ${count(process?.counts[column] ?? 0)} events at ${short(page.from[column] ?? 0)}`;
    },
  };
}

const data = document.getElementById("weigh-data")?.textContent;
const root = document.getElementById("weigh");
if (data && root) draw(JSON.parse(data) as TracePage, root);
