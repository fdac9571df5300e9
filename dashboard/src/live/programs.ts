// Programs that publish their regions to the agent: below each those that took most time by themselves.

import { h, replace } from "../dom";
import { count, seconds } from "../format";
import type { FlatRegion, ProgramState, TopProfile } from "../generated";
import { Keyed } from "./keyed";
import { printable, titled } from "./text";

const MOST = 30;
const COLUMNS = ["region", "exclusive", "inclusive", "calls"];
const STATES: Record<ProgramState, string> = {
  running: "", ended: ", has ended", cut_short: ", was cut short", left: ", is not followed any more",
};

export class Programs {
  readonly element: HTMLElement;
  private readonly programs: Keyed<TopProfile, ProgramRows>;
  private readonly note = h("p", { class: "note" });

  constructor(id = "programs") {
    const heads = h("thead", {}, h("tr", {}, ...COLUMNS.map((title, at) => h("th", { scope: "col", class: at > 0 ? "number" : "" }, title))));
    const table = h("table", { class: "readings sessions published" }, heads);
    this.programs = new Keyed(table, keyOf, () => new ProgramRows(), (rows, program) => rows.update(program), heads);
    this.element = h("section", { id, "aria-labelledby": `${id}-title`, hidden: true },
      h("h2", { id: `${id}-title` }, "Regions of programs"), h("div", { class: "wide" }, table), this.note);
  }

  update(programs: TopProfile[], leftOut: number): void {
    this.element.hidden = programs.length === 0;
    this.programs.set(programs.slice(0, MOST));
    const more = Math.max(0, programs.length - MOST) + leftOut;
    const text = more === 0 ? "" : `${count(more)} more are in weigh agent read profiles.`;
    if (this.note.textContent !== text) replace(this.note, text);
  }
}

function keyOf({ uid, pid, told_pid, name }: TopProfile): string {
  return JSON.stringify([uid, pid, told_pid, name]);
}

class ProgramRows {
  readonly element: HTMLElement;
  private readonly head = h("th", { colspan: COLUMNS.length, scope: "rowgroup" });
  private readonly rows: Keyed<FlatRegion, RegionLine>;

  constructor() {
    const group = h("tr", { class: "group" }, this.head);
    this.element = h("tbody", {}, group);
    this.rows = new Keyed(this.element, ({ name }) => name, (region) => new RegionLine(region), (row, region) => row.update(region), group);
  }

  update(program: TopProfile): void {
    const { name, pid, told_pid, user, state, publishes_total, regions_left_out } = program;
    const more = regions_left_out > 0 ? `, ${count(regions_left_out)} more regions` : "";
    const published = publishes_total > 0 ? `, published ${count(publishes_total)} times` : "";
    const words = ` ${pid ?? told_pid ?? ""} of ${printable(user)}${STATES[state]}${published}${more}`;
    if (this.head.textContent !== printable(name) + words) replace(this.head, h("code", { title: titled(name) }, printable(name)), h("span", { class: "muted" }, words));
    this.rows.set(program.regions);
  }
}

class RegionLine {
  readonly element: HTMLElement;
  private readonly cells = COLUMNS.slice(1).map((title) => h("td", { "data-title": title, class: "number" }));

  constructor({ name }: FlatRegion) {
    this.element = h("tr", {}, h("th", { scope: "row", class: "mono name", title: titled(name) }, printable(name)), ...this.cells);
  }

  update({ exclusive_seconds, inclusive_seconds, calls, open_calls, quality }: FlatRegion): void {
    const mark = quality === "exact" ? "" : "~";
    const open = open_calls == null || open_calls === 0 ? "" : ` + ${count(open_calls)} open`;
    const texts = [mark + seconds(exclusive_seconds), mark + seconds(inclusive_seconds), count(calls) + open];
    const exact = [`${exclusive_seconds} s`, `${inclusive_seconds} s`, `${calls} calls that have ended, ${quality}`];
    this.cells.forEach((cell, at) => {
      if (cell.textContent !== texts[at]) replace(cell, texts[at] ?? "");
      cell.title = exact[at] ?? "";
    });
  }
}
