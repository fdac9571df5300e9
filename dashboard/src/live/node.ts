// The node's own metrics: compact rows with small plots, disks and interfaces as tables.

import { h, replace } from "../dom";
import { amount, count } from "../format";
import type { TopReport } from "../generated";
import { AllValues } from "./all-values";
import { Cores, clockOf } from "./cores";
import { Keyed } from "./keyed";
import { type Form, type NodeMetric, Plot, type Reading, nodeValue, part, read } from "./reading";

/** One row: its words, and what it reads of a report. */
interface RowSpec {
  title: string;
  read(report: TopReport): Reading;
  /** What the full height stands for at least. */
  top?(report: TopReport): number;
}

function metric(title: string, name: NodeMetric, form: Form): RowSpec {
  return { title, read: (report) => read(nodeValue(report, "node", name), form, name) };
}

const cpus = (report: TopReport) => report.cores.length;
const number = (report: TopReport, name: NodeMetric) => nodeValue(report, "node", name)?.value;

function busy(report: TopReport): Reading {
  const known = report.cores.flatMap(({ busy_ratio: ratio }) => (ratio === null ? [] : [ratio]));
  if (known.length === 0) return { number: null, text: "–", title: "known from the second report on", quality: "unavailable" };
  const sum = known.reduce((a, b) => a + b, 0);
  return { number: sum, text: `${amount(sum, "cores")} of ${count(cpus(report))}`, title: `${sum} CPUs busy; sampled`, quality: "sampled" };
}

function memoryUsed(report: TopReport): Reading {
  const [total, available] = [number(report, "node_memory_total_bytes"), number(report, "node_memory_available_bytes")];
  return part(total && available != null ? total - available : null, total, "bytes", "exact");
}

function swapUsed(report: TopReport): Reading {
  const [total, free] = [number(report, "node_swap_total_bytes"), number(report, "node_swap_free_bytes")];
  if (total === 0) return { number: 0, text: "none", title: "this node has no swap", quality: "exact" };
  return part(total && free != null ? total - free : null, total, "bytes", "exact");
}

function cpuPart(title: string, name: NodeMetric): RowSpec {
  return { ...metric(title, name, "cores"), top: cpus };
}

function pressure(title: string, name: NodeMetric): RowSpec {
  return { ...metric(title, name, "part"), top: () => 0.1 };
}

const CARDS: [string, RowSpec[]][] = [
  ["CPU", [
    { title: "busy", read: busy, top: cpus },
    cpuPart("in programs", "node_cpu_user_seconds_total"),
    cpuPart("in the kernel", "node_cpu_system_seconds_total"),
    cpuPart("idle, waiting for I/O", "node_cpu_iowait_seconds_total"),
    cpuPart("taken by the host", "node_cpu_steal_seconds_total"),
    { ...metric("load, 1 min", "node_load_1m_threads", "value"), top: cpus },
  ]],
  ["Memory", [
    { title: "used", read: memoryUsed, top: (report) => number(report, "node_memory_total_bytes") ?? 0 },
    metric("page cache", "node_memory_cached_bytes", "value"),
    metric("dirty", "node_memory_dirty_bytes", "value"),
    { title: "swap used", read: swapUsed, top: (report) => number(report, "node_swap_total_bytes") ?? 0 },
    metric("major page faults", "node_page_faults_major_total", "rate"),
    metric("OOM kills since boot", "node_oom_kills_total", "value"),
  ]],
  ["Pressure: time in which threads wait", [
    pressure("for CPU, some", "node_pressure_cpu_some_seconds_total"),
    pressure("for memory, some", "node_pressure_memory_some_seconds_total"),
    pressure("for memory, all", "node_pressure_memory_full_seconds_total"),
    pressure("for I/O, some", "node_pressure_io_some_seconds_total"),
    pressure("for I/O, all", "node_pressure_io_full_seconds_total"),
  ]],
  ["Processes", [
    metric("processes", "node_processes", "value"),
    metric("threads", "node_threads", "value"),
    metric("running", "node_threads_running", "value"),
    metric("blocked", "node_threads_blocked", "value"),
    metric("started", "node_forks_total", "rate"),
    metric("context switches", "node_context_switches_total", "rate"),
    metric("open files", "node_files_open", "value"),
  ]],
];

interface Column { title: string; metric: NodeMetric; form: Form; top?: number }

const column = (title: string, name: NodeMetric, form: Form, top?: number): Column => ({ title, metric: name, form, top });

/** Scopes of which there are many: a table for each kind. */
const TABLES: [string, string, Column[]][] = [
  ["disk", "Disks", [
    column("read", "node_disk_read_bytes_total", "rate"),
    column("written", "node_disk_written_bytes_total", "rate"),
    column("busy", "node_disk_busy_seconds_total", "part", 1),
    column("requests outstanding", "node_disk_requests_outstanding", "value"),
  ]],
  ["interface", "Network interfaces", [
    column("received", "node_net_received_bytes_total", "rate"),
    column("sent", "node_net_sent_bytes_total", "rate"),
    column("errors received", "node_net_receive_errors_total", "rate"),
    column("drops received", "node_net_receive_drops_total", "rate"),
  ]],
  ["mount", "Network file systems", [
    column("read", "node_mount_read_bytes_total", "rate"),
    column("written", "node_mount_written_bytes_total", "rate"),
  ]],
  ["gpu", "GPUs", [
    column("busy", "node_gpu_utilization_ratio", "value", 1),
    column("memory used", "node_gpu_memory_used_bytes", "value"),
    column("power", "node_gpu_watts", "value"),
    column("temperature", "node_gpu_celsius", "value", 100),
  ]],
  ["sensor", "Sensors", [
    column("temperature", "node_sensor_celsius", "value", 100),
    column("power", "node_sensor_watts", "value"),
  ]],
];

