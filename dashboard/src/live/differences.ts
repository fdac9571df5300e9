// The numbers of a job beside those of another run: the first ones, and all that differ by much.

import { h } from "../dom";
import { count } from "../format";
import type { MetricRow } from "../generated";
import type { JobPage } from "./api";
import { SHOWN } from "./headline";
import { printable } from "./text";

/** What differs by less is no difference. */
const MUCH = 0.05;

export function differences(own: JobPage, other: JobPage, id: string): HTMLElement {
  const others = new Map(other.metrics.map((metric) => [metric.name, metric]));
  const isFirst = (metric: MetricRow) => SHOWN.some(([name]) => name === metric.name);
  const pairs = own.metrics.flatMap((metric): [MetricRow, MetricRow][] => {
    const twin = others.get(metric.name);
    return twin === undefined || metric.value === null || twin.value === null ? [] : [[metric, twin]];
  });
  const shown = pairs.filter(([metric, twin]) => isFirst(metric) || Math.abs(part(metric, twin)) >= MUCH);
  const rest = pairs.length - shown.length;
  return h("div", { class: "differences wide" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "metric"), h("th", { scope: "col", class: "number" }, "this run"),
      h("th", { scope: "col", class: "number", title: printable(id) }, "the other"), h("th", { scope: "col", class: "number" }, "the other has"))),
    h("tbody", {}, ...shown.map(([metric, twin]) => h("tr", { "data-metric": metric.name },
      h("th", { scope: "row", title: metric.name }, metric.help), cell(metric), cell(twin),
      h("td", { class: "number" }, words(metric, twin)))))),
    rest > 0 && h("p", { class: "note" }, `${count(rest)} more differ by less than ${MUCH * 100} %.`));
}

function cell(metric: MetricRow): HTMLElement {
  const isDoubtful = metric.quality === "sampled" || metric.quality === "estimated";
  return h("td", { class: "number", title: `${metric.value} ${metric.unit}; ${metric.quality}` },
    isDoubtful && h("span", { class: "doubtful", "aria-label": metric.quality }, "~"), metric.text);
}

/** Of the greater one. */
function part({ value: own }: MetricRow, { value: other }: MetricRow): number {
  const most = Math.max(Math.abs(own ?? 0), Math.abs(other ?? 0));
  return most === 0 ? 0 : ((other ?? 0) - (own ?? 0)) / most;
}

function words(metric: MetricRow, twin: MetricRow): string {
  const [own, other] = [metric.value ?? 0, twin.value ?? 0];
  if (own === other) return "the same";
  if (own <= 0 || other < 0) return other > own ? "more" : "less";
  const ratio = other / own;
  if (ratio >= 2) return `${ratio < 100 ? Number(ratio.toPrecision(3)) : count(ratio)} times`;
  if (ratio <= 0.5) return ratio === 0 ? "none" : `1/${1 / ratio < 100 ? Number((1 / ratio).toPrecision(3)) : count(1 / ratio)}`;
  return `${ratio > 1 ? "+" : "−"}${Math.abs((ratio - 1) * 100).toFixed(1)} %`;
}
