// What is wrong on the node, in words, with the line to paste; then what cannot be judged, and why.

import { h, replace } from "../dom";
import type { RuleStatus, Severity, TopReport } from "../generated";
import { Keyed } from "./keyed";
import { printable } from "./text";

const WORDS: Record<Severity, string> = { critical: "work is lost", warning: "work takes longer", note: "something is wasted" };

export class Rules {
  readonly element: HTMLElement;
  private readonly rows: Keyed<RuleStatus, RuleRow>;
  private readonly unknown = h("ul", { class: "unknown-rules" });
  private readonly heading = h("summary");
  private readonly rest = h("details", { hidden: true }, this.heading, this.unknown);

  constructor() {
    const list = h("ul", { class: "rules" });
    this.rows = new Keyed(list, (rule) => `${rule.rule} ${rule.scope ?? ""}`, () => new RuleRow(), (row, rule) => row.update(rule));
    this.element = h("section", { id: "rules", "aria-labelledby": "rules-title" },
      h("h2", { id: "rules-title" }, "What is wrong"), list, this.rest);
  }

  update(report: TopReport): void {
    const holding = report.rules.filter((rule) => rule.state === "holds");
    const unknown = report.rules.filter((rule) => rule.state === "unavailable");
    this.rows.set(holding);
    this.element.hidden = holding.length === 0;
    this.rest.hidden = unknown.length === 0;
    const heading = `${unknown.length} rules cannot be judged here`;
    if (this.heading.textContent === heading) return;
    replace(this.heading, heading);
    replace(this.unknown, ...unknown.map((rule) => h("li", {}, `${printable(rule.rule)}: ${printable(rule.reason ?? "a value is missing")}`)));
  }
}

class RuleRow {
  private readonly severity = h("strong");
  private readonly text = h("span", { class: "words" });
  private readonly paste = h("code");
  readonly element = h("li", {}, this.severity, " ", this.text, " ", this.paste);

  update(rule: RuleStatus): void {
    const texts: [HTMLElement, string][] = [[this.severity, rule.severity], [this.text, printable(rule.text)], [this.paste, printable(rule.paste)]];
    for (const [element, text] of texts) if (element.textContent !== text) replace(element, text);
    this.severity.className = rule.severity;
    this.severity.title = WORDS[rule.severity];
    this.paste.hidden = rule.paste === "";
  }
}
