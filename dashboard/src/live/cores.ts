// The CPUs as one heat map: a row for each, a column for each report.

import { h } from "../dom";
import { amount } from "../format";
import type { CoreUse, TopReport } from "../generated";
import { type HeatRow, heatMap } from "../heat";
import { View } from "../view";

const COLUMNS = 120;
const BUSY = 0;
const STEAL = 1;

export class Cores {
  readonly element = h("div", { class: "cores" });
  private readonly view = new View(COLUMNS);
  private rows: HeatRow[] = [];
  private times: string[] = [];
  private steal: number[][] = [];

  update(report: TopReport): void {
    if (report.cores.length !== this.rows.length) this.build(report.cores);
    shift(this.times, clockOf(report.time));
    report.cores.forEach(({ busy_ratio: busy, steal_ratio: steal }, i) => {
      shift(this.rows[i]?.values ?? [], busy ?? 0);
      shift(this.steal[i] ?? [], steal ?? 0);
    });
    this.view.refresh();
  }

  private build(cores: CoreUse[]): void {
    const height = Math.min(Math.max(Math.floor(260 / cores.length), 2), 16);
    const every = Math.ceil(13 / height);
    this.times = Array<string>(COLUMNS).fill("");
    this.steal = cores.map(() => Array<number>(COLUMNS).fill(0));
    this.rows = cores.map(({ core }, row) => ({
      label: row % every === 0 ? `CPU ${core}` : "", values: Array<number>(COLUMNS).fill(0), top: 1,
      colour: (column) => (this.stealAt(row, column) > 0.1 ? STEAL : BUSY),
    }));
    const from = Array.from({ length: COLUMNS }, (_, i) => i);
    this.element.replaceChildren(heatMap({
      title: `${cores.length} CPUs`, rows: this.rows, from, to: from.map((i) => i + 1), rowHeight: height,
      scale: "fullest colour: busy all the time; orange: more than a tenth taken by the host",
      say: (row, column) => this.say(cores[row]?.core ?? row, row, column),
    }, this.view));
  }

  private stealAt(row: number, column: number): number {
    return this.steal[row]?.[column] ?? 0;
  }

  private say(core: number, row: number, column: number): string {
    const time = this.times[column] ?? "";
    if (time === "") return `CPU ${core}: before this page was opened`;
    const steal = this.stealAt(row, column);
    return `CPU ${core} at ${time}: ${amount(this.rows[row]?.values[column] ?? 0, "ratio")} busy` +
      (steal > 0 ? `, ${amount(steal, "ratio")} taken by the host` : "");
  }
}

function shift<T>(values: T[], value: T): void {
  values.push(value);
  values.shift();
}

/** The time of day, of the reader's clock. */
export function clockOf(time: string | Date): string {
  return new Date(time).toLocaleTimeString([], { hour12: false });
}
