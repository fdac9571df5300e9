// The page of `weigh explain`: for each kind of calls what made the slow ones slow, and a histogram.

import "./report.css";
import "./explain.css";

import { append, h } from "./dom";
import { count } from "./format";
import type { CounterRow, ExplainPage, KindRow } from "./generated";
import { histogram, partClass } from "./histogram";

function draw(page: ExplainPage, root: HTMLElement): void {
  append(root,
    h("header", { class: "top" },
      h("div", { class: "mark" }, h("strong", {}, "weigh"), h("span", {}, `slow ${page.noun}, explained`)),
      h("h1", {}, page.command || "system calls"),
      h("p", { class: "muted" }, `${count(page.calls)} ${page.noun}; ${page.definitions}`)),
    h("main", {},
      ...page.warnings.map((text) =>
        h("aside", { class: "banner open" }, h("h2", {}, "Not all is here"), h("p", {}, text))),
      page.kinds.length > 0 && legend(page),
      ...page.kinds.map((kind, index) => section(kind, index, page)),
      page.left_out > 0 && h("p", { class: "note" },
        `${count(page.left_out)} more kinds of ${page.noun} have too few to compare, or took least.`)));
}

function legend({ noun, parts }: ExplainPage): HTMLElement {
  return h("section", { id: "legend", "aria-label": "Parts of the kernel" },
    h("p", { class: "note" },
      `Each bar stands for the ${noun} that took about that long. Its height is their number, on a logarithmic `
      + "scale: ten times as many make it a step higher. The colours below it are shares of the time of those "
      + `${noun}, however many they are.`),
    h("ul", { class: "legend-parts" }, ...parts.map((part, index) =>
      h("li", { title: part.help }, h("i", { class: partClass(parts, index) }), part.name))));
}

function section(kind: KindRow, index: number, { parts, noun }: ExplainPage): HTMLElement {
  const [first, ...others] = kind.sentences;
  const id = `kind-${index}`;
  return h("section", { class: "kind", id, "data-differs": String(kind.differs), "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, kind.title),
    h("p", {}, first ?? ""),
    others.length > 0 && h("ul", {}, ...others.map((text) => h("li", {}, text))),
    kind.count.length > 0 && histogram(kind, parts, noun),
    kind.counters.length > 0 && counters(kind));
}

/** What differs beside the time: means of a call, or of an interval. */
function counters({ counters, asked, slow, ordinary }: KindRow): HTMLElement {
  const of = (calls: number, all: number) => `${count(calls)} of ${count(all)}`;
  const line = (row: CounterRow) => h("tr", { title: row.help },
    h("th", { scope: "row" }, `${row.later ? "later, " : ""}${row.part}: ${row.name}`),
    h("td", {}, row.slow), h("td", {}, row.ordinary),
    h("td", {}, of(row.slow_calls, slow)), h("td", {}, of(row.ordinary_calls, ordinary)));
  const compared = asked ? "asked" : "slow";
  const heads = [`each ${compared} one`, "each ordinary one", `${compared} ones with any`, "ordinary ones with any"];
  return h("details", {}, h("summary", {}, "What differs beside the time"),
    h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, ""), ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, ...counters.map(line))));
}

const data = document.getElementById("weigh-data")?.textContent;
const root = document.getElementById("weigh");
if (data && root) draw(JSON.parse(data) as ExplainPage, root);
