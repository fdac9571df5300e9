// The list of jobs: all recordings of the folders that the server looks into.

import { append, h, replace } from "../dom";
import { amount, count } from "../format";
import type { Exit } from "../generated";
import { within } from "../lifetime";
import { type JobList, type JobRow, type JobState, type JobValue, getJobs } from "./api";
import { type Conditions, fits, readConditions, words } from "./conditions";
import { Filters } from "./filters";
import { jobLink } from "./link";
import { note, readRoute } from "./route";
import type { Shell } from "./shell";
import { commandLine, moment, printable, titled } from "./text";

/** So many rows are shown at first, and so many more each time. */
const PART = 100;

interface Column {
  title: string;
  /** What the URL calls it. */
  name: string;
  isNumber: boolean;
  /** What rows are ordered by. */
  order(job: JobRow): number | string;
  cell(job: JobRow): Node | string;
  exact?(job: JobRow): string;
}

const text = (title: string, name: string, order: (job: JobRow) => string): Column =>
  ({ title, name, isNumber: false, order, cell: (job) => printable(order(job), 80), exact: (job) => titled(order(job)) });

const metric = (title: string, name: string): Column => {
  const value = (job: JobRow): JobValue | undefined => job.metrics[name];
  return {
    title, name, isNumber: true, order: (job) => value(job)?.value ?? -1, cell: (job) => valueCell(value(job)),
    exact: (job) => { const v = value(job); return v?.value == null ? "not known" : `${v.value} ${v.unit}; ${v.quality}`; },
  };
};

const COLUMNS: Column[] = [
  { title: "", name: "state", isNumber: false, order: (job) => job.state, cell: (job) => stateMark(job), exact: (job) => titled(job.reason ?? "") },
  { title: "command", name: "command", isNumber: false, order: (job) => job.command.join(" "), cell: (job) => jobLink(job.id, commandLine(job.command)) },
  text("user", "user", (job) => job.user),
  text("category", "category", (job) => job.category ?? ""),
  text("labels", "labels", (job) => Object.entries(job.labels).map(([key, value]) => `${key}=${value}`).join(", ")),
  { title: "started", name: "started", isNumber: false, order: (job) => job.started ?? "", cell: (job) => moment(job.started), exact: (job) => titled(job.started ?? "") },
  metric("time", "wall_seconds"),
  metric("CPU time", "cpu_seconds"),
  metric("peak memory", "memory_peak_bytes"),
  metric("read", "io_read_bytes_total"),
  metric("written", "io_written_bytes_total"),
];

export function showHistory(shell: Shell, root: HTMLElement, signal: AbortSignal): void {
  const view = new History();
  append(root, ...view.elements);
  shell.title("Jobs");
  shell.filter(view.filters.search);
  shell.rows(() => view.rows);
  const refresh = () => getJobs(signal).then((list) => within(signal, () => view.take(list)),
    (error: Error) => !signal.aborted && view.fail(error));
  void refresh();
  shell.stream({}, { jobs: () => void refresh() }, signal);
}

class History {
  rows: HTMLElement[] = [];
  readonly filters: Filters;
  private jobs: JobRow[] | null = null;
  private leftOut = 0;
  private conditions = readConditions(readRoute().query);
  private order: string;
  private isUpwards: boolean;
  private most = PART;
  private readonly tally = h("p", { class: "muted tally" }, "Reading the folders …");
  private readonly body = h("tbody");
  private readonly heads = COLUMNS.map((column) => this.head(column));
  private readonly table = h("div", { class: "wide", hidden: true },
    h("table", { class: "history" }, h("thead", {}, h("tr", {}, ...this.heads)), this.body));
  private readonly more = h("button", { type: "button", class: "more-rows", hidden: true }, "Show more");
  readonly elements: HTMLElement[];

  constructor() {
    const [order, direction] = (readRoute().query.get("sort") ?? "started").split(":");
    this.order = order ?? "started";
    this.isUpwards = direction === "up";
    this.filters = new Filters(this.conditions, (conditions) => this.choose(conditions));
    this.more.addEventListener("click", () => { this.most += PART * 4; this.draw(); });
    this.elements = [h("h1", { class: "unseen" }, "Jobs"), this.filters.element, this.tally, this.table, this.more];
  }

