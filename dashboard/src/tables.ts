// The reference part of the page: every metric, the limits, the collectors, the host.

import { folded, h } from "./dom";
import { amount, count } from "./format";
import type { CollectorState, GpuUse, MetricRow, Page, Value } from "./generated";
import { badge } from "./quality";

export function metricsSection(page: Page): HTMLElement {
  const bodies = page.groups.map((group) => h("tbody", {},
    h("tr", { class: "group" }, h("th", { colspan: 3, scope: "rowgroup" }, group.title)),
    ...page.metrics.filter((m) => m.group === group.group).map(metricRow)));
  return folded("metrics", "All metrics", metricsBrief(page),
    h("table", { class: "metrics" },
      h("thead", {}, h("tr", {},
        h("th", { scope: "col" }, "metric"),
        h("th", { scope: "col", class: "number" }, "value"),
        h("th", { scope: "col" }, "quality, source"))),
      ...bodies));
}

function metricsBrief(page: Page): string {
  const absent = page.metrics.filter((m) => m.text === null).length;
  return `${count(page.metrics.length - absent)} known, ${count(absent)} not available`;
}

function metricRow(m: MetricRow): HTMLElement {
  // In base units, unless that is what the text says already.
  const isScaled = m.text !== null && m.unit === "bytes" && (m.value ?? 0) >= 1024;
  return h("tr", { "data-metric": m.name, class: m.text === null ? "missing" : "" },
    h("td", {}, h("details", {},
      h("summary", {}, h("code", {}, m.name), h("span", { class: "help" }, m.help)),
      h("p", { class: "counts" }, ...coded(m.counts)),
      h("p", { class: "counts muted" }, `${m.kind}, ${m.unit}${m.series ? `, series ${m.series}` : ""}`))),
    h("td", { class: "number", title: m.value === null ? undefined : `${m.value} ${m.unit}` }, m.text ?? "–",
      isScaled && h("span", { class: "raw" }, `${count(m.value ?? 0)} B`)),
    h("td", { class: "trust" }, badge(m), h("span", { class: "muted" }, m.source === "none" ? "" : m.source),
      m.reason !== null && h("p", { class: "reason" }, m.reason)));
}

/** The text with what stands between back quotes set as code. */
function coded(text: string): (Node | string)[] {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

export function limitsSection(page: Page): HTMLElement | null {
  if (page.limits.length === 0) return null;
  const rows = page.limits.map((l) => h("tr", {},
    h("td", {}, h("code", {}, l.outcome.metric)),
    h("td", {}, h("span", { class: `state ${l.outcome.exceeded ? "bad" : "good"}` },
      l.outcome.exceeded ? "exceeded" : "kept")),
    h("td", {}, l.words)));
  return folded("limits", "Limits", `${count(page.limits.length)}`, h("div", { class: "wide" }, h("table", {},
    h("thead", {}, h("tr", {}, ...["metric", "", "outcome"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, ...rows))));
}

export function snapshotsSection(page: Page): HTMLElement | null {
  if (page.snapshots.length === 0) return null;
  const rows = page.snapshots.map((s) => h("tr", {},
    h("td", {}, s.label),
    h("td", { class: "number" }, s.when),
    ...s.values.map((value) => h("td", { class: "number" }, value ?? "–")),
    h("td", { class: "muted" }, s.because)));
  return folded("snapshots", "Snapshots", `${count(page.snapshots.length)}`, h("div", { class: "wide" }, h("table", {},
    h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "label"),
      h("th", { scope: "col", class: "number" }, "at"),
      ...page.snapshot_metrics.map((name) => h("th", { scope: "col", class: "number" }, h("code", {}, name))),
      h("th", { scope: "col" }, "taken for"))),
    h("tbody", {}, ...rows))));
}

const STATE_TONE: Record<CollectorState, string> = {
  active: "good", degraded: "open", unavailable: "off", disabled: "off",
};

