// Which charts there are, and their points: one chart for each group and measure, a line for each
// series in it. Counters are drawn as rates.

import type { Measure } from "./format";
import type { GroupTitle, MetricRow, Page, SeriesRows } from "./generated";

export interface Points {
  at: number[];
  value: number[];
}

export interface Line {
  metric: MetricRow;
  at: number[];
  value: number[];
  /** The greatest value. */
  top: number;
  /** Where a point stands for many samples: the least and the greatest of them. */
  low?: number[];
  high?: number[];
  /** Of another run, to compare with: has the colour of the line of that number. */
  otherOf?: number;
}

export interface Chart {
  group: GroupTitle;
  /** No other chart of the page has it. */
  title: string;
  measure: Measure;
  lines: Line[];
  /** What each line is called, where its metric does not say it. */
  names?: string[];
}

export function charts(page: Page): { charts: Chart[]; flat: MetricRow[] } {
  return arrange(page, (metric) => {
    const rows = metric.series === null ? undefined : page.series[metric.series];
    const line = rows && lineOf(metric, rows);
    return line && line.at.length > 1 ? line : null;
  });
}

/** The charts of the lines that metrics have; those that are zero all the time are in none. */
export function arrange(page: Page, lineFor: (metric: MetricRow) => Line | null): { charts: Chart[]; flat: MetricRow[] } {
  const found: Chart[] = [];
  const flat: MetricRow[] = [];
  for (const group of page.groups) {
    for (const metric of page.metrics.filter((m) => m.group === group.group)) {
      const line = lineFor(metric);
      if (line === null) continue;
      if (line.top === 0) flat.push(metric);
      else place(found, group, measureOf(metric), line);
    }
  }
  found.forEach((chart) => { chart.title = titleOf(chart, found); });
  // What is used comes before what there is room for.
  found.sort((a, b) => Number(isOfRoom(a.lines[0])) - Number(isOfRoom(b.lines[0])));
  return { charts: found, flat };
}

function place(charts: Chart[], group: GroupTitle, measure: Measure, line: Line): void {
  const fits = (c: Chart) => c.group === group && c.measure.unit === measure.unit &&
    c.measure.perSecond === measure.perSecond && isOfRoom(c.lines[0]) === isOfRoom(line);
  const chart = charts.find(fits);
  // The greatest number of cores follows from the growth of CPU time: one line is enough.
  if (chart && measure.unit === "cores") return;
  if (chart) chart.lines.push(line);
  else charts.push({ group, title: group.title, measure, lines: [line] });
}

/** What there is room for is many times what is used: on one axis the other lines would lie on its ground. */
function isOfRoom(line: Line | undefined): boolean {
  return /_(virtual|free)_/.test(line?.metric.series ?? "");
}

/** The group's, and what tells it from other charts of the group: its only line, or else its unit. */
function titleOf(chart: Chart, all: Chart[]): string {
  const title = chart.group.title;
  if (all.filter((c) => c.group === chart.group).length === 1) return title;
  return `${title}: ${chart.lines.length === 1 ? seriesNames(chart)[0] : unitWords(chart)}`;
}

export function unitWords(chart: Chart): string {
  const { unit, perSecond } = chart.measure;
  if (unit === "cores") return "CPUs busy";
  if (unit === "bytes") return perSecond ? "bytes per second" : "bytes";
  if (unit === "count") return perSecond ? "events per second" : "number";
  return unit;
}

/** The series' names without what the chart's title says: the unit, and a first word that all
 * have. */
export function seriesNames(chart: Chart): string[] {
  if (chart.names !== undefined) return chart.names;
  const names = chart.lines.map((line) => (line.metric.series ?? "")
    .replace(/_total$/, "").replace(/_(bytes|seconds|ratio)$/, "").split("_"));
  const shared = names.length > 1 && names.every((words) => words[0] === names[0]?.[0]);
  return names.map((words) => (shared && words.length > 1 ? words.slice(1) : words).join(" "));
}

/** Seconds of CPU per second are cores; other counters are drawn per second. */
function measureOf(metric: MetricRow): Measure {
  if (metric.kind !== "counter") return { unit: metric.unit, perSecond: false };
  if (metric.unit === "seconds") return { unit: "cores", perSecond: false };
  return { unit: metric.unit, perSecond: true };
}

function lineOf(metric: MetricRow, rows: SeriesRows): Line {
  const { at, value } = metric.kind === "counter" ? rate(rows) : rows;
  return { metric, at, value, top: value.reduce((a, b) => Math.max(a, b), 0) };
}

/** Growth per second. Samples that follow hard upon another (taken at a new memory peak) are
 * joined to the next one: over such a short time the rate would be noise. Rows that do not begin with the run
 * have their first row as what the others grow from. */
export function rate(rows: Points, isFromStart = true): Points {
  const out = { at: [] as number[], value: [] as number[] };
  const least = usualStep(rows.at) / 2;
  let lastAt = isFromStart ? 0 : rows.at[0] ?? 0;
  let lastValue = isFromStart ? 0 : rows.value[0] ?? 0;
  rows.at.forEach((at, i) => {
    const isLast = i === rows.at.length - 1;
    if (at <= lastAt || (at - lastAt < least && !isLast)) return;
    const value = rows.value[i] ?? lastValue;
    out.at.push(at);
    out.value.push(Math.max(0, value - lastValue) / Math.max(at - lastAt, least));
    lastAt = at;
    lastValue = value;
  });
  if (isFromStart && out.at.length > 0) {
    out.at.unshift(0);
    out.value.unshift(out.value[0] ?? 0);
  }
  return out;
}

function usualStep(at: number[]): number {
  const steps = at.slice(1).map((t, i) => t - (at[i] ?? 0)).filter((d) => d > 0).sort((a, b) => a - b);
  return steps[Math.floor(steps.length / 2)] ?? 0;
}