  take({ jobs, jobs_left_out: leftOut }: JobList): void {
    this.jobs = jobs;
    this.leftOut = leftOut ?? 0;
    this.filters.offer(jobs);
    this.draw();
  }

  fail(error: Error): void {
    replace(this.tally, error.message);
  }

  private choose(conditions: Conditions): void {
    this.conditions = conditions;
    this.most = PART;
    note(words(conditions));
    this.draw();
  }

  private head(column: Column): HTMLElement {
    const button = h("button", { type: "button", class: "sort" }, column.title || "state");
    button.addEventListener("click", () => {
      this.isUpwards = this.order === column.name ? !this.isUpwards : !column.isNumber && column.name !== "started";
      this.order = column.name;
      note({ sort: `${this.order}:${this.isUpwards ? "up" : "down"}` });
      this.draw();
    });
    return h("th", { scope: "col", class: column.isNumber ? "number" : "" }, button);
  }

  private draw(): void {
    if (this.jobs === null) return;
    const found = this.sorted(this.jobs.filter((job) => fits(job, this.conditions)));
    const focused = document.activeElement?.closest("tr")?.dataset.job;
    this.rows = found.slice(0, this.most).map(row);
    replace(this.body, ...this.rows);
    this.rows.find((one) => one.dataset.job === focused)?.querySelector("a")?.focus();
    this.table.hidden = found.length === 0;
    this.more.hidden = found.length <= this.most;
    replace(this.tally, tally(found.length, this.jobs.length) + (this.leftOut > 0 ? `; ${count(this.leftOut)} older ones are not listed` : ""));
    COLUMNS.forEach((column, i) => this.heads[i]?.setAttribute("aria-sort",
      column.name !== this.order ? "none" : this.isUpwards ? "ascending" : "descending"));
  }

  private sorted(jobs: JobRow[]): JobRow[] {
    const { order } = COLUMNS.find((column) => column.name === this.order) ?? COLUMNS[5] as Column;
    const keys = new Map(jobs.map((job) => [job, order(job)]));
    const compare = (a: JobRow, b: JobRow) => {
      const [x, y] = [keys.get(a) ?? "", keys.get(b) ?? ""];
      return x < y ? -1 : x > y ? 1 : 0;
    };
    return jobs.sort((a, b) => (this.isUpwards ? compare(a, b) : compare(b, a)));
  }
}

function tally(found: number, all: number): string {
  if (all === 0) return "There is no recording in the folders that this server looks into; `weigh run -- COMMAND` makes one. The page of an agent looks into none: `weigh serve` shows yours.";
  if (found === 0) return `None of ${count(all)} jobs fits the filter.`;
  return found === all ? `${count(all)} ${all === 1 ? "job" : "jobs"}` : `${count(found)} of ${count(all)} jobs`;
}

function row(job: JobRow): HTMLElement {
  return h("tr", { "data-job": job.id }, ...COLUMNS.map((column) =>
    h("td", { class: `${column.isNumber ? "number" : ""} of-${column.name}`, title: column.exact?.(job), "data-title": column.title }, column.cell(job))));
}

function valueCell(value: JobValue | undefined): Node | string {
  if (value === undefined || value.value === null) return "–";
  const words = amount(value.value, value.unit);
  if (value.quality !== "sampled" && value.quality !== "estimated") return words;
  return h("span", {}, h("span", { class: "doubtful", "aria-label": value.quality }, "~"), words);
}

const TONES: Record<JobState, string> = { running: "open", ended: "good", broken: "bad" };

function stateMark(job: JobRow): HTMLElement {
  const isBad = job.state === "ended" && job.exit !== null && (job.exit.kind !== "exited" || job.exit.code !== 0);
  return h("span", { class: `state ${isBad ? "bad" : TONES[job.state]}` }, job.state === "ended" ? exitWords(job.exit) : job.state);
}

function exitWords(exit: Exit | null): string {
  if (exit === null) return "ended";
  if (exit.kind === "exited") return exit.code === 0 ? "ended" : `exit ${exit.code}`;
  if (exit.kind === "signaled") return `signal ${exit.signal}`;
  return exit.kind.replaceAll("_", " ");
}