export class NodePanel {
  readonly element: HTMLElement;
  private readonly cores = new Cores();
  private readonly cards = CARDS.map(([title, specs]) => new Card(title, specs));
  private readonly tables = TABLES.map(([kind, title, columns]) => new ScopeTable(kind, title, columns));
  private readonly collectors = new Collectors();
  private readonly values = new AllValues();

  constructor() {
    this.element = h("section", { id: "node", "aria-labelledby": "node-title" },
      h("h2", { id: "node-title" }, "Node"),
      this.collectors.missing,
      h("div", { class: "cards" }, ...this.cards.map((card) => card.element)),
      this.cores.element,
      h("div", { class: "cards wide-cards" }, ...this.tables.map((table) => table.element)),
      this.collectors.element,
      this.values.element);
  }

  update(report: TopReport): void {
    this.cores.update(report);
    for (const one of [...this.cards, ...this.tables, this.collectors, this.values]) one.update(report);
  }
}

class Card {
  readonly element: HTMLElement;
  private readonly plots: Plot[];

  constructor(title: string, private readonly specs: RowSpec[]) {
    this.plots = specs.map(() => new Plot());
    this.element = h("article", { class: "card" }, h("h3", {}, title), h("table", { class: "readings" },
      h("tbody", {}, ...specs.map((spec, i) => h("tr", {},
        h("th", { scope: "row" }, spec.title),
        h("td", { class: "small-plot" }, this.plots[i]?.spark.canvas),
        h("td", { class: "number" }, this.plots[i]?.value))))));
  }

  update(report: TopReport): void {
    this.specs.forEach((spec, i) => {
      const plot = this.plots[i];
      if (plot === undefined) return;
      plot.spark.top = spec.top?.(report) ?? 0;
      plot.set(spec.read(report));
    });
  }
}

class ScopeTable {
  readonly element: HTMLElement;
  private readonly rows: Keyed<string, ScopeRow>;
  private report: TopReport | null = null;

  constructor(private readonly kind: string, title: string, private readonly columns: Column[]) {
    const body = h("tbody");
    this.rows = new Keyed(body, (scope) => scope, (scope) => new ScopeRow(scope.slice(kind.length + 1), columns),
      (row, scope) => this.report && row.update(this.report, scope));
    this.element = h("article", { class: "card", hidden: true }, h("h3", {}, title), h("div", { class: "wide" },
      h("table", { class: "readings scopes" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }), ...columns.map((c) => h("th", { scope: "col" }, c.title)))), body)));
  }

  update(report: TopReport): void {
    this.report = report;
    const scopes = Object.keys(report.metrics).filter((scope) => scope.startsWith(`${this.kind}:`) && this.hasValues(scope));
    this.element.hidden = scopes.length === 0;
    this.rows.set(scopes);
  }

  /** A loop device that was never used has only zeros: it is among all values. */
  private hasValues(scope: string): boolean {
    return this.columns.some((c) => this.report && nodeValue(this.report, scope, c.metric)?.value);
  }
}

class ScopeRow {
  readonly element: HTMLElement;
  private readonly plots: Plot[];

  constructor(name: string, private readonly columns: Column[]) {
    this.plots = columns.map((c) => new Plot(c.top));
    this.element = h("tr", {}, h("th", { scope: "row", class: "mono name", title: name }, name),
      ...this.plots.map((plot) => h("td", {}, h("div", { class: "cell" }, plot.spark.canvas, plot.value))));
  }

  update(report: TopReport, scope: string): void {
    this.columns.forEach(({ metric: name, form }, i) => this.plots[i]?.set(read(nodeValue(report, scope, name), form, name)));
  }

  end(): void {
    for (const plot of this.plots) plot.spark.end();
  }
}

/** Collectors that have no data: those that had some stand above all, the others are folded. */
class Collectors {
  readonly missing = h("div", { class: "missing", role: "status" });
  readonly element = h("details", { class: "more", hidden: true });
  private text = "";

  update(report: TopReport): void {
    const lost = report.collectors.filter((c) => c.status === "degraded");
    const never = report.collectors.filter((c) => c.status === "unavailable" || c.status === "disabled");
    const since = (seconds: number | null | undefined) =>
      seconds == null ? "no data" : `no data since ${clockOf(new Date(Date.parse(report.time) - seconds * 1000))}`;
    const lines = lost.map((c) => `${c.name} (${c.mechanism}): ${since(c.no_data_seconds)}${c.reason ? `, ${c.reason}` : ""}; ` +
      `${count(c.failures)} attempts failed`);
    const text = JSON.stringify([lines, never]);
    if (text === this.text) return;
    this.text = text;
    replace(this.missing, ...lines.map((line) => h("p", { class: "banner open" }, line)));
    this.element.hidden = never.length === 0;
    replace(this.element, h("summary", {}, `${count(never.length)} collectors have no data on this machine`),
      h("ul", { class: "lines" }, ...never.map((c) => h("li", {}, `${c.name} (${c.mechanism}): ${c.reason ?? c.status}`))));
  }
}
