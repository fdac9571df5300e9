// What system calls cost in each part of the kernel, where `weigh run --calls` followed them.

import { folded, h } from "./dom";
import { count, seconds, size } from "./format";
import type { CallKindRow, Page } from "./generated";

const TITLES = ["calls", "failed", "total", "mean", "p50", "p99", "max", "bytes", "later"];

export function callsSection(page: Page): HTMLElement | null {
  const { calls } = page;
  if (calls === null) return null;
  const left = calls.total - calls.rows.length;
  return folded("calls", "System calls", calls.headline,
    h("div", { class: "wide" }, h("table", { class: "calls" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "call"),
        ...TITLES.map((title) => h("th", { scope: "col", class: "number" }, title)),
        h("th", { scope: "col" }, "where the time went"))),
      h("tbody", {}, ...calls.rows.map(row)))),
    left > 0 && h("p", { class: "note" }, `${count(left)} kinds of calls that took less time are in calls.json.`),
    ...calls.notes.map((note) => h("p", { class: "note doubt" }, h("span", { class: "badge estimated" }, "note"), ` ${note}`)));
}

function row(kind: CallKindRow): HTMLElement {
  const numbers = [count(kind.calls), kind.errors > 0 ? count(kind.errors) : "", seconds(kind.total),
    seconds(kind.total / Math.max(kind.calls, 1)), seconds(kind.p50), seconds(kind.p99), seconds(kind.max),
    kind.bytes > 0 ? size(kind.bytes) : "", kind.later > 0 ? seconds(kind.later) : ""];
  return h("tr", {}, h("td", { class: "mono" }, kind.call), ...numbers.map((text) => h("td", { class: "number" }, text)),
    h("td", { class: "muted" }, kind.parts));
}
