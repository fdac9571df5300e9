// The processes as a tree, and the rows that the time line shows of it.

import type { MetricName, Page } from "./generated";

export interface Process {
  index: number;
  pid: number;
  parentPid: number;
  uid: number;
  name: string;
  command: string;
  start: number;
  /** When it ended, or the end of the recording if it was still alive. */
  end: number;
  ended: string;
  failed: boolean;
  /** The latest end of it and of all that descends from it. */
  lastEnd: number;
  children: Process[];
  metrics: Map<string, number>;
}

/** A line of the time line: one process, or like siblings folded into one. */
export interface Row {
  process: Process;
  depth: number;
  /** The siblings that are folded into this row; empty for a row of one process. */
  folded: Process[];
  canOpen: boolean;
  isOpen: boolean;
}

/** More siblings of one name than this are folded into one row. */
const FOLD_ABOVE = 8;

export function processes(page: Page): Process[] {
  const t = page.processes;
  const text = (index: number | undefined) => t.texts[index ?? -1] ?? "";
  const list = t.pid.map((pid, i): Process => ({
    index: i,
    pid,
    parentPid: t.parent[i] ?? 0,
    uid: t.uid[i] ?? 0,
    name: text(t.name[i]),
    command: text(t.command[i]),
    start: t.start[i] ?? 0,
    end: t.end[i] ?? page.duration,
    ended: text(t.ended[i]),
    failed: t.failed[i] ?? false,
    lastEnd: 0,
    children: [],
    metrics: new Map(),
  }));
  for (const [name, column] of Object.entries(t.metrics)) {
    column.forEach((value, i) => {
      if (value !== null) list[i]?.metrics.set(name, value);
    });
  }
  return list;
}

/** Joins children to their parents; returns those whose parent is not in the job. A PID may have
 * been used again: the parent is the latest process of that PID that was there when the child
 * started. */
export function grow(list: Process[]): Process[] {
  const byPid = new Map<number, Process[]>();
  const ordered = [...list].sort((a, b) => a.start - b.start || a.index - b.index);
  for (const p of ordered) listed(byPid, p.pid).push(p);
  const roots: Process[] = [];
  for (const p of ordered) {
    const parent = byPid.get(p.parentPid)?.findLast((q) => q !== p && q.start <= p.start);
    (parent?.children ?? roots).push(p);
    p.lastEnd = p.end;
  }
  // Children start after their parents: from the back, each is complete before its parent's turn.
  for (const p of ordered.reverse()) {
    for (const child of p.children) p.lastEnd = Math.max(p.lastEnd, child.lastEnd);
  }
  return roots;
}

/** The list under a key, a new one if there is none. */
function listed<K, V>(map: Map<K, V[]>, key: K): V[] {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}

export type Order = "tree" | "start" | "length" | MetricName;

export interface Wish {
  order: Order;
  filter: string;
  fold: boolean;
  /** Only processes that were there between these times, or whose descendants were. */
  from: number;
  to: number;
  /** Rows whose state differs from the usual: opened folds, closed processes. */
  toggled: Set<string>;
}

/** The name of a row that can be opened or closed. */
export function rowKey(row: Row): string {
  return row.folded.length > 0 ? `fold:${row.process.index}` : `process:${row.process.index}`;
}

export function rows(list: Process[], roots: Process[], wish: Wish): Row[] {
  const words = wish.filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length > 0 || wish.order !== "tree") {
    const found = list.filter((p) => p.start <= wish.to && p.end >= wish.from && matches(p, words));
    return sorted(found, wish.order)
      .map((process) => ({ process, depth: 0, folded: [], canOpen: false, isOpen: false }));
  }
  const out: Row[] = [];
  addSiblings(out, roots, 0, wish);
  return out;
}

function matches(p: Process, words: string[]): boolean {
  const text = `${p.pid} ${p.name} ${p.command} ${p.ended}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function sorted(list: Process[], order: Order): Process[] {
  const worth = (p: Process): number => {
    if (order === "start" || order === "tree") return -p.start;
    return order === "length" ? p.end - p.start : p.metrics.get(order) ?? -1;
  };
  return list.sort((a, b) => worth(b) - worth(a));
}

// A process may have a chain of thousands of descendants: own stack instead of recursion.
function addSiblings(out: Row[], roots: Process[], depth: number, wish: Wish): void {
  const stack: Row[] = siblings(roots, depth, wish).reverse();
  for (let row = stack.pop(); row !== undefined; row = stack.pop()) {
    out.push(row);
    if (!row.isOpen) continue;
    const below = row.folded.length > 0
      ? row.folded.map((p) => single(p, row.depth + 1, wish))
      : siblings(row.process.children, row.depth + 1, wish);
    for (const next of below.reverse()) stack.push(next);
  }
}

function siblings(all: Process[], depth: number, wish: Wish): Row[] {
  const list = all.filter((p) => p.start <= wish.to && p.lastEnd >= wish.from);
  const byName = new Map<string, Process[]>();
  for (const p of list) listed(byName, p.name).push(p);
  const out: Row[] = [];
  const done = new Set<string>();
  for (const p of list) {
    const alike = byName.get(p.name) ?? [];
    if (!wish.fold || alike.length <= FOLD_ABOVE) {
      out.push(single(p, depth, wish));
    } else if (!done.has(p.name)) {
      done.add(p.name);
      const row: Row = { process: p, depth, folded: alike, canOpen: true, isOpen: false };
      row.isOpen = wish.toggled.has(rowKey(row));
      out.push(row);
    }
  }
  return out;
}

function single(process: Process, depth: number, wish: Wish): Row {
  const row: Row = { process, depth, folded: [], canOpen: process.children.length > 0, isOpen: true };
  row.isOpen = row.canOpen && !wish.toggled.has(rowKey(row));
  return row;
}
