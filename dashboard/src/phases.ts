// Phases over time: what the program says that it does. Bands of their colours lie behind every chart, and a row for each
// thread has each phase with its iteration.

import { blankContext, h, onThemeChange, replace, section, style } from "./dom";
import { clock, count, power, seconds } from "./format";
import type { Page, PhaseBands } from "./generated";
import { atEnd } from "./lifetime";
import type { View } from "./view";

/** Phases of one name. */
export interface PhaseKind {
  name: string;
  /** Which of the page's colours it has; null where there are more names than colours. */
  colour: number | null;
  shown: boolean;
  /** Rows of the page's columns. */
  rows: number[];
  /** Times in which at least one thread is in it; apart for each phase where there is one thread. */
  spans: [number, number][];
}

/** The colours of bands, those first that charts use last. */
const COLOURS = [2, 4, 3, 5, 1, 0];
const MOST_ROWS = 24;
const ROW = 16;
const LABELS = 116;
const AXIS = 18;

const NONE: PhaseBands = { total: 0, left_out: 0, name: [], process: [], thread: [], first: [], last: [], phases: [],
  start: [], end: [] };

export class Phases {
  kinds: PhaseKind[] = [];
  columns: PhaseBands = NONE;
  private texts: string[] = [];
  private readonly listeners = new Set<() => void>();

  constructor(page: Page) {
    this.take(page);
  }

  /** Of a run that goes on there are more. */
  take(page: Page): void {
    this.columns = page.regions?.phases ?? NONE;
    this.texts = page.regions?.texts ?? [];
    const byName = new Map<number, number[]>();
    this.columns.name.forEach((name, row) => {
      const rows = byName.get(name);
      if (rows === undefined) byName.set(name, [row]);
      else rows.push(row);
    });
    const kinds = [...byName].map(([name, rows]) => this.kind(name, rows));
    const longest = new Map(kinds.map((kind) => [kind, kind.spans.reduce((sum, [from, to]) => sum + to - from, 0)]));
    kinds.sort((a, b) => (longest.get(b) ?? 0) - (longest.get(a) ?? 0));
    kinds.forEach((kind, i) => { kind.colour = COLOURS[i] ?? null; });
    const hidden = new Set(this.kinds.filter((known) => !known.shown).map((known) => known.name));
    kinds.forEach((kind) => { kind.shown = !hidden.has(kind.name); });
    this.kinds = kinds;
    this.changed();
  }

  private kind(name: number, rows: number[]): PhaseKind {
    const lanes = new Set(rows.map((row) => this.lane(row)));
    const spans = rows.map((row): [number, number] => [this.columns.start[row] ?? 0, this.columns.end[row] ?? 0]);
    return { name: this.texts[name] ?? "", colour: null, shown: true, rows,
      spans: lanes.size > 1 ? union(spans) : spans };
  }

  /** The thread that a row is of. */
  lane(row: number): string {
    return `${this.columns.process[row]}/${this.columns.thread[row]}`;
  }

  toggle(kind: PhaseKind): void {
    kind.shown = !kind.shown;
    this.changed();
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener();
  }

  onChange(listener: () => void): void {
    this.listeners.add(listener);
    atEnd(() => this.listeners.delete(listener));
  }

  /** What the program does at that time, in words; empty if it says nothing. */
  at(time: number): string {
    const inside = (row: number) => (this.columns.start[row] ?? 0) <= time && time < (this.columns.end[row] ?? 0);
    const texts = this.kinds.filter((kind) => kind.shown).flatMap((kind) => {
      const rows = kind.rows.filter(inside);
      if (rows.length === 0) return [];
      const iterations = [...new Set(rows.map((row) => this.iteration(row)))];
      const which = iterations.slice(0, 3).join(", ") + (iterations.length > 3 ? ", …" : "");
      const threads = new Set(rows.map((row) => this.lane(row))).size;
      return [`${kind.name} ${which}${threads > 1 ? ` (${count(threads)} threads)` : ""}`];
    });
    return texts.slice(0, 4).join(", ");
  }

  iteration(row: number): string {
    const [first, last] = [this.columns.first[row] ?? "", this.columns.last[row] ?? ""];
    return first === last ? first : `${first} to ${last}`;
  }

  /** Paints the bands between two heights; `xOf` has the place of a time. */
  paint(context: CanvasRenderingContext2D, view: View, xOf: (time: number) => number, top: number, bottom: number): void {
    context.save();
    for (const kind of this.kinds) {
      if (!kind.shown) continue;
      context.fillStyle = kind.colour === null ? style("--muted") : style(`--colour-${kind.colour}`);
      let reached = -Infinity;
      kind.spans.forEach(([from, to], i) => {
        if (to < view.from || from > view.to) return;
        const start = Math.max(Math.round(xOf(Math.max(from, view.from))), reached);
        const end = Math.max(Math.round(xOf(Math.min(to, view.to))), start + (start > reached ? 1 : 0));
        if (end <= start) return;
        // Phases that follow each other without a gap are told apart.
        context.globalAlpha = i % 2 === 0 ? 0.2 : 0.12;
        context.fillRect(start, top, end - start, bottom - top);
        reached = end;
      });
    }
    context.restore();
  }
}

