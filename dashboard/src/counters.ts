// Counters, gauges and events of the program itself over time: a chart for each, a line for each process.

import { h, section } from "./dom";
import { figure } from "./charts";
import type { CounterSeries, MetricRow, Page } from "./generated";
import type { Phases } from "./phases";
import { type Chart, type Line, rate } from "./series";
import type { View } from "./view";

/** So many charts are shown at first. */
const MOST = 3;
/** So many lines has one of them. */
const LINES = 6;

export function countersSection(page: Page, view: View, phases: Phases): HTMLElement | null {
  const found = counterCharts(page);
  if (found.length === 0) return null;
  const plots = found.map((chart) => figure(chart, view, phases));
  const more = plots.slice(MOST);
  const leftOut = page.regions?.counter_series_left_out ?? 0;
  return section("counters", "Counters of the program",
    h("div", { class: "charts" }, ...plots.slice(0, MOST)),
    more.length > 0 && h("details", { class: "more" },
      h("summary", {}, `${more.length} more ${more.length === 1 ? "counter" : "counters"}`),
      h("div", { class: "charts" }, ...more)),
    leftOut > 0 && h("p", { class: "note" }, `${leftOut} series of counters are not on this page; series.parquet has them.`));
}

export function counterCharts(page: Page): Chart[] {
  const { regions } = page;
  if (regions === null) return [];
  const byName = new Map<string, CounterSeries[]>();
  for (const series of regions.counter_series) {
    const known = byName.get(series.name);
    if (known === undefined) byName.set(series.name, [series]);
    else known.push(series);
  }
  return [...byName].flatMap(([name, all]) => {
    const kinds = new Set(regions.counters.filter((counter) => counter.name === name).map((counter) => counter.kind));
    const isCounter = kinds.size === 1 && kinds.has("counter");
    const lines = all.map((series) => lineOf(series, isCounter)).filter((line) => line.at.length > 1);
    if (lines.length === 0) return [];
    const kind = kinds.size === 1 ? [...kinds][0] : "value";
    const chart: Chart = {
      group: { group: "processes", title: name }, title: `${kind} ${name}`,
      measure: { unit: "count", perSecond: isCounter, isReal: true },
      lines: lines.slice(0, LINES), names: all.slice(0, LINES).map((series) => `process ${series.process}`),
    };
    return [chart];
  });
}

function lineOf(series: CounterSeries, isCounter: boolean): Line {
  const { at, value } = isCounter ? rate(series.rows) : series.rows;
  const metric: MetricRow = { name: series.name, help: `${series.name} of process ${series.process}`, counts: "", group: "processes",
    kind: isCounter ? "counter" : "gauge", unit: "count", series: `region:${series.name}`, value: null, text: null,
    source: "none", quality: "exact", reason: null };
  return { metric, at, value, top: value.reduce((a, b) => Math.max(a, b), -Infinity) };
}
