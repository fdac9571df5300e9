// What is said about a row of the time line.

import { h } from "./dom";
import { amount, count, seconds } from "./format";
import type { MetricRow } from "./generated";
import type { Process, Row } from "./processes";

const LONGEST = 400;

/** How many metrics of each group are told. */
const OF_EACH_GROUP = 2;

export function describe(row: Row, metrics: MetricRow[], duration: number): HTMLElement[] {
  return row.folded.length > 0 ? several(row, duration) : one(row.process, metrics, duration);
}

export function inOneLine(row: Row): string {
  const p = row.process;
  if (row.folded.length > 0) return `${count(row.folded.length)} times ${p.name}`;
  return `${p.name}, PID ${p.pid}, started at ${seconds(p.start)}, lasted ${seconds(p.end - p.start)}, ${p.ended}`;
}

function one(p: Process, metrics: MetricRow[], duration: number): HTMLElement[] {
  const told = metrics.filter((m) => (p.metrics.get(m.name) ?? 0) !== 0 && m.name !== "wall_seconds");
  const seen = new Map<string, number>();
  const first = told.filter((m) => {
    const before = seen.get(m.group) ?? 0;
    seen.set(m.group, before + 1);
    return before < OF_EACH_GROUP;
  });
  return [
    h("p", { class: "mono" }, shortened(p.command || p.name)),
    facts([
      ["process", `${p.pid}, child of ${p.parentPid}, user ${p.uid}`],
      ["from, to", `${seconds(p.start)} to ${seconds(p.end)}`],
      ["lasted", `${seconds(p.end - p.start)} (${share(p.end - p.start, duration)})`],
      ["end", p.ended],
      ...first.map((m): [string, string] => [m.help, amount(p.metrics.get(m.name) ?? 0, m.unit)]),
    ]),
  ];
}

function several(row: Row, duration: number): HTMLElement[] {
  const all = row.folded;
  const sum = (of: (p: Process) => number) => all.reduce((a, p) => a + of(p), 0);
  const last = all.reduce((a, p) => Math.max(a, p.end), 0);
  const failed = all.filter((p) => p.failed).length;
  const cpu = sum((p) => p.metrics.get("cpu_seconds") ?? 0);
  return [
    h("p", { class: "mono" }, `${row.process.name} × ${count(all.length)}`),
    facts([
      ["from, to", `${seconds(row.process.start)} to ${seconds(last)}`],
      ["lasted in all", seconds(sum((p) => p.end - p.start))],
      ["CPU time", cpu > 0 ? `${seconds(cpu)} (${share(cpu, duration)} of one CPU)` : "–"],
      ["failed", count(failed)],
      ["", row.isOpen ? "click to fold" : "click to unfold"],
    ]),
  ];
}

function facts(pairs: [string, string][]): HTMLElement {
  return h("dl", {}, ...pairs.map(([word, value]) =>
    h("div", {}, h("dt", {}, word), h("dd", {}, value))));
}

function share(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–";
}

function shortened(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
