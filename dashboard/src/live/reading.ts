// A value as a row shows it: a number to plot, words, and what a tooltip says exactly.

import { h, replace } from "../dom";
import { amount, measured } from "../format";
import type { MetricName, Quality, TopReport, TopValue, Unit } from "../generated";
import { NODE_METRICS } from "../node-metrics";
import { Spark, Track } from "./spark";

export type NodeMetric = keyof typeof NODE_METRICS | Extract<MetricName, `node_${string}`>;

export interface Reading {
  number: number | null;
  text: string;
  title: string;
  quality: Quality;
}

export const NOTHING: Reading = { number: null, text: "–", title: "no data", quality: "unavailable" };

/** What a value is drawn in: as it is, its growth in a second, or of time the part of a second. */
export type Form = "value" | "rate" | "part" | "cores";

export function nodeValue(report: TopReport, scope: string, metric: NodeMetric): TopValue | undefined {
  return report.metrics[scope]?.[metric];
}

export function read(value: TopValue | undefined, form: Form, metric: string): Reading {
  if (value === undefined) return NOTHING;
  const number = form === "value" ? value.value : value.per_second ?? null;
  const title = `${helpOf(metric)}: ${exactly(value)}`;
  if (number === null) return { ...NOTHING, title, quality: value.quality };
  return { number, text: formed(number, form, value.unit), title, quality: value.quality };
}

function formed(number: number, form: Form, unit: Unit): string {
  switch (form) {
    case "value": return amount(number, unit);
    case "rate": return measured(number, { unit, perSecond: true });
    case "part": return amount(number, "ratio");
    case "cores": return amount(number, "cores");
  }
}

export function helpOf(metric: string): string {
  return (NODE_METRICS as Record<string, string>)[metric] ?? metric.replace(/^node_|_total$/g, "").replaceAll("_", " ");
}

/** All digits. */
export function exactly({ value, unit, quality, per_second: rate }: TopValue): string {
  const grown = rate === undefined ? "" : rate === null ? "; growth not known yet" : `; ${rate} ${unit} a second`;
  return `${value === null ? "not available" : `${value} ${unit}`}${grown}; ${quality}`;
}

/** One number over another, both gauges: what is used of what there is. */
export function part(used: number | undefined | null, whole: number | undefined | null, unit: Unit, quality: Quality): Reading {
  if (used === undefined || used === null) return NOTHING;
  const of = whole ? ` of ${amount(whole, unit)}` : "";
  return { number: used, text: amount(used, unit) + of, title: `${used} ${unit}${whole ? ` of ${whole}` : ""}; ${quality}`, quality };
}

/** A small plot with its value. */
export class Plot {
  readonly track = new Track();
  readonly spark: Spark;
  readonly value = h("span", { class: "value" });

  constructor(top = 0) {
    this.spark = new Spark(this.track, top);
  }

  set(reading: Reading): void {
    this.track.push(reading.number);
    this.spark.update();
    sayReading(this.value, reading);
  }
}

/** What is not exact has a mark; the tooltip has all digits. */
export function sayReading(element: HTMLElement, { text, title, quality, number }: Reading): void {
  const isDoubtful = number !== null && (quality === "sampled" || quality === "estimated");
  if (element.dataset.text !== text) {
    element.dataset.text = text;
    replace(element, isDoubtful && h("span", { class: "doubtful", "aria-label": quality }, "~"), text);
  }
  if (element.title !== title) element.title = title;
}
