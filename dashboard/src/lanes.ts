// What each thread did when: its events as marks, or as columns where there are too many, and its pairs as bars
// below them. A row for each thread, under the name of its process.

import { blankContext, h, onThemeChange, replace, style } from "./dom";
import { count } from "./format";
import type { TracePage } from "./generated";
import { short } from "./latency";
import { type View, steer } from "./view";

const ROW = 26;
const HEAD = 22;
const MARKS = 13;
const FONT = "11px system-ui, sans-serif";
const COLOURS = 6;
/** What is nearer to the pointer is meant. */
const NEAR = 4;

export function lanes(page: TracePage, view: View): HTMLElement {
  const canvas = h("canvas", { role: "img", tabindex: 0, "aria-label":
    "Events and pairs of each thread over time; + - 0 and left and right change the stretch shown" });
  const said = h("p", { class: "said note" }, "\u00a0");
  const painter = new Painter(page, view, canvas);
  let frame = 0;
  const paint = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => painter.paint());
  };
  view.onRange(paint);
  view.onCursor(paint);
  onThemeChange(paint);
  new ResizeObserver(paint).observe(canvas);
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") return;
    painter.dragFrom = painter.timeAt(event.offsetX);
  });
  canvas.addEventListener("pointermove", (event) => {
    replace(said, painter.say(event.offsetX, event.offsetY) ?? "\u00a0");
    view.point(painter.timeAt(event.offsetX));
  });
  canvas.addEventListener("pointerup", (event) => {
    const [from, to] = [painter.dragFrom, painter.timeAt(event.offsetX)];
    painter.dragFrom = null;
    const least = 4 / Math.max(painter.width, 1) * (view.to - view.from);
    if (from !== null && to !== null && Math.abs(to - from) > least) view.show(Math.min(from, to), Math.max(from, to));
    paint();
  });
  canvas.addEventListener("pointerleave", () => {
    painter.dragFrom = null;
    replace(said, "\u00a0");
    view.point(null);
  });
  canvas.addEventListener("dblclick", () => view.whole());
  canvas.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && steer(view, event.key)) event.preventDefault();
  });
  return h("figure", { class: "lanes" }, canvas, said);
}

class Painter {
  dragFrom: number | null = null;

  constructor(private readonly page: TracePage, private readonly view: View,
    private readonly canvas: HTMLCanvasElement) {
    canvas.style.height = `${HEAD + page.lanes.length * ROW}px`;
  }

  /** Narrow screens have less room for names. */
  private get left(): number {
    return this.canvas.clientWidth < 600 ? 84 : 150;
  }

  get width(): number {
    return this.canvas.clientWidth - this.left;
  }

  private x(time: number): number {
    return this.left + (time - this.view.from) / (this.view.to - this.view.from) * this.width;
  }

  timeAt(x: number): number | null {
    if (x < this.left || this.width <= 0) return null;
    return this.view.from + (x - this.left) / this.width * (this.view.to - this.view.from);
  }

  /** What there is under the pointer. */
  say(x: number, y: number): string | null {
    const time = this.timeAt(x);
    const lane = Math.floor((y - HEAD) / ROW);
    const thread = this.page.lanes[lane];
    if (time === null || thread === undefined) return null;
    return (this.span(lane, x, y) ?? this.mark(lane, x) ?? this.columns(lane, time) ?? thread.label)
      + ` · ${thread.label}, process ${thread.tgid}`;
  }

  private span(lane: number, x: number, y: number): string | null {
    if ((y - HEAD) % ROW < MARKS) return null;
    const { spans, pairs } = this.page;
    for (let i = spans.lane.length - 1; i >= 0; i -= 1) {
      const [from, to] = [spans.from[i] ?? 0, spans.to[i] ?? 0];
      if (spans.lane[i] !== lane || this.x(from) > x + 1 || this.x(to) < x - 1) continue;
      return `${pairs[spans.pair[i] ?? 0]?.name ?? ""}: ${short(to - from)}, from ${short(from)} on`;
    }
    return null;
  }

  private mark(lane: number, x: number): string | null {
    const { marks } = this.page;
    let best = -1;
    let near = NEAR;
    marks.at.forEach((at, i) => {
      const far = Math.abs(this.x(at) - x);
      if (marks.lane[i] !== lane || far > near) return;
      [best, near] = [i, far];
    });
    if (best < 0) return null;
    return `${this.event(marks.event[best] ?? 0)} at ${((marks.at[best] ?? 0) * 1e3).toFixed(6)} ms`;
  }

  private columns(lane: number, time: number): string | null {
    const { from, to, lanes } = this.page;
    if (this.page.marks.at.length > 0) return null;
    const column = to.findIndex((end, i) => time >= (from[i] ?? 0) && time < end);
    const thread = lanes[lane];
    if (column < 0 || thread === undefined) return null;
    const parts = thread.events.map((event, i) => [thread.counts[i]?.[column] ?? 0, event] as const);
    const words = parts.filter(([n]) => n > 0).map(([n, event]) => `${count(n)} ${this.event(event)}`);
    return words.length > 0 ? `${words.join(", ")} at ${short(from[column] ?? 0)}` : null;
  }

