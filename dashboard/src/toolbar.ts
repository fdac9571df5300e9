// The interval of the run that is shown, and buttons that change it: for a touch screen, for a keyboard,
// and to get back to the whole.

import { h, replace } from "./dom";
import { clock, power } from "./format";
import type { View } from "./view";

export function toolbar(view: View): HTMLElement {
  const shown = h("output", { class: "stretch", "aria-live": "off" });
  const whole = button("Whole run", "Show the whole run", () => view.whole());
  const element = h("div", { class: "toolbar", role: "toolbar", "aria-label": "Stretch of time shown" },
    h("span", { class: "hint" }, "Drag over a chart to zoom, double-click to see all."),
    shown,
    button("−", "Zoom out", () => view.zoom(2)),
    button("+", "Zoom in", () => view.zoom(0.5)),
    button("◂", "Earlier", () => view.pan(-0.5)),
    button("▸", "Later", () => view.pan(0.5)),
    whole);
  const say = () => {
    const step = power((view.to - view.from) / 1000);
    replace(shown, `${clock(view.from, step, view.duration)} – ${clock(view.to, step, view.duration)}`);
    shown.dataset.from = String(view.from);
    shown.dataset.to = String(view.to);
    whole.disabled = view.isWhole;
  };
  view.onRange(say);
  say();
  return element;
}

function button(text: string, label: string, act: () => void): HTMLButtonElement {
  const element = h("button", { type: "button", "aria-label": label, title: label }, text);
  element.addEventListener("click", act);
  return element;
}