export function collectorsSection(page: Page): HTMLElement {
  const rows = page.collectors.map((c) => h("tr", {},
    h("td", {}, c.name),
    h("td", { class: "muted" }, c.mechanism),
    h("td", {}, h("span", { class: `state ${STATE_TONE[c.status]}` }, c.status)),
    h("td", { class: c.lost > 0 ? "number bad-text" : "number" }, count(c.lost)),
    h("td", { class: "muted" }, c.reason ?? "")));
  return folded("collectors", "How it was measured", [...new Set(page.collectors.map((c) => c.mechanism))].join(", "), h("div", { class: "wide" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "collector"), h("th", { scope: "col" }, "mechanism"),
      h("th", { scope: "col" }, "status"), h("th", { scope: "col", class: "number" }, "events lost"),
      h("th", { scope: "col" }, "reason"))),
    h("tbody", {}, ...rows))));
}

function valueCell(value: Value | undefined): HTMLElement {
  return h("td", { class: "number", title: value?.reason ?? undefined },
    typeof value?.value === "number" ? amount(value.value, value.unit) : "–", " ", value !== undefined && badge(value));
}

/** What each process did with each GPU. */
export function gpusSection(page: Page): HTMLElement | null {
  if (page.gpus.length === 0) return null;
  const row = (use: GpuUse) => h("tr", {},
    h("td", { class: "number" }, String(use.pid)),
    h("td", { title: use.uuid ?? undefined }, use.gpu),
    valueCell(use.metrics.gpu_seconds),
    valueCell(use.metrics.gpu_memory_peak_bytes),
    h("td", { class: "muted" }, use.opened.join(", ")));
  const gpus = new Set(page.gpus.map((use) => use.gpu)).size;
  return folded("gpus", "GPUs by process", `${count(gpus)}`, h("div", { class: "wide" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number" }, "process"), h("th", { scope: "col" }, "GPU"),
      h("th", { scope: "col", class: "number" }, "time"), h("th", { scope: "col", class: "number" }, "memory at most"),
      h("th", { scope: "col" }, "opened by"))),
    h("tbody", {}, ...page.gpus.map(row)))));
}

export function hostSection(page: Page): HTMLElement {
  const { host } = page;
  const facts: [string, string][] = [
    ["node", host.node],
    ["kernel", host.kernel],
    ["CPUs", count(host.cpus)],
    ["memory", amount(host.memory_bytes, "bytes")],
    ["cgroups", host.cgroup_version],
    ["virtualisation", host.virtualisation ?? "not known"],
    ["weigh", host.weigh],
  ];
  return folded("host", "Host", `${host.node}, ${host.kernel}`, h("dl", { class: "facts" },
    ...facts.map(([word, value]) => h("div", {}, h("dt", {}, word), h("dd", {}, value)))), momentsTable(page));
}

type Values = Record<string, Value> | undefined;

/** The machine, and the room on the file systems that the job used, before and after it. */
function momentsTable(page: Page): HTMLElement {
  const rows = (title: string, moments: [Values, Values, Values]) => {
    const names = [...new Set(moments.flatMap((values) => Object.keys(values ?? {})))];
    return names.length === 0 ? null : h("tbody", {},
      h("tr", { class: "group" }, h("th", { colspan: 4, scope: "rowgroup" }, title)),
      ...names.map((name) => h("tr", {}, h("td", {}, h("code", {}, name)), ...moments.map((values) => valueCell(values?.[name])))));
  };
  const { at_start, at_end } = page.host;
  const systems = page.file_systems.map(({ mount, kind, used_for, ...room }) =>
    rows(`${mount} (${kind}): ${used_for.map((purpose) => purpose.replace("_", " ")).join(", ")}`, [room.at_start, room.least, room.at_end]));
  return h("div", { class: "wide" }, h("table", { class: "metrics" },
    h("thead", {}, h("tr", {}, ...["", "at the start", "at least", "at the end"].map((word) => h("th", { scope: "col", class: "number" }, word)))),
    rows("machine", [at_start, undefined, at_end]), ...systems));
}
