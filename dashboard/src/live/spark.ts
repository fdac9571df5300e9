// Small plots in rows: the latest values of one thing, without axes. Hundreds of them are drawn each second, so they
// are drawn by hand.

import { h, onThemeChange, style } from "../dom";
import { atEnd } from "../lifetime";
import { onVisible } from "./visible";

/** So many values are kept of each thing. */
export const KEPT = 500;

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
let colours: { line: Colour; limit: Colour } | null = null;

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
    colours ??= { line: colourOf("--colour-0"), limit: colourOf("--bad") };
    const picture = new Picture(context.createImageData(w, t), scale);
    const top = this.greatest();
    picture.paintLine(this.track.values, top, colours.line);
    if (this.limit !== null) picture.paintLimit(this.limit / top, colours.limit);
    context.putImageData(picture.image, 0, 0);
  }

  private greatest(): number {
    let most = Math.max(this.top, this.limit ?? 0);
    for (const value of this.track.values) if (value > most) most = value;
    return most > 0 ? most : 1;
  }
}

/** Red, green and blue as a pixel has them in memory. */
type Colour = number;

/** The page's colours are written as #rrggbb. */
function colourOf(name: string): Colour {
  const number = parseInt(style(name).slice(1), 16) || 0;
  return (number & 255) << 16 | number & 0xff00 | number >> 16;
}

/** The pixels of one plot. A browser takes many times as long to draw a line of 500 points as it takes to set these. */
class Picture {
  private readonly pixels: Uint32Array;

  constructor(readonly image: ImageData, private readonly scale: number) {
    this.pixels = new Uint32Array(image.data.buffer);
  }

  paintLine(values: number[], top: number, colour: Colour): void {
    const { width, height } = this.image;
    const [scale, length] = [this.scale, values.length];
    // A plot that fills slowly begins at the right.
    const step = width / (Math.max(length, 60) - 1);
    const upper = new Float32Array(width).fill(Infinity);
    const lower = new Float32Array(width).fill(-Infinity);
    let from = NaN;
    for (let i = 0; i < length; i += 1) {
      const to = height - scale - (values[i] as number) / top * (height - 2 * scale);
      const x = width - (length - 1 - i) * step;
      // After a gap it goes on level.
      if (!Number.isNaN(to)) reach(upper, lower, x - step, x, Number.isNaN(from) ? to : from, to);
      from = to;
    }
    for (let column = 0; column < width; column += 1) {
      if ((upper[column] as number) <= (lower[column] as number)) this.paintColumn(column, upper[column] as number, lower[column] as number, colour);
    }
  }

  /** The line between two heights, and what lies below it. */
  private paintColumn(column: number, upper: number, lower: number, colour: Colour): void {
    const { width, height } = this.image;
    const [top, bottom] = [upper - this.scale / 2, lower + this.scale / 2];
    for (let row = Math.max(Math.floor(top), 0); row < height; row += 1) {
      const covered = row >= bottom ? 0 : Math.min(bottom, row + 1) - Math.max(top, row);
      this.pixels[row * width + column] = Math.round(Math.max(covered, 0.15) * 255) << 24 | colour;
    }
  }

  paintLimit(part: number, colour: Colour): void {
    const { width, height } = this.image;
    const first = Math.round(height - this.scale - part * (height - 2 * this.scale));
    for (let column = 0; column < width; column += 1) {
      if (column / this.scale % 7 >= 4) continue;
      for (let row = first; row < Math.min(first + this.scale, height); row += 1) this.pixels[row * width + column] = 255 << 24 | colour;
    }
  }
}

/** Widens what each column covers by the part of a stroke that goes through it. */
function reach(upper: Float32Array, lower: Float32Array, x0: number, x1: number, y0: number, y1: number): void {
  const last = Math.min(Math.ceil(x1), upper.length) - 1;
  const slope = (y1 - y0) / (x1 - x0);
  for (let column = Math.max(Math.floor(x0), 0); column <= last; column += 1) {
    const from = y0 + slope * (Math.max(column, x0) - x0);
    const to = y0 + slope * (Math.min(column + 1, x1) - x0);
    upper[column] = Math.min(upper[column] as number, from, to);
    lower[column] = Math.max(lower[column] as number, from, to);
  }
}