function union(spans: [number, number][]): [number, number][] {
  const out: [number, number][] = [];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = out[out.length - 1];
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}

/** A row of the section: one name on one thread. */
interface Lane { label: string; kind: PhaseKind; rows: number[] }

function lanes(phases: Phases): Lane[] {
  return phases.kinds.flatMap((kind) => {
    const byThread = new Map<string, number[]>();
    for (const row of kind.rows) {
      const rows = byThread.get(phases.lane(row));
      if (rows === undefined) byThread.set(phases.lane(row), [row]);
      else rows.push(row);
    }
    return [...byThread.values()].map((rows, i): Lane => ({ label: i === 0 ? kind.name : "", kind, rows }));
  });
}

export function phasesSection(page: Page, phases: Phases, view: View): HTMLElement | null {
  if (phases.kinds.length === 0) return null;
  const all = lanes(phases);
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label":
    "Phases over time; the arrows select one, Enter shows its time alone, + - and 0 change the time shown" });
  const said = h("p", { class: "said note", "aria-live": "polite" }, "\u00a0");
  new Lanes(page, phases, view, all.slice(0, MOST_ROWS), canvas, said);
  const keys = phases.kinds.map((kind) => {
    const element = h("button", { type: "button", "aria-pressed": "true",
      class: `key ${kind.colour === null ? "no-colour" : `colour-${kind.colour}`}`, title: `Show or hide the bands of ${kind.name}` },
      h("span", { class: "swatch band" }), h("span", { class: "name" }, kind.name),
      h("span", { class: "muted" }, count(kind.rows.reduce((n, row) => n + (phases.columns.phases[row] ?? 1), 0))));
    element.addEventListener("click", () => {
      phases.toggle(kind);
      element.setAttribute("aria-pressed", String(kind.shown));
    });
    return element;
  });
  const { total, left_out: leftOut } = phases.columns;
  const notes = [
    all.length > MOST_ROWS && `${count(all.length - MOST_ROWS)} more threads in a phase have no row here.`,
    phases.columns.phases.some((n) => n > 1) && `Of ${count(total)} phases those that follow each other share a band.`,
    leftOut > 0 && `${count(leftOut)} phases are in no band.`,
    (phases.columns.phases.some((n) => n > 1) || leftOut > 0) && "phases.parquet has all of them.",
  ].filter(Boolean);
  return section("phases", "Phases",
    h("figure", { class: "chart phases" },
      h("figcaption", {}, h("h3", {}, "Phases of the program"), h("div", { class: "legend" }, ...keys.slice(0, 12))), canvas, said),
    notes.length > 0 && h("p", { class: "note" }, notes.join(" ")));
}

class Lanes {
  private selected: { lane: number; place: number } | null = null;

