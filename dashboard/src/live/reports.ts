// The node's reports as the stream tells them: the first one whole, then what has changed.

import type { TopProcess, TopReport } from "../generated";

/** What has changed: of objects and lists by name and place, of processes by PID. */
export interface NodeChange {
  report: Record<string, unknown>;
  gone: number[];
}

/** The latest report. Each one is another object; what has not changed in it is the same as before. */
export class Reports {
  private report: TopReport | null = null;
  private processes: Record<string, TopProcess> = {};

  take(report: TopReport): TopReport {
    this.report = report;
    this.processes = Object.fromEntries(report.processes.map((process) => [process.pid, process]));
    return report;
  }

  /** Null where the report before it is not known. */
  change({ report: patch, gone }: NodeChange): TopReport | null {
    if (this.report === null) return null;
    const { processes, ...rest } = patch;
    this.processes = merge(this.processes, processes ?? {}) as Record<string, TopProcess>;
    for (const pid of gone) delete this.processes[pid];
    const sorted = Object.values(this.processes).sort((a, b) =>
      (b.cpu_cores ?? 0) - (a.cpu_cores ?? 0) || b.cpu_seconds - a.cpu_seconds || a.pid - b.pid);
    this.report = { ...merge(this.report, rest) as TopReport, processes: sorted };
    return this.report;
  }
}

/** A copy with the changes in it. Names are others': they are set on objects without a prototype. */
export function merge(value: unknown, patch: unknown): unknown {
  if (!isObject(patch) || typeof value !== "object" || value === null) return patch;
  const copy = (Array.isArray(value) ? [...value] : Object.assign(Object.create(null), value)) as Record<string, unknown>;
  for (const [name, change] of Object.entries(patch)) copy[name] = merge(copy[name], change);
  return copy;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
