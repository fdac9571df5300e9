// Small plots in rows: the latest values of one thing, without axes. Hundreds of them are drawn each second, so they
// are drawn by hand.

import { h, onThemeChange, style } from "../dom";
import { atEnd } from "../lifetime";
import { onVisible } from "./visible";

/** So many values are kept of each thing. */
export const KEPT = 300;

/** Values of one thing, the latest last; NaN where there was none. */
export class Track {
  readonly values: number[] = [];

  push(value: number | null | undefined): void {
    this.values.push(value ?? NaN);
    if (this.values.length > KEPT) this.values.shift();
  }
}

const all = new Set<Spark>();
let frame = 0;
let colours: { line: string; fill: string; limit: string } | null = null;

onThemeChange(() => {
  colours = null;
  for (const spark of all) spark.update();
});

/** Draws every plot in view that has something new, all in one frame. */
function drawSoon(): void {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const sizes = [...all].filter((spark) => spark.isDue).map((spark) => [spark, spark.canvas.clientWidth, spark.canvas.clientHeight] as const);
    for (const [spark, width, height] of sizes) spark.draw(width, height);
  });
}

export class Spark {
  readonly canvas = h("canvas", { class: "spark", "aria-hidden": "true" });
  private isVisible = false;
  private hasNews = true;

  /** `top` is what its full height stands for at least; `limit` is drawn as a line. */
  constructor(readonly track: Track, public top = 0, public limit: number | null = null) {
    all.add(this);
    atEnd(() => all.delete(this));
    onVisible(this.canvas, (isVisible) => {
      this.isVisible = isVisible;
      if (this.isDue) drawSoon();
    });
    new ResizeObserver(() => this.update()).observe(this.canvas);
  }

  get isDue(): boolean {
    return this.isVisible && this.hasNews;
  }

  update(): void {
    this.hasNews = true;
    if (this.isVisible) drawSoon();
  }

  end(): void {
    all.delete(this);
  }

  draw(width: number, height: number): void {
    const context = this.canvas.getContext("2d");
    if (context === null || width === 0) return;
    this.hasNews = false;
    const scale = devicePixelRatio || 1;
    const [w, t] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== t) Object.assign(this.canvas, { width: w, height: t });
    context.clearRect(0, 0, w, t);
    colours ??= { line: style("--colour-0"), fill: `${style("--colour-0")}26`, limit: style("--bad") };
    drawLine(context, this.track.values, this.greatest(), w, t, colours);
    if (this.limit !== null) drawLimit(context, t - this.limit / this.greatest() * (t - 2) - 1, w, colours.limit);
  }

  private greatest(): number {
    let most = Math.max(this.top, this.limit ?? 0);
    for (const value of this.track.values) if (value > most) most = value;
    return most > 0 ? most : 1;
  }
}

function drawLine(context: CanvasRenderingContext2D, values: number[], top: number, width: number, height: number,
  { line, fill }: { line: string; fill: string }): void {
  // A plot that fills slowly begins at the right.
  const room = Math.max(values.length, 60);
  const step = width / (room - 1);
  const x = (i: number) => width - (values.length - 1 - i) * step;
  const y = (value: number) => height - 1 - value / top * (height - 2);
  context.lineWidth = devicePixelRatio || 1;
  context.strokeStyle = line;
  context.fillStyle = fill;
  for (const [from, to] of stretches(values)) {
    context.beginPath();
    for (let i = from; i < to; i += 1) context.lineTo(x(i), y(values[i] ?? 0));
    if (to - from === 1) context.lineTo(x(from) - step, y(values[from] ?? 0));
    context.stroke();
    context.lineTo(x(to - 1), height);
    context.lineTo(x(from), height);
    context.fill();
  }
}

/** Where there are values without a gap. */
function stretches(values: number[]): [number, number][] {
  const out: [number, number][] = [];
  let from = -1;
  for (let i = 0; i <= values.length; i += 1) {
    const isValue = !Number.isNaN(values[i] ?? NaN);
    if (isValue && from < 0) from = i;
    if (!isValue && from >= 0) {
      out.push([from, i]);
      from = -1;
    }
  }
  return out;
}

function drawLimit(context: CanvasRenderingContext2D, y: number, width: number, colour: string): void {
  context.strokeStyle = colour;
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(0, y);
  context.lineTo(width, y);
  context.stroke();
  context.setLineDash([]);
}
