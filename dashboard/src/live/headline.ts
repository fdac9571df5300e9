// The numbers of a job that are looked at first, with how far each can be trusted; new while it runs.

import { h, replace } from "../dom";
import { amount } from "../format";
import type { MetricName, MetricRow, Quality } from "../generated";
import { badge } from "../quality";
import type { JobNews, JobPage, JobValue } from "./api";

/** With shorter words than the tables have. */
export const SHOWN: [MetricName, string][] = [
  ["wall_seconds", "time"], ["cpu_seconds", "CPU time"], ["cpu_cores_average", "CPUs busy, mean"], ["memory_peak_bytes", "peak memory"],
  ["io_read_bytes_total", "read"], ["io_written_bytes_total", "written"], ["processes_total", "processes"], ["threads_peak", "threads at once"],
];

export class Headline {
  readonly element = h("dl", { class: "headline" });
  private figures: Figure[] = [];

  take(page: JobPage): void {
    this.figures = SHOWN.flatMap(([name, title]) => {
      const row = page.metrics.find((metric) => metric.name === name);
      const limit = page.limits.find(({ outcome }) => outcome.metric === name)?.outcome.limit;
      return row === undefined ? [] : [new Figure(title, row, limit)];
    });
    replace(this.element, ...this.figures.map((figure) => figure.element));
  }

  /** What is new; `wall` is the time since the start. */
  news(news: JobNews, wall: number): void {
    for (const figure of this.figures) figure.news(news, wall);
    const [seconds, cpu] = [this.known("wall_seconds"), this.known("cpu_seconds")];
    if (seconds !== null && seconds > 0 && cpu !== null) this.find("cpu_cores_average")?.follow(cpu / seconds);
  }

  private find(name: MetricName): Figure | undefined {
    return this.figures.find((figure) => figure.row.name === name);
  }

  private known(name: MetricName): number | null {
    return this.find(name)?.value ?? null;
  }
}

class Figure {
  readonly element: HTMLElement;
  private readonly number = h("span", { class: "amount" });
  private readonly trust = h("span", { class: "trusted" });
  value: number | null;
  private quality: Quality | null = null;

  constructor(title: string, readonly row: MetricRow, limit: number | undefined) {
    this.value = row.value;
    this.element = h("div", { "data-metric": row.name },
      h("dt", { title: `${row.help}. ${row.counts}` }, title),
      h("dd", {}, this.number, " ", this.trust,
        limit !== undefined && h("span", { class: "muted" }, ` limit ${amount(limit, row.unit)}`)));
    this.say(row.value, row.text, row.quality);
  }

  news({ metrics, samples }: JobNews, wall: number): void {
    const told = metrics[this.row.name];
    if (told !== undefined) this.say(told.value, null, told.quality);
    else if (this.row.name === "wall_seconds") this.say(Math.max(wall, this.value ?? 0), null, "sampled");
    else this.ofSeries(metrics, samples);
  }

  /** What is known only at the end follows from others until then. */
  follow(value: number): void {
    if (this.row.value === null) this.say(value, null, "sampled");
  }

  /** A metric that is not told itself follows from its series: what is counted from the last, a peak from the greatest. */
  private ofSeries(metrics: Record<string, JobValue>, samples: JobNews["samples"]): void {
    const { series, kind } = this.row;
    if (series === null || kind === "gauge") return;
    const told = metrics[series]?.value;
    const found = samples.filter(({ scope }) => scope === "job").flatMap(({ values }) => values[series] ?? []);
    const numbers = told == null ? found : [...found, told];
    if (numbers.length > 0) this.say(Math.max(this.value ?? 0, ...numbers), null, "sampled");
  }

  private say(value: number | null, text: string | null, quality: Quality): void {
    this.value = value;
    const { unit } = this.row;
    replace(this.number, text ?? (value === null ? "–" : amount(value, unit)));
    this.number.title = value === null ? this.row.reason ?? "not known" : `${value} ${unit}`;
    if (quality === this.quality) return;
    this.quality = quality;
    replace(this.trust, badge({ ...this.row, quality, reason: quality === this.row.quality ? this.row.reason : null }));
  }
}
