// What was read and written, beyond the table of files: the sums, the slowest calls, who wrote what others read.

import { folded, h } from "./dom";
import { flowGraph } from "./flow";
import type { Page } from "./generated";

/** So many lines of a list are shown at once. */
const LINES = 20;

export function ioSection(page: Page): HTMLElement | null {
  const { io } = page;
  if (io === null) return null;
  return folded("io", "Read and written", io.flows.length === 0 ? "" : "with what flowed between processes",
    h("p", { class: "sums" }, io.sums),
    io.rest !== null && h("p", { class: "note" }, io.rest),
    ...list("Slowest calls", io.slowest.map((text) => h("li", {}, text))),
    ...flowGraph(page, io.flows),
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
