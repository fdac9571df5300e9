// What the lines of `weigh run` say, and below them what could be better.

import { h, section } from "./dom";
import type { Page } from "./generated";
import { relative } from "./paths";

/** So many pieces of advice are shown at once. */
const MOST = 6;

export function digest(page: Page): HTMLElement {
  const rows = page.digest.map((row) => h("div", {},
    h("dt", {}, row.label), h("dd", { class: row.label === "note" ? "muted" : "" }, row.text)));
  return h("section", { id: "digest", "aria-label": "In short" }, h("dl", {}, ...rows));
}

export function adviceSection(page: Page): HTMLElement | null {
  const items = [
    ...page.advice === null ? [] : [h("li", {}, page.advice)],
    ...(page.io?.advice ?? []).map((advice) => h("li", {},
      h("span", { class: "mono path", title: advice.file }, relative(page, advice.file)), `: ${advice.text} `,
      h("code", {}, advice.rule))),
  ];
  if (items.length === 0) return null;
  const more = items.slice(MOST);
  return section("advice", "What could be better",
    h("ul", { class: "lines" }, ...items.slice(0, MOST)),
    more.length > 0 && h("details", {}, h("summary", {}, `${more.length} more`), h("ul", { class: "lines" }, ...more)));
}
