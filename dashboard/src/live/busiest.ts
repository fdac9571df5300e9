// The processes that use most.

import { h, replace } from "../dom";
import { amount, count } from "../format";
import type { TopProcess, TopReport } from "../generated";
import { type Conditions, hasWords } from "./conditions";
import { Keyed } from "./keyed";
import { commandLine, printable, titled } from "./text";

const MOST = 15;

export class Busiest {
  readonly element: HTMLElement;
  private readonly rows: Keyed<TopProcess, ProcessRow>;
  private readonly note = h("p", { class: "note" });
  private readonly table: HTMLElement;

  constructor() {
    const body = h("tbody");
    this.rows = new Keyed(body, (process) => `${process.pid}`, () => new ProcessRow(), (row, process) => row.update(process));
    const numbers = ["CPUs busy", "CPU time", "resident", "threads"];
    this.table = h("table", { class: "busiest" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number" }, "PID"), h("th", { scope: "col" }, "user"),
        h("th", { scope: "col" }, "command"), h("th", { scope: "col" }, "state"),
        ...numbers.map((title) => h("th", { scope: "col", class: "number" }, title)))), body);
    this.element = h("section", { id: "busiest", "aria-labelledby": "busiest-title" },
      h("h2", { id: "busiest-title" }, "Busiest processes"), h("div", { class: "wide" }, this.table), this.note);
  }

  /** `pids`: sessions whose processes alone are shown; null for all. */
  update(report: TopReport, conditions: Conditions, pids: Set<number> | null): void {
    const text = ({ pid, user, name, command }: TopProcess) => `${pid} ${user} ${name} ${command.join(" ")}`;
    const { q, user } = conditions;
    const found = report.processes.filter((process) => (user === undefined || process.user === user) &&
      (pids === null || process.job != null && pids.has(process.job)) && hasWords(text(process), q));
    this.rows.set(found.slice(0, MOST));
    this.table.hidden = found.length === 0;
    const notes = [
      found.length === 0 && (Object.keys(conditions).length > 0 ? "No process fits the filter." : "No process is to be seen."),
      found.length > MOST && `${count(found.length - MOST)} more use less.`,
      report.processes_unreadable > 0 && `${count(report.processes_unreadable)} processes could not be read.`,
    ].filter(Boolean).join(" ");
    if (this.note.textContent !== notes) replace(this.note, notes);
  }
}

class ProcessRow {
  private readonly cells = Array.from({ length: 8 }, (_, i) => h("td", { class: i === 0 || i > 3 ? "number" : i === 2 ? "mono name" : "" }));
  readonly element = h("tr", {}, ...this.cells);

  update(process: TopProcess): void {
    const command = process.command.length > 0 ? commandLine(process.command) : `[${process.name}]`;
    const texts = [String(process.pid), printable(process.user), printable(command), stateWords(process.state),
      process.cpu_cores === null ? "–" : amount(process.cpu_cores, "cores"), amount(process.cpu_seconds, "seconds"),
      amount(process.memory_rss_bytes, "bytes"), count(process.threads)];
    const titles = ["", "", titled(command), process.state, `${process.cpu_cores ?? "not known"}`, `${process.cpu_seconds} s`,
      `${process.memory_rss_bytes} bytes`, ""];
    this.cells.forEach((cell, i) => {
      const [text, title] = [texts[i] ?? "", titles[i] ?? ""];
      if (cell.textContent !== text) replace(cell, text);
      if (title !== "" && cell.title !== title) cell.title = title;
    });
  }
}

const STATES: Record<string, string> = {
  R: "running", S: "sleeping", D: "waiting for a device", Z: "zombie", T: "stopped", t: "traced", I: "idle",
};

function stateWords(state: string): string {
  return STATES[state] ?? printable(state);
}
