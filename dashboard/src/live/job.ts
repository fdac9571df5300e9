// One job, live while it runs and the same after it: the sections of the report around charts that are read as they
// are looked at.

import { adviceSection, digest } from "../digest";
import { append, h, replace } from "../dom";
import type { PublishedValue } from "../generated";
import { banners, header } from "../header";
import { within } from "../lifetime";
import { Phases, phasesSection } from "../phases";
import { belowCharts, details } from "../sections";
import { toolbar } from "../toolbar";
import { View, steer } from "../view";
import { Activity } from "./activity";
import { ApiError, type JobNews, type JobPage, type SeriesName, getJob, getPublished, getSeries, getSeriesNames, nanoseconds } from "./api";
import { comparison } from "./comparison";
import { differences } from "./differences";
import { Headline } from "./headline";
import { JobCharts, type Other, chartKey } from "./job-charts";
import { link } from "./link";
import { Published } from "./published";
import { isWall, note, readRoute } from "./route";
import { SectionLink } from "./section-link";
import type { Shell } from "./shell";
import { RECONNECTED } from "./stream";
import { printable } from "./text";

/** What is no series is read again so often while the job runs. */
const REFRESH_MS = 5_000;
const FIRST_MS = 1_000;
/** Between two times it rests so many times as long as one takes: of a long job the whole recording is read. */
const REST = 20;
/** A pointer that has not moved for so long means nothing. */
const HOVER_MS = 4_000;
/** All that shows time is drawn again at most so often because the job takes longer. */
const GROW_MS = 250;
const CPU = "cpu_seconds";

export function showJob(shell: Shell, root: HTMLElement, id: string, signal: AbortSignal): void {
  shell.title(printable(id, 60));
  const waiting = h("p", { class: "muted about" }, "Reading the recording …");
  append(root, waiting);
  const waited = new AbortController();
  let isWaiting = false;
  const read = async () => {
    const [page, names] = await readJob(id, signal);
    if (signal.aborted) return;
    within(signal, () => new JobView(shell, root, id, page, names, signal));
    if (page.state === "broken") wait();
    else waited.abort();
  };
  const fail = (error: Error) => {
    if (signal.aborted) return;
    const isGone = error instanceof ApiError && error.status === 404;
    const words = isGone ? "No recording with this id is in the folders that this server looks into. It has gone, or another server has it." : error.message;
    replace(root, h("p", { class: "about" }, words, " ", link("/jobs", {}, "All jobs")));
    wait();
  };
  const attempt = () => void read().catch(fail);
  // A job that has only begun cannot be read yet: the list says when it is another.
  const wait = () => {
    if (isWaiting) return;
    isWaiting = true;
    shell.stream({}, { jobs: attempt }, AbortSignal.any([signal, waited.signal]));
  };
  attempt();
}

async function readJob(id: string, signal: AbortSignal): Promise<[JobPage, SeriesName[]]> {
  const [page, names] = await Promise.all([getJob(id, signal), getSeriesNames(id, signal)]);
  // What was computed stands beside what was read and written.
  if (page.io_over_time !== null && names.some((name) => name.metric === CPU && name.scope === "job")) {
    const from = nanoseconds(page.job.started);
    const to = from + BigInt(Math.ceil(page.duration * 1e9));
    const { time, last } = await getSeries({ job: id, metric: CPU, scope: "job", from, to, points: 2000 }, signal);
    const at = time.map((t) => Math.max(t - Number(from) / 1e9, 0));
    page.series = { [CPU]: { total: at.length, at, value: last } };
  }
  return [page, names];
}

class JobView {
  private readonly view: View;
  private readonly phases: Phases;
  private readonly headline = new Headline();
  private readonly top = h("div");
  /** What it is busy with, while it runs. */
  private readonly busy = h("div");
  private readonly numbers = h("div");
  private readonly bands = h("div");
  private readonly charts = h("div");
  private readonly below = h("div");
  private readonly rest = h("div");
  private readonly origin: bigint;
  private jobCharts: JobCharts | null = null;
  private chartsEnd = new AbortController();
  private zonesEnd = new AbortController();
  private key = "";
  private other: Other | null = null;
  private isReading = false;
  private grownAt = -Infinity;
  private movedAt = -Infinity;
  private readAt = -Infinity;
  /** Not before. */
  private nextAt = -Infinity;
  private readPublished = () => {};
  private readonly sections: SectionLink;

  constructor(private readonly shell: Shell, root: HTMLElement, private readonly id: string, private page: JobPage,
    private names: SeriesName[], private readonly signal: AbortSignal) {
    this.view = new View(page.duration > 0 ? page.duration : 1);
    this.phases = new Phases(page);
    this.origin = nanoseconds(page.job.started);
    signal.addEventListener("abort", () => { this.chartsEnd.abort(); this.zonesEnd.abort(); });
    this.sections = new SectionLink(root, signal);
    const { query } = readRoute();
    replace(root, this.top, h("div", { class: "over-time" }, toolbar(this.view),
      comparison(id, query, signal, () => void this.readOther()), this.numbers, this.bands, this.charts, this.below), this.busy, this.rest);
    this.zoomByUrl(query);
    shell.steer((key) => steer(this.view, key));
    this.drawZones();
    this.drawCharts();
    if (query.get("with")) void this.readOther();
    if (page.state === "running") this.follow();
  }

  private zoomByUrl(query: URLSearchParams): void {
    const [from, to] = [query.get("from"), query.get("to")];
    if (from !== null && to !== null && Number(to) > Number(from)) this.view.show(Number(from), Number(to));
    let timer = 0;
    this.view.onRange(() => {
      clearTimeout(timer);
      timer = setTimeout(() => this.signal.aborted || this.noteZoom(), 300);
    });
  }

