// How far a value can be trusted, as a badge that says why when it is pointed at or focused.

import { h } from "./dom";
import type { Value } from "./generated";

let badges = 0;

export function badge(metric: Pick<Value, "quality" | "source" | "reason">): HTMLElement {
  const note = metric.reason ?? (metric.quality === "exact" ? "counted at every event" : "");
  const text = note === "" ? `source: ${metric.source}` : `${note} (source: ${metric.source})`;
  const id = `badge-${(badges += 1)}`;
  const tip = h("span", { class: "tip", role: "tooltip", id }, text);
  return h("span", { class: `badge ${metric.quality}`, tabindex: 0, "aria-describedby": id },
    metric.quality, tip);
}