  private event(number: number): string {
    return this.page.events[number]?.name ?? "others";
  }

  paint(): void {
    const { canvas } = this;
    const context = blankContext(canvas);
    if (context === null) return;
    context.font = FONT;
    this.axis(context);
    this.names(context);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.width, canvas.clientHeight);
    context.clip();
    const colours = Array.from({ length: COLOURS }, (_, i) => style(`--colour-${i}`));
    if (this.page.marks.at.length > 0) this.marks(context, colours);
    else this.counts(context, colours);
    this.spans(context, colours);
    this.pointer(context);
    context.restore();
  }

  private axis(context: CanvasRenderingContext2D): void {
    const { from, to } = this.view;
    const wanted = Math.max(2, Math.floor(this.width / 110));
    const raw = (to - from) / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5, 10].find((n) => n * power >= raw) ?? 10);
    context.textBaseline = "middle";
    for (let n = Math.ceil(from / step); n * step <= to; n += 1) {
      const x = Math.round(this.x(n * step));
      context.fillStyle = style("--grid");
      context.fillRect(x, HEAD - 4, 1, this.canvas.clientHeight - HEAD + 4);
      context.fillStyle = style("--muted");
      if (x < this.canvas.clientWidth - 40) context.fillText(short(Number((n * step).toPrecision(12))), x + 3, HEAD / 2);
    }
  }

  private names(context: CanvasRenderingContext2D): void {
    let last: number | null = null;
    this.page.lanes.forEach((lane, i) => {
      const top = HEAD + i * ROW;
      if (lane.tgid !== last) {
        context.fillStyle = style("--line");
        context.fillRect(0, top, this.canvas.clientWidth, 1);
        last = lane.tgid;
      }
      context.fillStyle = lane.tgid === lane.tid ? style("--text") : style("--muted");
      context.fillText(lane.label, lane.tgid === lane.tid ? 0 : 10, top + ROW / 2, this.left - 16);
    });
  }

  private marks(context: CanvasRenderingContext2D, colours: string[]): void {
    const { marks } = this.page;
    marks.at.forEach((at, i) => {
      if (at < this.view.from || at > this.view.to) return;
      context.fillStyle = colours[(marks.event[i] ?? 0) % COLOURS] ?? "";
      context.fillRect(Math.round(this.x(at)), HEAD + (marks.lane[i] ?? 0) * ROW + 3, 1.5, MARKS - 3);
    });
  }

  private counts(context: CanvasRenderingContext2D, colours: string[]): void {
    const { lanes, from, to } = this.page;
    const top = Math.max(1, ...lanes.flatMap((lane) => from.map((_, column) =>
      lane.counts.reduce((sum, counts) => sum + (counts[column] ?? 0), 0))));
    lanes.forEach((lane, i) => from.forEach((begin, column) => {
      const [left, right] = [this.x(begin), this.x(to[column] ?? begin)];
      if (right < this.left || left > this.canvas.clientWidth) return;
      let ground = HEAD + i * ROW + MARKS;
      const whole = lane.counts.reduce((sum, counts) => sum + (counts[column] ?? 0), 0);
      if (whole === 0) return;
      // By the root: little beside much is still to be seen.
      const height = Math.max(1.5, (MARKS - 2) * Math.sqrt(whole / top));
      lane.events.forEach((event, n) => {
        const part = height * (lane.counts[n]?.[column] ?? 0) / whole;
        if (part === 0) return;
        ground -= part;
        context.fillStyle = colours[event % COLOURS] ?? "";
        context.fillRect(left, ground, Math.max(right - left - 0.5, 1), part);
      });
    }));
  }

  private spans(context: CanvasRenderingContext2D, colours: string[]): void {
    const { spans } = this.page;
    spans.from.forEach((begin, i) => {
      const [left, right] = [this.x(begin), this.x(spans.to[i] ?? begin)];
      if (right < this.left || left > this.canvas.clientWidth) return;
      context.globalAlpha = 0.65;
      context.fillStyle = colours[((spans.pair[i] ?? 0) + 3) % COLOURS] ?? "";
      context.fillRect(left, HEAD + (spans.lane[i] ?? 0) * ROW + MARKS + 2, Math.max(right - left, 1), ROW - MARKS - 6);
    });
    context.globalAlpha = 1;
  }

  private pointer(context: CanvasRenderingContext2D): void {
    const cursor = this.view.cursor;
    if (cursor === null) return;
    if (this.dragFrom !== null) {
      const [from, to] = [this.x(this.dragFrom), this.x(cursor)];
      context.globalAlpha = 0.4;
      context.fillStyle = style("--select");
      context.fillRect(Math.min(from, to), 0, Math.abs(to - from), this.canvas.clientHeight);
      context.globalAlpha = 1;
    }
    context.fillStyle = style("--muted");
    context.fillRect(Math.round(this.x(cursor)), 0, 1, this.canvas.clientHeight);
  }
}
