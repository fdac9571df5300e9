// The lines of a chart, read from the server for the stretch that is looked at, as fine as the screen is; and what
// comes anew while the job runs.

import type { Figure } from "../charts";
import { type Chart, type Line, rate } from "../series";
import type { View } from "../view";
import { ApiError, type Columns, type JobNews, getSeries } from "./api";

/** Where a line comes from. */
export interface Source {
  job: string;
  metric: string;
  /** What lies at time 0 of the chart, in nanoseconds since the epoch. */
  origin: bigint;
  line: Line;
  columns: Columns;
}

const PAUSE_MS = 100;
/** What is looked at may be so much shorter than what was read before finer columns are asked for. */
const COARSE = 1.3;

export class Feed {
  private isVisible = false;
  private loaded: { from: number; to: number; isTail: boolean } | null = null;
  private points = 600;
  private timer = 0;
  private loading: AbortController | null = null;

  constructor(private readonly chart: Chart, private readonly sources: Source[], private readonly figure: Figure,
    private readonly view: View, private readonly failed: (text: string) => void, private readonly signal: AbortSignal) {
    signal.addEventListener("abort", () => {
      clearTimeout(this.timer);
      this.loading?.abort();
    });
  }

  setVisible(isVisible: boolean): void {
    this.isVisible = isVisible;
    if (isVisible) this.look();
  }

  /** Something may have been missed. */
  reload(): void {
    this.loaded = null;
    this.look();
  }

  /** Another stretch is looked at: reads it if what is there does not do. */
  look(): void {
    if (!this.isVisible || !this.isWanting()) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.load(), this.loaded === null ? 0 : PAUSE_MS);
  }

  private isWanting(): boolean {
    const { loaded, view } = this;
    if (loaded === null) return true;
    const to = loaded.isTail ? Math.max(view.duration, loaded.to) : loaded.to;
    const isOutside = view.from < loaded.from || view.to > to;
    const most = Math.max(...this.sources.map(({ columns }) => columns.time.length));
    return isOutside || to - loaded.from > (view.to - view.from) * COARSE + 1e-9 && most > this.points / 4 || most > 2.5 * this.points;
  }

  private async load(): Promise<void> {
    this.loading?.abort();
    const loading = new AbortController();
    this.loading = loading;
    const signal = AbortSignal.any([loading.signal, this.signal]);
    const { view } = this;
    this.points = Math.min(Math.max(this.figure.element.clientWidth, 100), 4000);
    // A little beyond both sides: lines go on there, and growth needs where it grows from.
    const beside = (view.to - view.from) / this.points * 2;
    const [from, to] = [Math.max(view.from - beside, 0), view.to + beside];
    const isTail = view.to >= view.duration;
    try {
      const found = await Promise.all(this.sources.map((source) => getSeries({
        job: source.job, metric: source.metric, scope: "job", points: this.points,
        from: source.origin + nanoseconds(from), to: source.origin + nanoseconds(isTail ? to + 1 : to),
      }, signal)));
      this.loaded = { from: from === 0 ? 0 : view.from, to: view.to, isTail };
      found.forEach((columns, i) => { (this.sources[i] as Source).columns = columns; });
      this.failed("");
      this.draw();
    } catch (error) {
      if (!signal.aborted) this.failed(error instanceof ApiError ? error.message : String(error));
    }
  }

  /** Takes in what is new of the job, if the end of it is looked at. */
  news({ id, samples }: JobNews): void {
    if (this.loaded?.isTail !== true) return;
    let isNew = false;
    for (const source of this.sources.filter(({ job }) => job === id)) {
      for (const { time_ns: time, scope, values } of samples) {
        const value = values[source.metric];
        if (scope === "job" && value !== undefined) isNew = push(source.columns, time / 1e9, value) || isNew;
      }
    }
    if (isNew && this.isVisible) this.draw();
    if (isNew) this.look();
  }

  private draw(): void {
    for (const source of this.sources) fill(source, this.loaded?.from === 0);
    this.figure.update();
  }

  get isEmpty(): boolean {
    return this.chart.lines.every((line) => line.at.length === 0);
  }
}

function nanoseconds(seconds: number): bigint {
  return BigInt(Math.round(seconds * 1e9));
}

function push(columns: Columns, time: number, value: number): boolean {
  if (time <= (columns.time[columns.time.length - 1] ?? -Infinity)) return false;
  columns.time.push(time);
  columns.min.push(value);
  columns.max.push(value);
  columns.last.push(value);
  return true;
}

function fill({ line, columns, origin }: Source, isFromStart: boolean): void {
  const start = Number(origin) / 1e9;
  const at = columns.time.map((time) => Math.max(time - start, 0));
  if (line.metric.kind === "counter") {
    Object.assign(line, rate({ at, value: columns.last }, isFromStart));
    line.top = greatest(line.value);
  } else {
    Object.assign(line, { at, value: columns.last, low: columns.min, high: columns.max });
    line.top = greatest(columns.max);
  }
}

function greatest(values: number[]): number {
  return values.reduce((a, b) => Math.max(a, b), 0);
}
