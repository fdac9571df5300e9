// Draws the rows of the time line that are in sight.

import { style } from "./dom";
import { clock, count } from "./format";
import type { Process, Row } from "./processes";
import type { View } from "./view";

const INDENT = 11;
const DEEPEST = 7;
const RIGHT = 8;

/** The height of the time axis above the rows. */
const HEAD = 22;

interface Colours {
  text: string;
  muted: string;
  grid: string;
  band: string;
  busy: string;
  bad: string;
  select: string;
}

export class Painter {
  /** Where the bars begin; names stand left of it. */
  left = 0;
  readonly head = HEAD;
  /** The pixels between which a drag has come. */
  selection: [number, number] | null = null;
  private readonly context: CanvasRenderingContext2D;
  private width = 0;
  private height = 0;

  constructor(private readonly canvas: HTMLCanvasElement, private readonly view: View, private readonly row: number) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("the browser has no 2D canvas");
    this.context = context;
  }

  timeAt(x: number): number {
    const part = (x - this.left) / (this.width - this.left - RIGHT);
    return this.view.from + Math.min(Math.max(part, 0), 1) * (this.view.to - this.view.from);
  }

  private xOf(time: number): number {
    const part = (time - this.view.from) / (this.view.to - this.view.from);
    return this.left + part * (this.width - this.left - RIGHT);
  }

  paint(rows: Row[], scrollTop: number, width: number, height: number, selected: number): void {
    this.resize(width, height);
    const c = this.context;
    const colours: Colours = {
      text: style("--text"), muted: style("--muted"), grid: style("--grid"), band: style("--band"),
      busy: style("--colour-0"), bad: style("--bad"), select: style("--select"),
    };
    c.clearRect(0, 0, width, height);
    this.axis(colours);
    c.save();
    c.beginPath();
    c.rect(0, HEAD, width, height - HEAD);
    c.clip();
    const first = Math.floor(scrollTop / this.row);
    const last = Math.min(rows.length, Math.ceil((scrollTop + height) / this.row));
    for (let i = first; i < last; i += 1) {
      const row = rows[i];
      if (row) this.paintRow(row, i, HEAD + i * this.row - scrollTop, i === selected, colours);
    }
    c.restore();
    this.overlay(colours);
  }

  private resize(width: number, height: number): void {
    const ratio = devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    this.left = width < 560 ? 112 : Math.min(width * 0.42, 480);
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  private axis(colours: Colours): void {
    const c = this.context;
    const step = niceStep((this.view.to - this.view.from) / Math.max(2, (this.width - this.left) / 90));
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.textAlign = "center";
    for (let t = Math.ceil(this.view.from / step) * step; t <= this.view.to; t += step) {
      const x = Math.round(this.xOf(t)) + 0.5;
      c.strokeStyle = colours.grid;
      line(c, x, HEAD - 4, x, this.height);
      c.fillStyle = colours.muted;
      const text = clock(t, step, this.view.duration);
      const half = c.measureText(text).width / 2;
      c.fillText(text, Math.min(x, this.width - half - 1), HEAD / 2 - 1);
    }
    c.strokeStyle = colours.grid;
    line(c, 0, HEAD - 0.5, this.width, HEAD - 0.5);
  }

  private paintRow(row: Row, index: number, y: number, isSelected: boolean, colours: Colours): void {
    const c = this.context;
    if (isSelected || index % 2) {
      c.fillStyle = isSelected ? colours.select : colours.band;
      c.fillRect(0, y, this.width, this.row);
    }
    this.label(row, y, colours);
    c.save();
    c.beginPath();
    c.rect(this.left, y, this.width - this.left, this.row);
    c.clip();
    if (row.folded.length > 0) this.strip(row.folded, y, colours);
    else this.bar(row.process, y, colours);
    c.restore();
  }

  private label(row: Row, y: number, colours: Colours): void {
    const c = this.context;
    const x = 6 + Math.min(row.depth, DEEPEST) * (this.left < 150 ? 5 : INDENT);
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.font = "12px system-ui, sans-serif";
    const middle = y + this.row / 2 + 0.5;
    if (row.canOpen) {
      c.fillStyle = colours.muted;
      triangle(c, x + 3, middle, row.isOpen);
    }
    c.fillStyle = row.process.failed && row.folded.length === 0 ? colours.bad : colours.text;
    const room = this.left - x - 16;
    const many = row.folded.length > 0 ? ` × ${count(row.folded.length)}` : "";
    const name = fitted(c, row.process.name + many, room);
    c.fillText(name, x + 10, middle);
    const used = c.measureText(name).width;
    const pid = String(row.process.pid);
    c.font = "11px system-ui, sans-serif";
    if (many !== "" || used + c.measureText(pid).width + 8 >= room) return;
    c.fillStyle = colours.muted;
    c.fillText(pid, x + 16 + used, middle);
    const from = used + c.measureText(pid).width + 14;
    const fits = (text: string) => from + c.measureText(text).width <= room;
    c.fillText(argumentsOf(row.process, fits), x + 10 + from, middle);
  }

  private bar(p: Process, y: number, colours: Colours): void {
    const c = this.context;
    const from = this.xOf(p.start);
    const width = Math.max(1.5, this.xOf(p.end) - from);
    if (from > this.width || from + width < this.left) return;
    const top = y + 4;
    const tall = this.row - 8;
    c.fillStyle = colours.busy;
    c.globalAlpha = 0.22 + 0.78 * busyness(p);
    // Canvas coordinates far outside lose precision: draw what is in sight.
    const start = Math.max(from, this.left - 4);
    const end = Math.min(from + width, this.width + 4);
    rounded(c, start, top, Math.max(1.5, end - start), tall);
    c.globalAlpha = 1;
    if (p.failed) {
      c.fillStyle = colours.bad;
      c.fillRect(Math.max(start, end - 3), top, Math.min(3, Math.max(1.5, end - start)), tall);
    }
  }

  /** Folded siblings: the more of them at a time, the stronger. */
  private strip(list: Process[], y: number, colours: Colours): void {
    const c = this.context;
    const steps = new Int32Array(Math.ceil(this.width) + 2);
    const failed: number[] = [];
    for (const p of list) {
      const from = Math.max(Math.floor(this.xOf(p.start)), 0);
      const to = Math.min(Math.max(Math.ceil(this.xOf(p.end)), from + 1), steps.length - 1);
      if (from >= steps.length - 1 || to <= 0) continue;
      steps[from] = (steps[from] ?? 0) + 1;
      steps[to] = (steps[to] ?? 0) - 1;
      if (p.failed) failed.push(to - 1);
    }
    let most = 0;
    let now = 0;
    for (const step of steps) {
      now += step;
      most = Math.max(most, now);
    }
    now = 0;
    c.fillStyle = colours.busy;
    steps.forEach((step, x) => {
      now += step;
      if (now <= 0) return;
      c.globalAlpha = 0.25 + (0.75 * now) / most;
      c.fillRect(x, y + 4, 1, this.row - 8);
    });
    c.globalAlpha = 1;
    c.fillStyle = colours.bad;
    for (const x of failed) c.fillRect(x, y + this.row - 6, 2, 3);
  }

  private overlay(colours: Colours): void {
    const c = this.context;
    const { cursor } = this.view;
    if (cursor !== null) {
      const x = Math.round(this.xOf(cursor)) + 0.5;
      c.strokeStyle = colours.muted;
      c.setLineDash([3, 3]);
      if (x >= this.left) line(c, x, HEAD, x, this.height);
      c.setLineDash([]);
    }
    if (this.selection) {
      const [a, b] = this.selection;
      c.fillStyle = colours.select;
      c.globalAlpha = 0.7;
      c.fillRect(Math.max(this.left, Math.min(a, b)), HEAD, Math.abs(b - a), this.height);
      c.globalAlpha = 1;
    }
  }
}

