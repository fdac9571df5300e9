// Every value of the node, in a table that is made when it is opened.

import { h, replace } from "../dom";
import { count, measured, amount } from "../format";
import type { TopReport, TopValue } from "../generated";
import { exactly, helpOf } from "./reading";

/** So many rows are shown at most. */
const MOST = 300;

export class AllValues {
  readonly element: HTMLDetailsElement;
  private readonly brief = h("span", {});
  private readonly filter = h("input", { type: "search", placeholder: "Filter by scope or metric", "aria-label": "Filter the values" });
  private readonly body = h("tbody");
  private readonly rest = h("p", { class: "note" });
  private report: TopReport | null = null;

  constructor() {
    this.element = h("details", { class: "more" }, h("summary", {}, this.brief),
      h("div", { class: "controls" }, this.filter),
      h("div", { class: "wide" }, h("table", { class: "values" },
        h("thead", {}, h("tr", {}, ...["scope", "metric"].map((t) => h("th", { scope: "col" }, t)),
          ...["value", "growth"].map((t) => h("th", { scope: "col", class: "number" }, t)), h("th", { scope: "col" }, "quality"))),
        this.body)),
      this.rest);
    this.element.addEventListener("toggle", () => this.draw());
    this.filter.addEventListener("input", () => this.draw());
  }

  update(report: TopReport): void {
    this.report = report;
    const number = Object.values(report.metrics).reduce((n, values) => n + Object.keys(values).length, 0);
    const text = `All ${count(number)} values of the node`;
    if (this.brief.textContent !== text) replace(this.brief, text);
    this.draw();
  }

  private draw(): void {
    if (!this.element.open || this.report === null) return;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = Object.entries(this.report.metrics).flatMap(([scope, values]) =>
      Object.entries(values).map(([metric, value]) => ({ scope, metric, value })))
      .filter(({ scope, metric }) => words.every((word) => `${scope} ${metric} ${helpOf(metric)}`.toLowerCase().includes(word)));
    replace(this.body, ...found.slice(0, MOST).map(({ scope, metric, value }) => row(scope, metric, value)));
    replace(this.rest, found.length > MOST && `${count(found.length - MOST)} more; filter to see them.`);
  }
}

function row(scope: string, metric: string, value: TopValue): HTMLElement {
  const rate = value.per_second;
  return h("tr", { title: exactly(value) },
    h("td", { class: "mono name" }, scope),
    h("td", {}, h("code", {}, metric), h("span", { class: "muted" }, ` ${helpOf(metric)}`)),
    h("td", { class: "number" }, value.value === null ? "–" : amount(value.value, value.unit)),
    h("td", { class: "number" }, rate == null ? "" : measured(rate, { unit: value.unit, perSecond: true })),
    h("td", { class: "muted" }, value.quality));
}
