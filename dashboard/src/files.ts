// The files, each once, with how often and by how many processes it was opened; and what was read and written,
// where that was followed.

import { folded, h, replace } from "./dom";
import { details, hasDetails } from "./file-details";
import { count, seconds, size } from "./format";
import type { FilesUsed, Fold, IoPage, Page, Quality } from "./generated";
import { relative } from "./paths";

interface File {
  path: string;
  /** Its rows in the page's data, one for each process. */
  rows: number[];
  opened: number;
  pids: Set<number>;
  /** Where threads were told apart. */
  tids: Set<number>;
  quality: Quality;
  fold: Fold;
  isWaitedAt: boolean;
  seconds: number;
  read: number;
  reads: number;
  written: number;
  writes: number;
  mapped: number;
  fromDevice: number;
  toDevice: number;
  /** The commonest way through it; of the process that spent most time on it. */
  pattern: string;
  longest: number;
  /** Of what there may be more than is known: reads, writes. */
  isBound: { reads: boolean; writes: boolean };
}

type Counted = "opened" | "processes" | "threads" | "seconds" | "read" | "reads" | "written" | "writes" | "mapped"
  | "fromDevice" | "toDevice";
type Column = "path" | Counted;

const TITLES: Partial<Record<Column, string>> = {
  opened: "opens", seconds: "time", fromDevice: "from device", toDevice: "to device",
};
const OPENED: Column[] = ["path", "opened", "processes"];
const USED: Column[] = ["path", "seconds", "read", "reads", "written", "writes", "mapped", "fromDevice", "toDevice",
  "opened", "processes", "threads"];

const PART = 50;

/** Files that stand in one line until it is opened. */
const FOLDED: [Fold, string, string][] = [
  ["system", "system file, library or bytecode", "system files, libraries and bytecode"],
  ["waited", "pipe, socket or terminal", "pipes, sockets and terminals"],
];

export function filesSection(page: Page): HTMLElement | null {
  const all = files(page);
  if (all.length === 0) return null;
  const names = new Map(page.processes.pid.map((pid, i) =>
    [pid, page.processes.texts[page.processes.name[i] ?? -1] ?? ""]));
  const hasThreads = page.files.used?.tid.some((tid) => tid !== 0) === true;
  const isSeen = (column: Column): boolean => !isUnseen(column, page.io) && (column !== "threads" || hasThreads);
  const columns = page.files.used === null ? OPENED : USED.filter(isSeen);
  let column: Column = page.files.used === null ? "opened" : "seconds";
  let upwards = false;
  let most = PART;

  const open = new Set<string>();
  const unfolded = new Set<Fold>();
  const filter = h("input", { type: "search", placeholder: "Filter by path", "aria-label": "Filter the files" });
  const tally = h("span", { class: "muted tally" });
  const body = h("tbody");
  const more = h("button", { type: "button", class: "more-rows" }, "Show more");
  const heads = columns.map((name) => {
    const button = h("button", { type: "button", class: "sort" }, TITLES[name] ?? name);
    button.addEventListener("click", () => {
      upwards = column === name ? !upwards : name === "path";
      column = name;
      show();
    });
    return { name, cell: h("th", { class: name === "path" ? "" : "number", scope: "col" }, button) };
  });

  function show(): void {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((f) => words.every((w) => f.path.toLowerCase().includes(w)));
    found.sort((a, b) => behind(a, b, column) || (upwards ? 1 : -1) * compare(a, b, column) || byText(a.path, b.path));
    // What is looked for is not folded away.
    const own = words.length > 0 ? found : found.filter((f) => f.fold === "own");
    const rows = (of: File[]) => of.slice(0, most).flatMap((f) => rowsOf(page, f, columns, names, open));
    const lines = FOLDED.flatMap(([fold, one, several]) => {
      const these = found.filter((f) => f.fold === fold);
      if (these.length === 0 || words.length > 0) return [];
      const isOpen = unfolded.has(fold);
      return [foldRow(these, counted(these.length, one, several), columns, isOpen, () => {
        if (!unfolded.delete(fold)) unfolded.add(fold);
        show();
      }), ...isOpen ? rows(these) : []];
    });
    replace(body, ...rows(own), ...lines);
    replace(tally, `${count(found.length)} of ${count(all.length)} files`);
    more.hidden = own.length <= most && ![...unfolded].some((fold) => found.filter((f) => f.fold === fold).length > most);
    for (const { name, cell } of heads) {
      cell.setAttribute("aria-sort", name !== column ? "none" : upwards ? "ascending" : "descending");
    }
  }

  filter.addEventListener("input", () => { most = PART; show(); });
  more.addEventListener("click", () => { most += PART * 4; show(); });
  show();
  const missing = page.files.total - page.files.path.length;
  return folded("files", "Files", brief(all),
    h("div", { class: "controls" }, filter, tally),
    h("div", { class: "wide" }, h("table", { class: "files" },
      h("thead", {}, h("tr", {}, ...heads.map((head) => head.cell),
        page.files.used !== null && h("th", { scope: "col" }, "pattern"), h("th", { scope: "col" }, "by"))), body)),
    more,
    missing > 0 && h("p", { class: "note" },
      `${count(missing)} of ${count(page.files.total)} rows are not on this page; files.parquet has them all.`));
}

