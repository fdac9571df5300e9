// What was read and written, beyond the table of files: the sums, advice, who wrote what others read.

import { h, section } from "./dom";
import { flowGraph } from "./flow";
import type { Page } from "./generated";

/** So many lines of a list are shown at once. */
const LINES = 20;

export function ioSection(page: Page): HTMLElement | null {
  const { io } = page;
  if (io === null) return null;
  const advice = io.advice.map((a) => h("li", {},
    h("span", { class: "mono path" }, a.file), `: ${a.text} `, h("code", {}, a.rule)));
  return section("io", "Read and written",
    h("p", { class: "sums" }, io.sums),
    io.rest !== null && h("p", { class: "note" }, io.rest),
    ...list("What could be better", advice),
    ...list("Slowest calls", io.slowest.map((text) => h("li", {}, text))),
    ...flowGraph(io.flows),
    ...list("Who wrote what others read", io.flows.map((flow) => h("li", {}, flow.text))),
    ...list("Not seen", io.notes.map((text) => h("li", {}, text))));
}

function list(title: string, items: HTMLElement[]): HTMLElement[] {
  if (items.length === 0) return [];
  const more = items.slice(LINES);
  return [
    h("h3", {}, title),
    h("ul", { class: "lines" }, ...items.slice(0, LINES)),
    ...more.length > 0
      ? [h("details", {}, h("summary", {}, `${more.length} more`), h("ul", { class: "lines" }, ...more))]
      : [],
  ];
}