  constructor(private readonly page: Page, private readonly phases: Phases, private readonly view: View,
    private readonly lanes: Lane[], private readonly canvas: HTMLCanvasElement, private readonly said: HTMLElement) {
    canvas.style.height = `${lanes.length * ROW + AXIS}px`;
    const paint = () => this.paint();
    view.onRange(paint);
    view.onCursor(paint);
    phases.onChange(paint);
    onThemeChange(paint);
    new ResizeObserver(paint).observe(canvas);
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => { this.say(null); view.point(null); });
    canvas.addEventListener("click", (event) => this.show(this.rowAt(event.offsetX, event.offsetY)));
    canvas.addEventListener("dblclick", () => view.whole());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => { this.selected = null; this.say(null); this.paint(); });
  }

  private get width(): number {
    return this.canvas.clientWidth - LABELS;
  }

  private x(time: number): number {
    return LABELS + (time - this.view.from) / (this.view.to - this.view.from) * this.width;
  }

  private timeAt(x: number): number | null {
    if (x < LABELS || this.width <= 0) return null;
    return this.view.from + (x - LABELS) / this.width * (this.view.to - this.view.from);
  }

  private rowAt(x: number, y: number): number | null {
    const time = this.timeAt(x);
    const lane = this.lanes[Math.floor(y / ROW)];
    if (time === null || lane === undefined) return null;
    // A phase of no width is as wide as a point.
    const slack = 2 * (this.view.to - this.view.from) / Math.max(this.width, 1);
    const { start, end } = this.phases.columns;
    const distance = (row: number) => Math.max((start[row] ?? 0) - time, time - (end[row] ?? 0), 0);
    let best: number | null = null;
    for (const row of lane.rows) {
      if (distance(row) <= slack && (best === null || distance(row) < distance(best))) best = row;
    }
    return best;
  }

  private hover(event: PointerEvent): void {
    const row = this.rowAt(event.offsetX, event.offsetY);
    this.canvas.classList.toggle("opens", row !== null);
    this.say(row);
    this.view.point(this.timeAt(event.offsetX));
  }

  private say(row: number | null): void {
    replace(this.said, row === null ? "\u00a0" : this.words(row));
  }

  private words(row: number): string {
    const { columns } = this.phases;
    const [from, to] = [columns.start[row] ?? 0, columns.end[row] ?? 0];
    const step = power(Math.max(to - from, 1e-6) / 10);
    const name = this.page.regions?.texts[columns.name[row] ?? -1] ?? "";
    const number = columns.phases[row] ?? 1;
    const many = number > 1 ? ` (${count(number)} phases)` : "";
    return `${name} ${this.phases.iteration(row)}${many}: ${clock(from, step, this.view.duration)} to ` +
      `${clock(to, step, this.view.duration)}, ${seconds(to - from)}; process ${columns.process[row]}, thread ${columns.thread[row]}`;
  }

  private show(row: number | null): void {
    if (row === null) return;
    const [from, to] = [this.phases.columns.start[row] ?? 0, this.phases.columns.end[row] ?? 0];
    const margin = Math.max(to - from, 1e-6) * 0.1;
    this.view.show(from - margin, to + margin);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const now = this.selected ?? { lane: 0, place: -1 };
    const moves: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = moves[event.key];
    if (move !== undefined) this.select(now.lane + move[0], now.place + move[1]);
    else if (event.key === "Enter") this.show(this.lanes[now.lane]?.rows[now.place] ?? null);
    else if (event.key === "+" || event.key === "=") this.view.zoom(0.5);
    else if (event.key === "-") this.view.zoom(2);
    else if (event.key === "0" || event.key === "Escape") this.view.whole();
    else return;
    event.preventDefault();
  }

  private select(lane: number, place: number): void {
    const at = Math.min(Math.max(lane, 0), this.lanes.length - 1);
    const rows = this.lanes[at]?.rows ?? [];
    this.selected = { lane: at, place: Math.min(Math.max(place, 0), rows.length - 1) };
    this.say(rows[this.selected.place] ?? null);
    this.paint();
  }

  private paint(): void {
    const { canvas } = this;
    const context = blankContext(canvas);
    if (context === null) return;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.lanes.forEach((lane, i) => this.paintLane(context, lane, i));
    context.fillStyle = style("--grid");
    context.fillRect(LABELS - 1, 0, 1, canvas.clientHeight - AXIS);
    this.axis(context);
    const { cursor } = this.view;
    if (cursor === null || cursor < this.view.from || cursor > this.view.to) return;
    context.fillStyle = style("--muted");
    context.fillRect(Math.round(this.x(cursor)), 0, 1, canvas.clientHeight - AXIS);
  }

  private paintLane(context: CanvasRenderingContext2D, lane: Lane, index: number): void {
    const top = index * ROW;
    const middle = top + ROW / 2;
    context.fillStyle = style("--muted");
    if (lane.label !== "") context.fillText(shortened(context, lane.label, LABELS - 10), 0, middle);
    context.fillStyle = lane.kind.colour === null ? style("--muted") : style(`--colour-${lane.kind.colour}`);
    const picked = this.selected?.lane === index ? lane.rows[this.selected.place] : undefined;
    lane.rows.forEach((row, i) => {
      const [from, to] = [this.phases.columns.start[row] ?? 0, this.phases.columns.end[row] ?? 0];
      if (to < this.view.from || from > this.view.to) return;
      const start = Math.max(this.x(from), LABELS);
      const width = Math.max(Math.min(this.x(to), this.canvas.clientWidth) - start, 1);
      context.globalAlpha = !lane.kind.shown ? 0.15 : row === picked ? 1 : i % 2 === 0 ? 0.62 : 0.42;
      context.fillRect(start, top + 1, width, ROW - 2);
      context.globalAlpha = 1;
      const number = this.phases.iteration(row);
      if (width < context.measureText(number).width + 8) return;
      const colour = context.fillStyle;
      context.fillStyle = style("--text");
      context.fillText(number, start + 4, middle);
      context.fillStyle = colour;
    });
  }

  private axis(context: CanvasRenderingContext2D): void {
    const y = this.canvas.clientHeight - AXIS / 2 + 1;
    const step = power((this.view.to - this.view.from) / 10);
    context.fillStyle = style("--muted");
    const marks: [number, CanvasTextAlign][] = [[this.view.from, "left"], [this.view.to, "right"]];
    for (const [time, align] of marks) {
      context.textAlign = align;
      context.fillText(clock(time, step, this.view.duration), this.x(time), y);
    }
    context.textAlign = "left";
  }
}

/** As much of a text as fits. */
export function shortened(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let end = Math.min(text.length, 64);
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
  return `${text.slice(0, end)}…`;
}
