// Jobs that run, by user: sessions of `weigh run` on the node, with the recordings that they write where these are in
// the server's folders.

import { h, replace } from "../dom";
import { amount, count } from "../format";
import type { TopJob, TopReport } from "../generated";
import type { JobLimit, JobRow } from "./api";
import { type Conditions, FIELDS, hasWords, valuesOf } from "./conditions";
import { Keyed } from "./keyed";
import { jobLink } from "./link";
import { Plot, type Reading } from "./reading";
import { commandLine, printable, titled } from "./text";

/** A session, a recording that is being written, or both. */
export interface Running {
  key: string;
  user: string;
  command: string;
  session: TopJob | null;
  recording: JobRow | null;
}

/** Joins each recording to its session: by the PID of its `weigh run`, with which the recording's id ends, or else by the
 * command where only one session has it. */
export function join(sessions: TopJob[], recordings: JobRow[]): Running[] {
  const running = recordings.filter((job) => job.state === "running");
  const taken = new Set<JobRow>();
  const joined = sessions.map((session): Running => {
    const recording = recordingOf(session, sessions, running.filter((job) => !taken.has(job)));
    if (recording !== null) taken.add(recording);
    return { key: `${session.group?.scope ?? "session"}:${session.pid}`, user: session.user, session, recording,
      command: session.group ? `${session.group.manager} ${session.group.name}` : commandLine(recording?.command ?? measured(session.command)) };
  });
  const others = running.filter((job) => !taken.has(job)).map((recording): Running => ({
    key: `job:${recording.id}`, user: recording.user, command: commandLine(recording.command), session: null, recording,
  }));
  return [...joined, ...others];
}

/** What is known of a job as of a row of the list. */
export function asRow(job: Running): JobRow {
  const unknown = { id: "", folder: "", node: "", category: null, labels: {}, started: null, ended: null, exit: null, metrics: {}, limits: [] };
  return { ...(job.recording ?? { ...unknown, command: [], state: "running" as const }), user: job.user };
}

function fitsRunning(job: Running, conditions: Conditions): boolean {
  const row = asRow(job);
  return hasWords(`${job.user} ${row.id} ${job.command}`, conditions.q) &&
    FIELDS.every((field) => conditions[field] === undefined || valuesOf(row, field).includes(conditions[field]));
}

function recordingOf(session: TopJob, sessions: TopJob[], running: JobRow[]): JobRow | null {
  const isIts = (one: TopJob, job: JobRow) => one.group == null && one.user === job.user;
  const byPid = running.find((job) => isIts(session, job) && pidOf(job) === session.pid);
  if (byPid !== undefined) return byPid;
  // In a PID namespace of its own its `weigh run` has another number.
  const isOther = (job: JobRow) => sessions.some(({ pid }) => pid === pidOf(job));
  const fits = (one: TopJob, job: JobRow) => isIts(one, job) && !isOther(job) && endsWith(one.command, job.command);
  const found = running.filter((job) => fits(session, job));
  const job = found[0];
  return job !== undefined && found.length === 1 && sessions.filter((one) => fits(one, job)).length === 1 ? job : null;
}

/** What a `weigh run` measures: its own options are no news. */
function measured(command: string[]): string[] {
  const words = command.slice(command.indexOf("--") + 1);
  return words.length > 0 ? words : command;
}

/** The second recording of an id has `~2` behind it. */
function pidOf({ id }: JobRow): number {
  return Number(/-(\d+)(~\d+)?$/.exec(id)?.[1] ?? NaN);
}

function endsWith(words: string[], end: string[]): boolean {
  return end.length > 0 && end.length < words.length && end.every((word, i) => word === words[words.length - end.length + i]);
}

const COLUMNS = ["job", "CPUs busy", "memory, resident", "processes", "limits"];

export class Sessions {
  readonly element: HTMLElement;
  private readonly heads = h("thead", {}, h("tr", {}, ...COLUMNS.map((title) => h("th", { scope: "col" }, title))));
  private readonly table = h("table", { class: "readings sessions" }, this.heads);
  private readonly empty = h("p", { class: "note" });
  private readonly users: Keyed<[string, Running[]], UserRows>;

  constructor() {
    this.users = new Keyed(this.table, ([user]) => user, ([user]) => new UserRows(user), (rows, [, jobs]) => rows.update(jobs), this.heads);
    this.element = h("section", { id: "jobs-now", "aria-labelledby": "jobs-now-title" },
      h("h2", { id: "jobs-now-title" }, "Jobs that run"), h("div", { class: "wide" }, this.table), this.empty);
  }

  /** All jobs that run, and those that fit. */
  update(report: TopReport, recordings: JobRow[], conditions: Conditions): { all: Running[]; found: Running[] } {
    // Units of systemd are there on every machine, and not what somebody has started.
    const all = join(report.jobs.filter((job) => job.kind !== "unit"), recordings);
    const found = all.filter((job) => fitsRunning(job, conditions));
    const byUser = new Map<string, Running[]>();
    for (const job of found) byUser.set(job.user, [...byUser.get(job.user) ?? [], job]);
    this.users.set([...byUser].sort(([a], [b]) => (a < b ? -1 : 1)));
    this.table.hidden = found.length === 0;
    this.empty.hidden = found.length > 0;
    const text = all.length > 0 ? "No job that runs fits the filter." :
      `No job runs${report.user === null ? "" : ` of user ${printable(report.user)}`}. Start one: weigh run -- COMMAND`;
    if (this.empty.textContent !== text) replace(this.empty, text);
    return { all, found };
  }
}

