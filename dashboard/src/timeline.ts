// The processes over time: one bar for each, in the order of the tree. Only the rows in sight are
// drawn, so that ten thousand are no more work than twenty.

import { h, onThemeChange, replace, section } from "./dom";
import { count } from "./format";
import type { MetricRow, Page } from "./generated";
import { type Order, type Process, type Row, type Wish, grow, processes, rowKey, rows } from "./processes";
import { Painter } from "./timeline-paint";
import { describe, inOneLine } from "./timeline-words";
import { type View, steer } from "./view";

const ROW = 20;
const MOST_ROWS = 14;

/** More processes than this are folded at first. */
const FOLD_FROM = 1000;

export function timelineSection(page: Page, view: View): HTMLElement | null {
  const list = processes(page);
  if (list.length === 0) return null;
  const timeline = new Timeline(page, list, view);
  const missing = page.processes.total - list.length;
  return section("processes", "Processes",
    timeline.controls(), timeline.element,
    missing > 0 && h("p", { class: "note" },
      `${count(missing)} of ${count(page.processes.total)} processes are not on this page; processes.parquet has them all.`));
}

class Timeline {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { tabindex: 0, role: "img" });
  private readonly spacer = h("div", { class: "spacer" });
  private readonly scroller: HTMLElement;
  private readonly tip = h("div", { class: "floating", hidden: true });
  private readonly spoken = h("p", { class: "unseen", "aria-live": "polite" });
  private readonly tally = h("span", { class: "muted tally" });
  private readonly roots: Process[];
  private readonly wish: Wish;
  private readonly painter: Painter;
  private shown: Row[] = [];
  private selected = -1;
  private frame = 0;

  constructor(private readonly page: Page, private readonly list: Process[], private readonly view: View) {
    this.roots = grow(list);
    this.wish = { order: "tree", filter: "", fold: list.length > FOLD_FROM, from: view.from, to: view.to,
      toggled: new Set() };
    this.painter = new Painter(this.canvas, view, ROW);
    this.scroller = h("div", { class: "scroller" }, this.canvas, this.spacer);
    this.element = h("div", { class: "timeline" }, this.scroller, this.tip, this.spoken);
    this.canvas.setAttribute("aria-label",
      "Processes over time; up and down select a process, Enter opens or closes it, + - 0 and left and right change the stretch shown");
    this.listen();
    this.rebuild();
  }

  controls(): HTMLElement {
    const filter = h("input", { type: "search", placeholder: "Filter by command or PID",
      "aria-label": "Filter the processes" });
    filter.addEventListener("input", () => this.change({ filter: filter.value }));
    const order = h("select", { "aria-label": "Order of the processes" },
      h("option", { value: "tree" }, "as a tree"),
      h("option", { value: "start" }, "by start"),
      h("option", { value: "length" }, "longest first"),
      ...this.sortable().map((m) => h("option", { value: m.name }, `most ${m.help}`)));
    order.addEventListener("change", () => this.change({ order: order.value as Order }));
    const fold = h("input", { type: "checkbox" });
    fold.checked = this.wish.fold;
    fold.addEventListener("change", () => this.change({ fold: fold.checked }));
    return h("div", { class: "controls" }, filter, order,
      h("label", {}, fold, " fold like siblings"), this.tally,
      h("span", { class: "scale", "aria-hidden": "true" }, "waiting", h("i"), "busy",
        h("i", { class: "failed" }), "failed"));
  }

  /** Metrics that differ between processes. */
  private sortable(): MetricRow[] {
    return this.page.metrics.filter((m) => m.name !== "wall_seconds" &&
      this.page.processes.metrics[m.name]?.some((value) => value !== null && value !== 0));
  }

  private change(wish: Partial<Wish>): void {
    Object.assign(this.wish, wish);
    this.selected = -1;
    this.hideTip();
    this.scroller.scrollTop = 0;
    this.rebuild();
  }

  private changeRange(): void {
    const { from, to } = this.view;
    const hasGrown = from === this.wish.from && to >= this.wish.to;
    // A run that goes on takes away neither what is selected nor where one has scrolled to.
    if (!hasGrown) return this.change({ from, to });
    Object.assign(this.wish, { from, to });
    this.rebuild();
  }

  private rebuild(): void {
    this.shown = rows(this.list, this.roots, this.wish);
    this.scroller.style.height = `${Math.max(2, Math.min(this.shown.length, MOST_ROWS)) * ROW + this.painter.head}px`;
    this.spacer.style.height = `${Math.max(0, this.shown.length * ROW + this.painter.head)}px`;
    replace(this.tally, this.tallied());
    this.redraw();
  }

  private tallied(): string {
    const processes = `${count(this.list.length)} processes`;
    const shown = this.shown.reduce((n, row) => n + (row.folded.length > 0 ? 0 : 1), 0);
    if (shown === this.list.length) return processes;
    return `${count(this.shown.length)} rows of ${processes}`;
  }

  private redraw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const { clientWidth, clientHeight, scrollTop } = this.scroller;
      if (clientWidth > 0) {
        this.painter.paint(this.shown, scrollTop, clientWidth, clientHeight, this.selected);
      }
    });
  }

  private listen(): void {
    this.scroller.addEventListener("scroll", () => { this.hideTip(); this.redraw(); });
    new ResizeObserver(() => this.redraw()).observe(this.scroller);
    this.view.onRange(() => this.changeRange());
    this.view.onCursor(() => this.redraw());
    onThemeChange(() => this.redraw());
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.hideTip(); this.view.point(null); });
    this.canvas.addEventListener("pointerdown", (event) => this.drag(event));
    this.canvas.addEventListener("dblclick", () => this.view.whole());
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.view.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.painter.timeAt(event.offsetX));
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => { this.selected = -1; this.hideTip(); this.redraw(); });
  }

  private rowAt(event: MouseEvent): number {
    const y = event.offsetY - this.painter.head;
    return y < 0 ? -1 : Math.floor((y + this.scroller.scrollTop) / ROW);
  }

  private hover(event: PointerEvent): void {
    const row = this.shown[this.rowAt(event)];
    const inPlot = event.offsetX >= this.painter.left;
    this.view.point(inPlot ? this.painter.timeAt(event.offsetX) : null);
    this.canvas.classList.toggle("opens", row?.canOpen === true);
    if (row === undefined) this.hideTip();
    else this.showTip(row, event.offsetX, event.offsetY);
  }

  /** A drag zooms; a click opens or closes. On a touch screen a drag scrolls. */
  private drag(down: PointerEvent): void {
    if (down.button !== 0) return;
    const start = down.offsetX;
    const canZoom = down.pointerType === "mouse" && start >= this.painter.left;
    const moved = (event: PointerEvent) => Math.abs(event.offsetX - start) > 4;
    const onMove = (event: PointerEvent) => {
      this.painter.selection = canZoom && moved(event) ? [start, event.offsetX] : null;
      this.redraw();
    };
    const onUp = (event: PointerEvent) => {
      this.canvas.removeEventListener("pointermove", onMove);
      this.painter.selection = null;
      if (event.type === "pointercancel") return;
      const ends = [this.painter.timeAt(start), this.painter.timeAt(event.offsetX)].sort((a, b) => a - b);
      if (!moved(event)) this.toggle(this.rowAt(event));
      else if (canZoom) this.view.show(ends[0] ?? 0, ends[1] ?? 0);
    };
    if (canZoom) this.canvas.setPointerCapture(down.pointerId);
    this.canvas.addEventListener("pointermove", onMove);
    this.canvas.addEventListener("pointerup", onUp, { once: true });
    this.canvas.addEventListener("pointercancel", onUp, { once: true });
  }

  private toggle(index: number): void {
    const row = this.shown[index];
    if (row === undefined || !row.canOpen) return;
    const key = rowKey(row);
    if (!this.wish.toggled.delete(key)) this.wish.toggled.add(key);
    this.rebuild();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.floor((this.scroller.clientHeight - this.painter.head) / ROW) - 1;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
      Home: -this.shown.length, End: this.shown.length };
    const step = steps[event.key];
    if (step !== undefined) this.select(this.selected + step);
    else if (event.key === "Enter" || event.key === " ") this.toggle(this.selected);
    else if (!steer(this.view, event.key)) return;
    event.preventDefault();
  }

  private select(index: number): void {
    this.selected = Math.min(Math.max(index, 0), this.shown.length - 1);
    const row = this.shown[this.selected];
    if (row === undefined) return;
    const top = this.selected * ROW;
    const visible = this.scroller.clientHeight - this.painter.head;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    if (top + ROW > this.scroller.scrollTop + visible) this.scroller.scrollTop = top + ROW - visible;
    replace(this.spoken, inOneLine(row));
    this.redraw();
    // Scrolling hides the tip: show it after the event has been delivered.
    requestAnimationFrame(() => requestAnimationFrame(() =>
      this.showTip(row, this.painter.left, top - this.scroller.scrollTop + this.painter.head)));
  }

  private showTip(row: Row, x: number, y: number): void {
    replace(this.tip, ...describe(row, this.page.metrics, this.page.duration));
    this.tip.hidden = false;
    const width = this.element.clientWidth;
    const left = Math.min(x + 16, width - this.tip.offsetWidth - 4);
    const below = y + 22;
    const fits = this.element.getBoundingClientRect().top + below + this.tip.offsetHeight < innerHeight;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${fits ? below : y - this.tip.offsetHeight - 10}px`;
  }

  private hideTip(): void {
    this.tip.hidden = true;
  }
}