/** How many there are of each kind. */
function brief(all: File[]): string {
  const number = (fold: Fold) => all.filter((f) => f.fold === fold).length;
  const others = FOLDED.filter(([fold]) => number(fold) > 0)
    .map(([fold, one, several]) => counted(number(fold), one, several));
  return [`${count(number("own"))} of the job`, ...others].join(", ");
}

function counted(number: number, one: string, several: string): string {
  return `${count(number)} ${number === 1 ? one : several}`;
}

/** By time, what waits for another process comes behind the files. */
function behind(a: File, b: File, column: Column): number {
  return column === "seconds" ? Number(a.isWaitedAt) - Number(b.isWaitedAt) : 0;
}

/** One line for many files. */
function foldRow(files: File[], title: string, columns: Column[], isOpen: boolean, turn: () => void): HTMLElement {
  const button = h("button", { type: "button", class: "fold", "aria-expanded": String(isOpen) },
    title);
  button.addEventListener("click", turn);
  const all = fresh("");
  files.forEach((file) => add(all, file));
  return h("tr", { class: "folded" }, h("td", {}, button),
    ...columns.filter((column) => column !== "path").map((column) => h("td", { class: "number" }, cell(all, column))),
    columns.includes("seconds") && h("td"), h("td"));
}

function add(all: File, file: File): void {
  const sums = ["opened", "seconds", "read", "reads", "written", "writes", "mapped", "fromDevice", "toDevice"] as const;
  for (const sum of sums) all[sum] += file[sum];
  file.pids.forEach((pid) => all.pids.add(pid));
  file.tids.forEach((tid) => all.tids.add(tid));
  all.isBound.reads ||= file.isBound.reads;
  all.isBound.writes ||= file.isBound.writes;
}

/** Whether a column would say of all files that nothing was done, for it could not be seen. */
function isUnseen(column: Column, io: IoPage | null): boolean {
  if (io === null) return false;
  switch (column) {
    case "read": case "reads": return io.are_reads_unseen;
    case "written": case "writes": return io.are_writes_unseen;
    case "mapped": return io.is_mapped_unseen;
    case "fromDevice": case "toDevice": return io.is_mapped_unseen || io.are_devices_unseen;
    default: return false;
  }
}

function files(page: Page): File[] {
  const t = page.files;
  const found = new Map<number, File>();
  t.path.forEach((path, i) => {
    const file = found.get(path) ?? fresh(t.paths[path] ?? "");
    file.rows.push(i);
    file.opened += t.opened[i] ?? 0;
    file.pids.add(t.pid[i] ?? 0);
    const quality = t.quality[i] ?? "exact";
    if (quality !== "exact") file.quality = quality;
    // A file that one process wrote is one of the job, whatever else read it.
    const fold = t.fold[i] ?? "own";
    if (file.rows.length === 1 || fold === "own") file.fold = fold;
    file.isWaitedAt ||= t.is_waited_at[i] === true;
    if (t.used !== null) addUse(file, t.used, i);
    found.set(path, file);
  });
  return [...found.values()];
}