class UserRows {
  readonly element: HTMLElement;
  private readonly rows: Keyed<Running, SessionRow>;
  private readonly sum = h("span", { class: "muted" });

  constructor(user: string) {
    this.element = h("tbody", {}, h("tr", { class: "group" }, h("th", { colspan: COLUMNS.length, scope: "rowgroup" },
      printable(user), " ", this.sum)));
    this.rows = new Keyed(this.element, (job) => job.key, (job) => new SessionRow(job), (row, job) => row.update(job),
      this.element.firstElementChild);
  }

  update(jobs: Running[]): void {
    this.rows.set(jobs);
    const text = jobs.length === 1 ? "1 job" : `${count(jobs.length)} jobs`;
    if (this.sum.textContent !== text) replace(this.sum, text);
  }

  end(): void {
    this.rows.set([]);
  }
}

class SessionRow {
  readonly element: HTMLElement;
  private readonly cpu = new Plot(1);
  private readonly memory = new Plot();
  private readonly processes = new Plot();
  private readonly name = h("td", { class: "job" });
  private readonly limits = h("td", { class: "limits" });
  private named = "";

  constructor(job: Running) {
    const cell = (plot: Plot, title: string) => h("td", { "data-title": title }, h("div", { class: "cell" }, plot.spark.canvas, plot.value));
    this.element = h("tr", { class: "pick", "data-key": job.key }, this.name,
      cell(this.cpu, "CPUs"), cell(this.memory, "memory"), cell(this.processes, "processes"), this.limits);
  }

  update(job: Running): void {
    this.nameIt(job);
    const { session, recording } = job;
    this.cpu.set(session === null ? ofRecording(recording, "cpu_cores") : measuredValue(session.cpu_cores, "cores", "sampled"));
    this.memory.set(session === null ? ofRecording(recording, "memory_peak_bytes") : measuredValue(session.memory_rss_sum_bytes, "bytes", "sampled"));
    this.processes.set(session === null ? ofRecording(recording, "processes_total") : measuredValue(session.processes, "count", "sampled"));
    this.cpu.spark.limit = session?.cpus_requested ?? null;
    this.memory.spark.limit = limitOf(recording?.limits ?? [], /^memory_.*bytes$/) ?? session?.memory_limit_bytes ?? null;
    this.processes.spark.limit = limitOf(recording?.limits ?? [], /^processes_/);
    this.limit(job);
  }

  private nameIt({ session, recording, command }: Running): void {
    const text = `${recording?.id ?? ""} ${command}`;
    if (text === this.named) return;
    this.named = text;
    replace(this.name, recording === null ? h("span", { class: "mono name", title: titled(command) }, printable(command)) : jobLink(recording.id, command),
      session !== null && h("span", { class: "muted" }, ` PID ${session.pid}`));
  }

  /** What somebody has set for it, and what its batch system or its control groups allow. */
  private limit({ session, recording }: Running): void {
    const { cpus_requested: cpus, memory_limit_bytes: memory, time_left_seconds: left } = session ?? {};
    const text = [...(recording?.limits ?? []).map(limitWords), cpus != null && `CPUs ≤ ${amount(cpus, "cores")}`,
      memory != null && `memory ≤ ${amount(memory, "bytes")}`, left != null && `${left < 120 ? `${count(left)} s` : amount(left, "seconds")} left`].filter(Boolean).join(", ");
    if (this.limits.textContent !== text) replace(this.limits, text);
  }

  end(): void {
    for (const plot of [this.cpu, this.memory, this.processes]) plot.spark.end();
  }
}

function measuredValue(value: number | null, unit: "cores" | "bytes" | "count", quality: "sampled"): Reading {
  if (value === null) return { number: null, text: "–", title: "known from the second report on", quality: "unavailable" };
  return { number: value, text: amount(value, unit), title: `${value} ${unit}; ${quality}`, quality };
}

function ofRecording(job: JobRow | null, metric: string): Reading {
  const found = job?.metrics[metric];
  if (found === undefined || found.value === null) return { number: null, text: "–", title: "not known", quality: "unavailable" };
  return { number: found.value, text: amount(found.value, found.unit), title: `${found.value} ${found.unit}; ${found.quality}`, quality: found.quality };
}

function limitOf(limits: JobLimit[], metric: RegExp): number | null {
  return limits.find((limit) => metric.test(limit.metric))?.limit ?? null;
}

/** The unit stands at the end of a metric's name. */
function limitWords({ metric, limit, exceeded }: JobLimit): string {
  const unit = /_bytes(_total)?$/.test(metric) ? "bytes" : /_seconds(_total)?$/.test(metric) ? "seconds" : "count";
  const most = metric.startsWith("disk_free_") ? "≥" : "≤";
  return `${metric} ${most} ${amount(limit, unit)}${exceeded ? " (exceeded)" : ""}`;
}
