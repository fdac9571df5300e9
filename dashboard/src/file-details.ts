// What else is known of a file, below its row: a part for each process, the one that spent most time first. What is
// nothing is left out; what is not exact has its sign and its reason.

import { append, h, svg } from "./dom";
import { amount, count, seconds, size } from "./format";
import type { DetailField, DetailPart, FileDetails, Page } from "./generated";

/** So many processes of a file are shown at once. */
const MOST = 8;

/** So many parts, time and calls, come before the lists. */
const AHEAD = 2;

/** Rows of the page's files in the order of the time that they took. */
export function details(page: Page, rows: number[], names: Map<number, string>): HTMLElement {
  const used = page.files.used;
  const panel = h("div", { class: "details" });
  if (used === null) return panel;
  const sorted = [...rows].sort((a, b) => (used.seconds[b] ?? 0) - (used.seconds[a] ?? 0));
  append(panel, ...sorted.slice(0, MOST).map((row) => one(page, used.details, row, names)));
  const left = sorted.length - MOST;
  if (left > 0) append(panel, h("p", { class: "note" }, `${count(left)} more processes have it in files.parquet.`));
  const notExact = doubtful(page, used.details);
  if (notExact.length > 0) append(panel, h("dl", { class: "not-exact" }, ...notExact));
  return panel;
}

/** Whether anything is known of one of these rows beside what the table has. */
export function hasDetails(details: FileDetails, rows: number[]): boolean {
  return rows.some((row) => (details.numbers[row]?.length ?? 0) > 0 || (details.kinds[row]?.length ?? 0) > 0);
}

function one(page: Page, of: FileDetails, row: number, names: Map<number, string>): HTMLElement {
  const pid = page.files.pid[row] ?? 0;
  const tid = page.files.used?.tid[row] ?? 0;
  const thread = tid === 0 ? "" : ` thread ${tid}`;
  const about = of.texts[of.about[row] ?? -1] ?? "";
  const sign = doubtsOf(of, row).find((d) => d.about === "reads and writes")?.sign ?? "";
  const parts = of.parts.map((part, i) => partOf(page, of, part, first(of, i), row));
  return h("section", { class: "use", "data-row": row },
    h("h3", {}, `${names.get(pid) || "process"} ${pid}${thread}`, h("span", { class: "muted" }, about)),
    h("div", { class: "parts" },
      ...parts.slice(0, AHEAD),
      list("kinds of transfer", kinds(of, row)),
      sizes("sizes of reads", of.read_sizes[row] ?? [], sign),
      sizes("sizes of writes", of.write_sizes[row] ?? [], sign),
      list("strides of reads", strides(of.read_strides[row] ?? [])),
      list("strides of writes", strides(of.write_strides[row] ?? [])),
      ...parts.slice(AHEAD)),
    ...doubtsOf(of, row).map((doubt) => h("p", { class: "doubt" }, `${doubt.about} `,
      h("span", { class: `badge ${doubt.quality}` }, doubt.quality), ` ${doubt.reason}`)));
}

/** The place of the first field of a part among all fields. */
function first(of: FileDetails, part: number): number {
  return of.parts.slice(0, part).reduce((sum, p) => sum + p.fields.length, 0);
}

function doubtsOf(of: FileDetails, row: number): FileDetails["doubt"] {
  return (of.doubts[row] ?? []).flatMap((i) => of.doubt[i] ?? []);
}

function partOf(page: Page, of: FileDetails, part: DetailPart, from: number, row: number): HTMLElement | null {
  const numbers = pairs(of.numbers[row] ?? []);
  const found = part.fields.flatMap((field, i) => {
    const number = numbers.get(from + i);
    return number === undefined ? [] : [line(page, of, field, number, row)];
  });
  if (part.title === "time") found.push(...slowest(of, row));
  return list(part.title, found);
}

function line(page: Page, of: FileDetails, field: DetailField, number: number, row: number): HTMLElement {
  const doubt = doubtsOf(of, row).find((d) => d.keys.includes(field.key));
  const trust = page.io?.trust.find((t) => t.key === field.key);
  const reason = doubt?.reason ?? trust?.reason;
  const quality = doubt?.quality ?? trust?.quality;
  return entry(field.word, `${doubt?.sign ?? ""}${amount(number, field.unit)}${share(page, field, number, row)}`,
    field.help, quality !== undefined && h("span", { class: `badge ${quality}`, title: reason }, quality));
}

/** How many of all reads needed no device. */
function share(page: Page, field: DetailField, number: number, row: number): string {
  const reads = page.files.used?.reads[row] ?? 0;
  return field.key !== "cached_reads_total" || reads < number ? ""
    : ` of ${count(reads)} (${(100 * number / reads).toFixed(0)} %)`;
}

