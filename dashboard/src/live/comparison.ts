// The choice of another run whose series stand beside those of the job.

import { h, replace } from "../dom";
import { type JobRow, getJobs } from "./api";
import { note } from "./route";
import { commandLine, moment, printable } from "./text";

/** So many runs are offered. */
const MOST = 200;

export function comparison(id: string, query: URLSearchParams, signal: AbortSignal, changed: () => void): HTMLElement {
  const select = h("select", { "aria-label": "Run to compare with" }, h("option", { value: "" }, "no other run"));
  const shift = h("input", { type: "number", step: "any", value: query.get("shift") ?? "0", "aria-label": "Shift of the other run in seconds" });
  const chosen = query.get("with") ?? "";
  const choose = () => {
    note({ with: select.value, shift: Number(shift.value) === 0 ? null : shift.value });
    changed();
  };
  const fill = (jobs: JobRow[]) => {
    const own = jobs.find((job) => job.id === id);
    const same = (job: JobRow) => Number(own !== undefined && commandLine(job.command) === commandLine(own.command));
    const others = jobs.filter((job) => job.id !== id).sort((a, b) => same(b) - same(a) || (a.started < b.started ? 1 : -1));
    replace(select, h("option", { value: "" }, "no other run"), ...others.slice(0, MOST).map((job) =>
      h("option", { value: job.id }, `${moment(job.started)} ${printable(commandLine(job.command), 60)}`)));
    select.value = chosen;
  };
  const element = h("details", { class: "comparison", open: chosen !== "" }, h("summary", {}, "Compare"),
    h("div", { class: "controls" }, h("label", {}, "with ", select), h("label", {}, "shifted by ", shift, " s")));
  let isFilled = false;
  const open = () => {
    if (!element.open || isFilled) return;
    isFilled = true;
    getJobs(signal).then(fill, (error: Error) => !signal.aborted && element.append(h("p", { class: "note" }, error.message)));
  };
  element.addEventListener("toggle", open);
  open();
  select.addEventListener("change", choose);
  shift.addEventListener("change", choose);
  return element;
}
