// Headline numbers: a card for each group of metrics, its first metric large, more of it below.

import { h } from "./dom";
import type { GroupTitle, MetricRow, Page } from "./generated";
import { badge } from "./quality";

/** How many further metrics a card shows. */
const FURTHER = 3;

export function cards(page: Page): HTMLElement {
  const all = page.groups.map((group) => ({
    group,
    known: page.metrics.filter((m) => m.group === group.group && m.text !== null),
    missing: page.metrics.filter((m) => m.group === group.group && m.text === null),
  }));
  const shown = all.filter((g) => g.known.length > 0).map((g) => card(g.group, g.known));
  const absent = all.filter((g) => g.known.length === 0 && g.missing.length > 0)
    .map((g) => h("li", {}, h("b", {}, g.group.title), ` ${reasons(g.missing)}`));
  return h("section", { id: "headlines", "aria-label": "Headline numbers" },
    h("div", { class: "cards" }, ...shown),
    absent.length > 0 && h("ul", { class: "absent" }, h("li", {}, "Not available:"), ...absent));
}

function reasons(metrics: MetricRow[]): string {
  return [...new Set(metrics.map((m) => m.reason ?? "no reason given"))].join("; ");
}

function card(group: GroupTitle, known: MetricRow[]): HTMLElement {
  const [first, ...others] = known;
  if (first === undefined) return h("div");
  const further = others.filter((m) => m.value !== 0).slice(0, FURTHER);
  const quiet = known.every((m) => m.value === 0);
  return h("article", { class: quiet ? "card quiet" : "card", "data-metric": first.name },
    h("h3", {}, group.title),
    h("p", { class: "big" }, h("span", { class: "value", "data-value": String(first.value) },
      ...numberAndUnit(first.text ?? "")), badge(first)),
    h("p", { class: "help" }, first.help),
    further.length > 0 && h("dl", {}, ...further.map((m) => h("div", { "data-metric": m.name },
      h("dt", { title: m.help }, m.help),
      h("dd", { "data-value": String(m.value) },
        m.text, m.quality !== "exact" && h("span", { class: `dot ${m.quality}`,
          title: `${m.quality}: ${m.reason ?? ""}` }))))));
}

/** The text with what is not a number set smaller. */
function numberAndUnit(text: string): (Node | string)[] {
  return text.split(/(\p{L}+|%)/u).map((part, i) => (i % 2 ? h("small", {}, part) : part));
}