function slowest(of: FileDetails, row: number): HTMLElement[] {
  const call = of.slowest[row];
  if (call === null || call === undefined) return [];
  const words = `${of.texts[call] ?? ""}, ${seconds(of.slowest_seconds[row] ?? 0)}`;
  return [entry("slowest call", words, `It ended at ${seconds(of.slowest_at[row] ?? 0)}.`,
    h("span", { class: "muted" }, ` at ${seconds(of.slowest_at[row] ?? 0)}`))];
}

function entry(word: string, value: string, help: string, ...more: (Node | false)[]): HTMLElement {
  return h("div", { title: help }, h("dt", {}, word), h("dd", {}, value, ...more));
}

function list(title: string, entries: HTMLElement[]): HTMLElement | null {
  return entries.length === 0 ? null : h("div", {}, h("h4", {}, title), h("dl", {}, ...entries));
}

/** What stands behind each other in a short list, two by two. */
function pairs(flat: number[]): Map<number, number> {
  const found = new Map<number, number>();
  for (let i = 0; i + 1 < flat.length; i += 2) found.set(flat[i] ?? 0, flat[i + 1] ?? 0);
  return found;
}

function strides(flat: number[]): HTMLElement[] {
  return [...pairs(flat)].map(([bytes, times]) => {
    const way = bytes === 0 ? "at the same offset" : `${size(Math.abs(bytes))} ${bytes < 0 ? "back" : "ahead"}`;
    return entry(way, count(times), "From the beginning of one access to that of the next, and how often");
  });
}

function kinds(of: FileDetails, row: number): HTMLElement[] {
  const flat = of.kinds[row] ?? [];
  const found: HTMLElement[] = [];
  for (let i = 0; i < flat.length; i += 5) {
    const [kind = 0, read = 0, reads = 0, written = 0, writes = 0] = flat.slice(i, i + 5);
    const name = of.kind[kind] ?? "";
    if (reads > 0) found.push(entry(`${name}, read`, `${size(read)} by ${count(reads)}`, "Bytes, and calls"));
    if (writes > 0) found.push(entry(`${name}, written`, `${size(written)} by ${count(writes)}`, "Bytes, and calls"));
  }
  return found;
}

const BAR = 14;
const HEIGHT = 44;

/** How many calls moved how much: a bar for each power of two from the least to the greatest. */
function sizes(title: string, flat: number[], sign: string): HTMLElement | null {
  const found = pairs(flat);
  if (found.size === 0) return null;
  const buckets = [...found.keys()].map(bucket);
  const [least, greatest] = [Math.min(...buckets), Math.max(...buckets)];
  const most = Math.max(...found.values());
  const width = (greatest - least + 1) * BAR;
  const words = [...found].map(([from, calls]) => `${range(from)}: ${sign}${count(calls)}`);
  const chart = svg("svg", { class: "sizes", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img",
    "aria-label": `${title}: ${words.join(", ")}` });
  chart.append(svg("line", { class: "axis", x1: 0, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }));
  for (const [from, calls] of found) {
    // One call among a million is seen, too.
    const height = Math.max((HEIGHT - 2) * calls / most, 2);
    const bar = svg("rect", { x: (bucket(from) - least) * BAR + 1, y: HEIGHT - height, width: BAR - 2, height,
      "data-from": from, "data-calls": calls });
    bar.append(svg("title", {}, `${range(from)}: ${sign}${count(calls)}`));
    chart.append(bar);
  }
  const lines = [...found].map(([from, calls]) => entry(range(from), sign + count(calls), "Calls of this size"));
  return h("div", {}, h("h4", {}, title), chart, h("dl", {}, ...lines));
}

function bucket(from: number): number {
  return from === 0 ? 0 : Math.round(Math.log2(from)) + 1;
}

/** The last bucket has all that is larger. */
const LAST = 2 ** 26;

function range(from: number): string {
  if (from <= 1) return size(from);
  return from >= LAST ? `${size(from)} and more` : `${size(from)} to ${size(from * 2)}`;
}

/** What is not exact, or not known, of any file, by its reason. */
function doubtful(page: Page, of: FileDetails): HTMLElement[] {
  const words = new Map(of.parts.flatMap((part) =>
    part.fields.map((field) => [field.key, `${part.title}: ${field.word}`] as const)));
  for (const kind of of.kind) words.set(kind, `kinds of transfer: ${kind}`);
  const reasons = new Map<string, { quality: string; reason: string; about: string[] }>();
  for (const { key, quality, reason } of page.io?.trust ?? []) {
    const word = words.get(key);
    if (word === undefined) continue;
    const same = reasons.get(quality + reason) ?? { quality, reason, about: [] };
    same.about.push(word);
    reasons.set(quality + reason, same);
  }
  return [...reasons.values()].map(({ quality, reason, about }) => h("div", {},
    h("dt", {}, about.join("; "), " ", h("span", { class: `badge ${quality}` }, quality)), h("dd", {}, reason)));
}