/** The arguments as far as they fit, files by their last name; how many more there are. */
export function argumentsOf(p: Pick<Process, "command">, fits: (text: string) => boolean): string {
  const words = p.command.split(/\s+/).filter(Boolean).slice(1)
    .map((word) => (word.startsWith("-") ? word : word.replace(/^(['"]?).*\/(?=[^/]+$)/, "$1")));
  for (let most = words.length; most > 0; most -= 1) {
    const more = most < words.length ? ` +${words.length - most}` : "";
    const text = words.slice(0, most).join(" ") + more;
    if (fits(text)) return text;
  }
  return "";
}

/** The part of one CPU that a process kept busy while it lived. */
function busyness(p: Process): number {
  const cpu = p.metrics.get("cpu_seconds");
  const lived = p.end - p.start;
  return cpu === undefined || lived <= 0 ? 0.5 : Math.min(1, cpu / lived);
}

function niceStep(least: number): number {
  const nice = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];
  if (least > 1) return nice.find((n) => n >= least) ?? Math.ceil(least / 86400) * 86400;
  const ten = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5, 10].find((n) => n * ten >= least) ?? 10) * ten;
}

function line(c: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x2, y2);
  c.stroke();
}

function rounded(c: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  c.beginPath();
  c.roundRect(x, y, width, height, Math.min(2.5, width / 2));
  c.fill();
}

function triangle(c: CanvasRenderingContext2D, x: number, y: number, down: boolean): void {
  c.beginPath();
  if (down) {
    c.moveTo(x - 3.5, y - 2);
    c.lineTo(x + 3.5, y - 2);
    c.lineTo(x, y + 3);
  } else {
    c.moveTo(x - 2, y - 3.5);
    c.lineTo(x + 3, y);
    c.lineTo(x - 2, y + 3.5);
  }
  c.fill();
}

function fitted(c: CanvasRenderingContext2D, text: string, room: number): string {
  if (c.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && c.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
  return `${text.slice(0, end)}…`;
}
