// The top of the page: what ran, how it ended, and all that a reader must know before believing
// the numbers.

import { h } from "./dom";
import { amount, count } from "./format";
import type { CollectorStatus, LimitRow, Offender, Page } from "./generated";

export function header(page: Page): HTMLElement {
  const { job, host } = page;
  const facts = [
    ["started", moment(job.started)],
    ["on", `${job.node} (${count(host.cpus)} CPUs, ${amount(host.memory_bytes, "bytes")})`],
    ["by", job.user],
    ["in", job.cwd],
    ["category", job.category],
    ...Object.entries(job.labels),
  ];
  return h("header", { class: "top" },
    h("div", { class: "mark" }, h("strong", {}, "weigh"), h("span", {}, job.id)),
    h("h1", {}, page.command),
    h("p", { class: `outcome ${page.outcome.tone}` }, page.outcome.words),
    h("dl", { class: "facts" }, ...facts.flatMap(([word, value]) =>
      value ? [h("div", {}, h("dt", {}, String(word)), h("dd", {}, value))] : [])));
}

function moment(text: string): string {
  return text.replace("T", " ").replace(/(\.\d{3})\d*Z$/, "$1 UTC").replace(/Z$/, " UTC");
}

export function banners(page: Page, isRunning = false): HTMLElement[] {
  const found: HTMLElement[] = [];
  if (page.exit === null && !isRunning) {
    found.push(banner("open", "The recording is incomplete",
      "No end was recorded: weigh was ended before the job. What is shown is what it had seen."));
  }
  for (const limit of page.limits.filter((l) => l.outcome.exceeded)) found.push(exceeded(limit));
  const lost = page.collectors.filter((c) => c.lost > 0);
  if (lost.length > 0) {
    found.push(banner("bad", "Events were lost",
      lost.map((c) => `${count(c.lost)} of ${c.name} (${c.mechanism})`).join(", ")));
  }
  const degraded = page.collectors.filter((c) => c.status === "degraded");
  if (degraded.length > 0) {
    found.push(banner("open", "Measured in part", degraded.map(why).join("; ")));
  }
  return found;
}

function why(collector: CollectorStatus): string {
  return `${collector.name} (${collector.mechanism}): ${collector.reason ?? "no reason given"}`;
}

function banner(tone: string, title: string, text: string, ...more: HTMLElement[]): HTMLElement {
  return h("aside", { class: `banner ${tone}` }, h("h2", {}, title), h("p", {}, text), ...more);
}

function exceeded(limit: LimitRow): HTMLElement {
  const { metric, offender } = limit.outcome;
  const text = limit.words.charAt(0).toUpperCase() + limit.words.slice(1);
  return banner("bad", `Limit on ${metric}`, `${text}.`,
    ...(offender ? [offenderDetails(offender)] : []));
}

function offenderDetails(offender: Offender): HTMLElement {
  return h("div", { class: "offender" },
    h("p", {}, "Crossed by process ", h("b", {}, offender.pid), ` (${offender.name}, thread `,
      offender.thread, "):"),
    h("pre", {}, offender.command.join(" ")),
    h("div", { class: "columns" },
      mappings(offender),
      list("Stack, innermost first", offender.stack),
      list("In the kernel", offender.kernel_stack),
      list("Open files", offender.open_files),
      list("Could not be read", offender.unreadable)));
}

function mappings(offender: Offender): HTMLElement | null {
  if (offender.mappings.length === 0) return null;
  const rows = offender.mappings.map((m) => h("tr", {},
    h("td", { class: "number" }, amount(m.rss_bytes, "bytes")),
    h("td", { class: "number muted" }, amount(m.size_bytes, "bytes")),
    h("td", { class: "mono" }, m.name)));
  return folded("Largest mappings", h("table", {},
    h("thead", {}, h("tr", {}, h("th", { class: "number" }, "resident"),
      h("th", { class: "number" }, "size"), h("th", {}, "of"))),
    h("tbody", {}, ...rows)));
}

function list(title: string, entries: string[]): HTMLElement | null {
  if (entries.length === 0) return null;
  return folded(title, h("ol", { class: "mono" }, ...entries.map((e) => h("li", {}, e))));
}

function folded(title: string, content: HTMLElement): HTMLElement {
  return h("details", { open: true }, h("summary", {}, title), content);
}
