// Now: the node, the jobs that run on it, what they are busy with, the busiest processes; new with each report of the server.

import { append, h, replace } from "../dom";
import type { TopReport } from "../generated";
import { Activity } from "./activity";
import { type JobRow, getJobs, getNode } from "./api";
import { Busiest } from "./busiest";
import { type Conditions, readConditions, words } from "./conditions";
import { clockOf } from "./cores";
import { type FilterForm, Filters } from "./filters";
import { NodePanel } from "./node";
import { note, readRoute } from "./route";
import { type NodeChange, Reports } from "./reports";
import { Programs } from "./programs";
import { Published } from "./published";
import { Rules } from "./rules";
import { type Running, Sessions, asRow } from "./sessions";
import type { Shell } from "./shell";
import { printable } from "./text";
import { within } from "../lifetime";

const FORM: FilterForm = { fields: ["user", "category", "label"], hint: "Filter jobs and processes", hasFile: true };

export function showNow(shell: Shell, root: HTMLElement, signal: AbortSignal): void {
  const view = new Now(signal, () => draw());
  append(root, ...view.elements);
  shell.title("Now");
  shell.filter(view.filters.search);
  shell.rows(() => [...root.querySelectorAll<HTMLElement>(".pick")]);
  const reports = new Reports();
  let recordings: JobRow[] = [];
  let report: TopReport | null = null;
  const draw = () => within(signal, () => report && view.update(report, recordings));
  const refresh = () => getJobs(signal).then(({ jobs }) => {
    recordings = jobs;
    draw();
  }, () => { /* Without a folder there are no recordings: the node is shown all the same. */ });
  const take = (found: TopReport | null) => {
    report = found ?? report;
    draw();
  };
  getNode(signal).then((found) => report ?? take(found), (error: Error) => !signal.aborted && report === null && view.fail(error));
  void refresh();
  shell.stream({ node: "1" }, {
    node: (data) => take(reports.take(data as TopReport)),
    change: (data) => take(reports.change(data as NodeChange)),
    outage: (data) => view.lose(data as NodeOutage),
    jobs: () => void refresh(),
  }, signal);
}

/** The agent that looks at the node has gone; the server goes on asking it. */
interface NodeOutage {
  /** When its last values came. */
  since: string | null;
  reason: string;
}

class Now {
  readonly filters: Filters;
  private conditions = readConditions(readRoute().query);
  private readonly heading = h("p", { class: "muted about" }, "Waiting for the first report …");
  private readonly rules = new Rules();
  private readonly sessions = new Sessions();
  private readonly activity: Activity;
  private readonly node = new NodePanel();
  private readonly busiest = new Busiest();
  private readonly published = new Published();
  private readonly programs = new Programs();
  private readonly body: HTMLElement;
  readonly elements: HTMLElement[];
  private offered = "";

  constructor(signal: AbortSignal, draw: () => void) {
    this.activity = new Activity(signal);
    this.activity.filter(this.conditions);
    this.filters = new Filters(this.conditions, (conditions) => {
      this.conditions = conditions;
      note(words(conditions));
      this.activity.filter(conditions);
      draw();
    }, FORM);
    this.body = h("div", { hidden: true }, this.rules.element, this.sessions.element, this.activity.element, this.programs.element, this.published.element, this.node.element, this.busiest.element);
    this.elements = [h("div", { class: "controls head" }, this.heading), this.filters.element, this.body];
  }

  update(report: TopReport, recordings: JobRow[]): void {
    this.body.hidden = false;
    this.body.classList.remove("stale");
    const rate = report.interval_seconds === null ? "" : `, rates over ${Number(report.interval_seconds.toPrecision(3))} s`;
    const whose = report.user === null ? "" : `; jobs and processes of ${printable(report.user)}`;
    replace(this.heading, h("b", {}, printable(report.node)), ` at ${clockOf(report.time)}${rate}${whose}`);
    this.rules.update(report);
    const { all, found } = this.sessions.update(report, recordings, this.conditions);
    this.offer(all);
    this.published.update(report.published ?? [], report.published_left_out ?? 0);
    this.programs.update(report.profiles ?? [], report.profiles_left_out ?? 0);
    this.node.update(report);
    this.busiest.update(report, this.conditions, isOfJobs(this.conditions) ? pidsOf(found) : null);
  }

  /** The values to filter by change with the jobs, not with each report. */
  private offer(jobs: Running[]): void {
    const key = JSON.stringify(jobs.map((job) => [job.user, job.recording?.id]));
    if (key === this.offered) return;
    this.offered = key;
    const rows = jobs.map(asRow);
    this.filters.offer(rows);
    this.activity.offer(rows.filter((row) => row.id !== ""));
  }

  /** What was there stays, and is marked as old, until the next report. */
  lose(outage: NodeOutage): void {
    this.body.classList.add("stale");
    const since = outage.since === null ? "No data" : `No data since ${clockOf(outage.since)}`;
    replace(this.heading, h("b", { class: "outage" }, since), `: ${printable(outage.reason)}; it is asked again`);
  }

  fail(error: Error): void {
    replace(this.heading, error.message);
  }
}

/** Whether processes have to be of certain jobs. */
function isOfJobs({ category, label }: Conditions): boolean {
  return category !== undefined || label !== undefined;
}

function pidsOf(jobs: Running[]): Set<number> {
  return new Set(jobs.flatMap((job) => job.session?.pid ?? []));
}