  private noteZoom(): void {
    const { isWhole, from, to } = this.view;
    note(isWhole ? { from: null, to: null } : { from: String(Number(from.toPrecision(9))), to: String(Number(to.toPrecision(9))) });
  }

  /** All but the charts. */
  private drawZones(): void {
    this.zonesEnd.abort();
    this.zonesEnd = new AbortController();
    const { page, view, phases } = this;
    const isRunning = page.state === "running";
    within(this.zonesEnd.signal, () => {
      this.headline.take(page);
      const shown = isRunning ? { ...page, outcome: { words: "running", tone: "open" as const } } : page;
      replace(this.top, header(shown), page.reason ? h("p", { class: "note" }, printable(page.reason)) : null, this.headline.element, ...banners(page, isRunning), digest(page), adviceSection(page));
      replace(this.bands, phasesSection(page, phases, view));
      replace(this.below, ...belowCharts(page, view, phases));
      replace(this.rest, ...details(page, view, phases));
    });
    this.sections.restore();
  }

  private drawCharts(): void {
    this.chartsEnd.abort();
    this.chartsEnd = new AbortController();
    const { signal } = this.chartsEnd;
    this.key = chartKey(this.page, this.names);
    within(signal, () => {
      this.jobCharts = new JobCharts(this.id, this.page, this.names, this.view, this.phases, signal, this.other);
      replace(this.charts, this.jobCharts.element ?? h("p", { class: "note" }, "No series was recorded yet."));
    });
  }

  private async readOther(): Promise<void> {
    const { query } = readRoute();
    const id = query.get("with");
    try {
      this.other = id === null ? null : {
        id, shift: Number(query.get("shift") ?? 0) || 0,
        page: await getJob(id, this.signal), names: await getSeriesNames(id, this.signal),
      };
      this.drawNumbers();
      this.drawCharts();
    } catch (error) {
      if (!this.signal.aborted) this.charts.prepend(h("p", { class: "note bad-text" }, `The other run: ${(error as Error).message}`));
    }
  }

  private drawNumbers(): void {
    replace(this.numbers, this.other === null ? null : differences(this.page, this.other.page, this.other.id));
  }

  /** While it runs: what is new, and now and then all the rest. */
  private follow(): void {
    const ended = new AbortController();
    const signal = AbortSignal.any([this.signal, ended.signal]);
    const timer = setInterval(() => void this.refresh(false), REFRESH_MS);
    signal.addEventListener("abort", () => clearInterval(timer));
    const published = new Published();
    replace(this.busy, new Activity(signal, this.id).element, published.element);
    this.readPublished = () => void getPublished(signal).then(({ published: values }) => {
      published.update(values.filter((value) => this.isOfJob(value)), 0);
    }, () => { /* Without an agent nothing is published. */ });
    this.readPublished();
    document.addEventListener("pointermove", () => { this.movedAt = performance.now(); }, { signal });
    const take = (news: JobNews) => {
      this.take(news);
      if (news.id !== this.id || news.state === "running") return;
      ended.abort();
      replace(this.busy);
      this.shell.ended();
      void this.refresh(true);
    };
    this.shell.stream({ job: this.id }, {
      job: (data) => take(data as JobNews),
      missed: () => { this.jobCharts?.reload(); void this.refresh(false); },
      [RECONNECTED]: () => this.jobCharts?.reload(),
    }, signal);
  }

  /** By one of its processes, or of a stream that follows one: the job's id ends in the PID of its `weigh run`. */
  private isOfJob({ job }: PublishedValue): boolean {
    return job != null && this.page.job.id.endsWith(`-${job}`);
  }

  private take(news: JobNews): void {
    if (news.id !== this.id) return;
    const latest = news.samples.reduce((time, sample) => Math.max(time, sample.time_ns), 0);
    const wall = latest === 0 ? 0 : (latest - Number(this.origin)) / 1e9;
    this.headline.news(news, wall);
    this.jobCharts?.news(news);
    // The first samples are there: the charts, too, then.
    if (this.jobCharts?.element === null && performance.now() - this.readAt > FIRST_MS) void this.refresh(false);
    if (performance.now() - this.grownAt < GROW_MS) return;
    this.grownAt = performance.now();
    this.view.grow(wall);
  }

  private async refresh(isLast: boolean): Promise<void> {
    const isPutOff = this.isReading || document.hidden && !isWall() || performance.now() < this.nextAt || this.isInUse();
    if (isPutOff && !isLast) return;
    this.isReading = true;
    this.readAt = performance.now();
    try {
      const [page, names] = await readJob(this.id, this.signal);
      if (this.signal.aborted) return;
      Object.assign(this, { page, names });
      this.phases.take(page);
      if (!isLast) this.readPublished();
      this.view.grow(page.duration);
      this.drawZones();
      this.drawNumbers();
      if (isLast || chartKey(page, names) !== this.key) this.drawCharts();
    } catch {
      // The state of the connection is said above; the next time comes.
    } finally {
      this.isReading = false;
      this.nextAt = performance.now() + REST * (performance.now() - this.readAt);
    }
  }

  /** What the reader points at or types into is not taken away. */
  private isInUse(): boolean {
    const isPointing = performance.now() - this.movedAt < HOVER_MS;
    const focused = document.activeElement?.matches("input, select") ? document.activeElement : null;
    return [this.top, this.bands, this.below, this.rest].some((zone) => isPointing && zone.matches(":hover") || zone.contains(focused));
  }
}
