// Now: the node, the jobs that run on it, the busiest processes; new with each report of the server.

import { append, h, replace } from "../dom";
import type { TopReport } from "../generated";
import { type JobRow, getJobs, getNode } from "./api";
import { Busiest } from "./busiest";
import { clockOf } from "./cores";
import { NodePanel } from "./node";
import { note, readRoute } from "./route";
import { Rules } from "./rules";
import { Sessions } from "./sessions";
import type { Shell } from "./shell";
import { printable } from "./text";
import { within } from "../lifetime";

export function showNow(shell: Shell, root: HTMLElement, signal: AbortSignal): void {
  const view = new Now();
  append(root, ...view.elements);
  shell.title("Now");
  shell.filter(view.filter);
  shell.rows(() => [...root.querySelectorAll<HTMLElement>(".pick")]);
  let recordings: JobRow[] = [];
  let report: TopReport | null = null;
  const draw = () => within(signal, () => report && view.update(report, recordings));
  const refresh = () => getJobs(signal).then(({ jobs }) => {
    recordings = jobs;
    draw();
  }, () => { /* Without a folder there are no recordings: the node is shown all the same. */ });
  const take = (found: TopReport) => {
    report = found;
    draw();
  };
  getNode(signal).then((found) => report ?? take(found), (error: Error) => !signal.aborted && report === null && view.fail(error));
  void refresh();
  view.filter.addEventListener("input", () => {
    note({ q: view.filter.value });
    draw();
  });
  shell.stream({ node: "1" }, {
    node: (data) => take(data as TopReport),
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
  readonly filter = h("input", { type: "search", placeholder: "Filter jobs and processes", "aria-label": "Filter jobs and processes",
    value: readRoute().query.get("q") ?? "" });
  private readonly heading = h("p", { class: "muted about" }, "Waiting for the first report …");
  private readonly rules = new Rules();
  private readonly sessions = new Sessions();
  private readonly node = new NodePanel();
  private readonly busiest = new Busiest();
  private readonly body = h("div", { hidden: true }, this.rules.element, this.sessions.element, this.node.element, this.busiest.element);
  readonly elements = [h("div", { class: "controls head" }, this.heading, this.filter), this.body];

  update(report: TopReport, recordings: JobRow[]): void {
    this.body.hidden = false;
    this.body.classList.remove("stale");
    const rate = report.interval_seconds === null ? "" : `, rates over ${Number(report.interval_seconds.toPrecision(3))} s`;
    const whose = report.user === null ? "" : `; jobs and processes of ${printable(report.user)}`;
    replace(this.heading, h("b", {}, printable(report.node)), ` at ${clockOf(report.time)}${rate}${whose}`);
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.rules.update(report);
    this.sessions.update(report, recordings, words);
    this.node.update(report);
    this.busiest.update(report, words);
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
