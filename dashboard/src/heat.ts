// A heat map: rows above each other, time from left to right, the more the darker. It shows the same stretch
// of time as the charts and shares their cursor.

import { blankContext, h, onThemeChange, replace, style } from "./dom";
import type { View } from "./view";

export interface HeatRow {
  /** What stands beside it; a map of a file has marks at some rows only. */
  label: string;
  /** One value for each column. */
  values: number[];
  /** Which of the page's colours a column has. */
  colour(column: number): number;
  /** The greatest value of all rows that are to be compared. */
  top: number;
}

export interface Heat {
  title: string;
  rows: HeatRow[];
  /** Where each column begins and ends, in seconds. */
  from: number[];
  to: number[];
  rowHeight: number;
  /** What the fullest colours stand for, in words. */
  scale?: string;
  /** What is said of a cell. */
  say(row: number, column: number): string;
}

const LABELS = 116;
const FONT = "11px system-ui, sans-serif";

export function heatMap(heat: Heat, view: View): HTMLElement {
  const canvas = h("canvas", { role: "img", tabindex: 0, "aria-label": `${heat.title}, over time` });
  const said = h("p", { class: "said note" }, "\u00a0");
  const element = h("figure", { class: "chart heat" },
    h("figcaption", {}, h("h3", {}, heat.title), heat.scale !== undefined && h("p", { class: "note scale" }, heat.scale)), canvas, said);
  const painter = new Painter(heat, view, canvas);
  const paint = () => painter.paint();
  view.onRange(paint);
  view.onCursor(paint);
  onThemeChange(paint);
  new ResizeObserver(paint).observe(canvas);
  canvas.addEventListener("pointermove", (event) => {
    const cell = painter.cellAt(event.offsetX, event.offsetY);
    replace(said, cell === null ? "\u00a0" : heat.say(cell.row, cell.column));
    view.point(painter.timeAt(event.offsetX));
  });
  canvas.addEventListener("pointerleave", () => {
    replace(said, "\u00a0");
    view.point(null);
  });
  canvas.addEventListener("dblclick", () => view.whole());
  return element;
}

class Painter {
  constructor(private readonly heat: Heat, private readonly view: View,
    private readonly canvas: HTMLCanvasElement) {
    canvas.style.height = `${heat.rows.length * heat.rowHeight + 1}px`;
  }

  private get width(): number {
    return this.canvas.clientWidth - LABELS;
  }

  private x(time: number): number {
    return LABELS + (time - this.view.from) / (this.view.to - this.view.from) * this.width;
  }

  timeAt(x: number): number | null {
    if (x < LABELS || this.width <= 0) return null;
    return this.view.from + (x - LABELS) / this.width * (this.view.to - this.view.from);
  }

  cellAt(x: number, y: number): { row: number; column: number } | null {
    const time = this.timeAt(x);
    const row = Math.floor(y / this.heat.rowHeight);
    if (time === null || row < 0 || row >= this.heat.rows.length) return null;
    const column = this.heat.to.findIndex((to, i) => time >= (this.heat.from[i] ?? 0) && time < to);
    return column < 0 ? null : { row, column };
  }

  paint(): void {
    const { canvas, heat } = this;
    const context = blankContext(canvas);
    if (context === null) return;
    heat.rows.forEach((row, i) => this.paintRow(context, row,
      Math.round(i * heat.rowHeight), Math.round((i + 1) * heat.rowHeight)));
    context.fillStyle = style("--grid");
    context.fillRect(LABELS - 1, 0, 1, canvas.clientHeight);
    const cursor = this.view.cursor;
    if (cursor !== null && cursor >= this.view.from && cursor <= this.view.to) {
      context.fillStyle = style("--muted");
      context.fillRect(Math.round(this.x(cursor)), 0, 1, canvas.clientHeight);
    }
  }

  private paintRow(context: CanvasRenderingContext2D, row: HeatRow, top: number, bottom: number): void {
    const { heat } = this;
    if (row.label !== "") {
      context.font = FONT;
      context.fillStyle = style("--muted");
      context.textBaseline = "middle";
      context.fillText(row.label, 0, Math.max((top + bottom) / 2, 6), LABELS - 8);
    }
    const colours = new Map<number, string>();
    const colourOf = (number: number): string => {
      const known = colours.get(number) ?? style(`--colour-${number}`);
      colours.set(number, known);
      return known;
    };
    row.values.forEach((value, column) => {
      const from = Math.max(this.x(heat.from[column] ?? 0), LABELS);
      const to = this.x(heat.to[column] ?? 0);
      if (value <= 0 || to <= LABELS) return;
      context.fillStyle = colourOf(row.colour(column));
      // By the root: little beside much is still to be seen.
      context.globalAlpha = 0.12 + 0.88 * Math.sqrt(Math.min(value / row.top, 1));
      const gap = heat.rowHeight > 8 ? 1 : 0;
      context.fillRect(from, top, Math.max(to - from, 1), bottom - top - gap);
    });
    context.globalAlpha = 1;
  }
}