function fresh(path: string): File {
  return { path, rows: [], opened: 0, pids: new Set(), tids: new Set(), quality: "exact",
    fold: "own", isWaitedAt: false, seconds: 0, read: 0, reads: 0, written: 0, writes: 0,
    mapped: 0, fromDevice: 0, toDevice: 0, pattern: "", longest: 0,
    isBound: { reads: false, writes: false } };
}

function addUse(file: File, used: FilesUsed, i: number): void {
  const longest = used.seconds[i] ?? 0;
  file.tids.add(used.tid[i] ?? 0);
  file.seconds += longest;
  file.read += used.read[i] ?? 0;
  file.reads += used.reads[i] ?? 0;
  file.written += used.written[i] ?? 0;
  file.writes += used.writes[i] ?? 0;
  const isBound = used.is_bound[i] === true;
  file.isBound.reads ||= isBound || used.read[i] === null;
  file.isBound.writes ||= isBound || used.written[i] === null;
  file.mapped += used.mapped[i] ?? 0;
  file.fromDevice += used.from_device[i] ?? 0;
  file.toDevice += used.to_device[i] ?? 0;
  if (longest >= file.longest) {
    file.pattern = used.pattern[i] || file.pattern;
    file.longest = longest;
  }
}

function number(file: File, column: Counted): number {
  switch (column) {
    case "processes": return file.pids.size;
    case "threads": return file.tids.size;
    default: return file[column];
  }
}

/** As it stands in the table; what did not happen leaves its place empty. */
function cell(file: File, column: Counted): string {
  const n = number(file, column);
  const { reads, writes } = file.isBound;
  switch (column) {
    case "seconds": return seconds(n);
    case "read": return known(n, size, reads);
    case "written": return known(n, size, writes);
    case "mapped": case "fromDevice": case "toDevice": return known(n, size, false);
    case "reads": return known(n, count, reads);
    case "writes": return known(n, count, writes);
    default: return count(n);
  }
}

/** Where there may be more than was seen, nothing is not known to be nothing. */
function known(n: number, say: (n: number) => string, isBound: boolean): string {
  if (n === 0) return isBound ? "?" : "";
  return isBound ? `≥ ${say(n)}` : say(n);
}

function compare(a: File, b: File, column: Column): number {
  return column === "path" ? byText(a.path, b.path) : number(a, column) - number(b, column);
}

/** The same order in every language. */
function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

let panels = 0;

/** The file's row, and below it what else is known, as long as it is open. */
function rowsOf(page: Page, file: File, columns: Column[], names: Map<number, string>, open: Set<string>): HTMLElement[] {
  const shown = row(page, file, columns, names);
  const used = page.files.used;
  if (used === null || !hasDetails(used.details, file.rows)) return [shown];
  const id = `details-${(panels += 1)}`;
  const below = h("tr", { class: "below", id, hidden: true }, h("td", { colspan: columns.length + 2 }));
  const button = h("button", { type: "button", class: "opener", "aria-controls": id, "aria-label": `Details of ${file.path}` });
  const turn = (isOpen: boolean): void => {
    if (isOpen) open.add(file.path);
    else open.delete(file.path);
    // Made when it is wanted: a page has thousands of files.
    if (isOpen && below.firstElementChild?.childElementCount === 0) below.firstElementChild.append(details(page, file.rows, names));
    below.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
  };
  turn(open.has(file.path));
  // A click that selects a path to copy it is not to open it.
  shown.addEventListener("click", () => {
    if (getSelection()?.isCollapsed !== false) turn(!open.has(file.path));
  });
  shown.classList.add("opens");
  shown.querySelector(".path")?.append(button);
  return [shown, below];
}

function row(page: Page, file: File, columns: Column[], names: Map<number, string>): HTMLElement {
  const by = [...new Set([...file.pids].map((pid) => names.get(pid) || String(pid)))];
  const shown = by.slice(0, 3).join(", ") + (by.length > 3 ? `, ${by.length - 3} more` : "");
  return h("tr", {},
    h("td", { class: "mono path", title: file.path }, relative(page, file.path),
      file.quality !== "exact" && h("span", { class: `badge ${file.quality}` }, file.quality)),
    ...columns.filter((column) => column !== "path").map((column) => h("td", { class: "number" }, cell(file, column))),
    columns.includes("seconds") && h("td", { class: "muted" }, file.pattern),
    h("td", { class: "muted" }, shown));
}
