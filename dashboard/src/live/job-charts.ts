// The charts of a job's series: those of the report, but read from the server as they come into view.

import { plotFigure } from "../charts";
import { append, h, replace, section } from "../dom";
import type { MetricRow } from "../generated";
import type { Phases } from "../phases";
import { type Chart, type Line, arrange, seriesNames } from "../series";
import type { View } from "../view";
import { type JobNews, type JobPage, type SeriesName, nanoseconds } from "./api";
import { Feed, type Source } from "./feed";
import { printable } from "./text";
import { onVisible } from "./visible";

/** So many charts are shown at first. */
const MOST = 6;

/** Another run to compare with, so many seconds later. */
export interface Other {
  page: JobPage;
  id: string;
  names: SeriesName[];
  shift: number;
}

export class JobCharts {
  readonly element: HTMLElement | null;
  private readonly feeds: Feed[];

  constructor(id: string, page: JobPage, names: SeriesName[], private readonly view: View, private readonly phases: Phases,
    private readonly signal: AbortSignal, private readonly other: Other | null) {
    const { charts, flat } = arrange(page, (metric) => lineFor(metric, names));
    const built = charts.map((chart) => this.build(chart, id, nanoseconds(page.job.started)));
    this.feeds = built.map(({ feed }) => feed);
    view.onRange(() => this.feeds.forEach((feed) => feed.look()));
    this.element = charts.length === 0 ? null : sectionOf(built.map(({ element }) => element), flat);
  }

  private build(chart: Chart, job: string, origin: bigint): { element: HTMLElement; feed: Feed } {
    const sources = chart.lines.map((line): Source => sourceOf(line, job, origin));
    if (this.other !== null) this.compare(chart, sources, this.other);
    const figure = plotFigure(chart, this.view, this.phases);
    const failure = h("p", { class: "note bad-text", hidden: true });
    append(figure.element, failure);
    const failed = (text: string) => {
      failure.hidden = text === "";
      replace(failure, text);
    };
    const feed = new Feed(chart, sources, figure, this.view, failed, this.signal);
    onVisible(figure.element, (isVisible) => feed.setVisible(isVisible));
    return { element: figure.element, feed };
  }

  /** Beside each line that of the other run, if it has one. */
  private compare(chart: Chart, sources: Source[], { page, id, names, shift }: Other): void {
    const own = seriesNames(chart);
    const origin = nanoseconds(page.job.started) - BigInt(Math.round(shift * 1e9));
    const twins = chart.lines.filter(({ metric }) => lineFor(metric, names) !== null)
      .map((line): Line => ({ ...line, at: [], value: [], isOther: true }));
    chart.names = [...own, ...twins.map((twin) => `${own[chart.lines.findIndex((line) => line.metric === twin.metric)] ?? ""} of ${printable(id, 24)}`)];
    chart.lines.push(...twins);
    sources.push(...twins.map((line) => sourceOf(line, id, origin)));
  }

  news(news: JobNews): void {
    for (const feed of this.feeds) feed.news(news);
  }

  reload(): void {
    for (const feed of this.feeds) feed.reload();
  }
}

/** What decides which charts there are. */
export function chartKey(page: JobPage, names: SeriesName[]): string {
  const { charts } = arrange(page, (metric) => lineFor(metric, names));
  return charts.map((chart) => chart.lines.map((line) => line.metric.name).join()).join(";");
}

function sourceOf(line: Line, job: string, origin: bigint): Source {
  return { job, metric: line.metric.series ?? "", origin, line, columns: { time: [], min: [], max: [], last: [] } };
}

/** What is nothing at the end was nothing all the time. */
function lineFor(metric: MetricRow, names: SeriesName[]): Line | null {
  const isThere = names.some((name) => name.scope === "job" && name.metric === metric.series && name.samples > 0);
  return isThere ? { metric, at: [], value: [], top: metric.value === 0 ? 0 : 1 } : null;
}

function sectionOf(figures: HTMLElement[], flat: MetricRow[]): HTMLElement {
  const more = figures.slice(MOST);
  const zero = flat.length > 0 && `Zero all the time: ${flat.map((m) => m.help).join(", ")}.`;
  const brief = [more.length > 0 && `${more.length} more ${more.length === 1 ? "chart" : "charts"}`, zero && `${flat.length} series that are zero`];
  return section("series", "Over time", h("div", { class: "charts" }, ...figures.slice(0, MOST)),
    (more.length > 0 || zero) && h("details", { class: "more" }, h("summary", {}, brief.filter(Boolean).join(", ")),
      h("div", { class: "charts" }, ...more), zero && h("p", { class: "note" }, zero)));
}
