// A flame graph of regions: the call tree from the outermost regions down, as wide as their time. A click or Enter shows one
// region over the whole width; the arrows go through the tree.

import { h, replace } from "./dom";
import { count, seconds } from "./format";
import type { RegionsPage } from "./generated";
import { OTHER, isEstimate, qualityWords } from "./region-words";

const ROW = 21;
/** What is narrower is not drawn until something is chosen that makes it wider. */
const LEAST_WIDTH = 1.5;
const COLOURS = 6;

interface Frame {
  /** Its row in the page's columns; null of the whole. */
  row: number | null;
  name: string;
  time: number;
  parent: Frame | null;
  children: Frame[];
  depth: number;
  /** Where it begins and how wide it is, as parts of the whole. */
  from: number;
  width: number;
}

/** `colours` are those of phases, which have them on the whole page. */
export function flameGraph(regions: RegionsPage, colours: Map<string, number>): HTMLElement | null {
  const root = frames(regions);
  if (root.children.length === 0) return null;
  return new Flame(regions, root, colours).element;
}

/** Time of calls that have ended, and of those that are open. */
function timeOf(regions: RegionsPage, row: number): number {
  return (regions.tree.inclusive[row] ?? 0) + (regions.tree.open[row] ?? 0);
}

function frames(regions: RegionsPage): Frame {
  const root: Frame = { row: null, name: "all regions", time: 0, parent: null, children: [], depth: 0, from: 0, width: 1 };
  const path: Frame[] = [root];
  regions.tree.depth.forEach((depth, row) => {
    path.length = Math.min(path.length, depth + 1);
    const parent = path[path.length - 1] ?? root;
    const frame: Frame = { row, name: regions.texts[regions.tree.name[row] ?? -1] ?? "", time: timeOf(regions, row),
      parent, children: [], depth: parent.depth + 1, from: 0, width: 0 };
    parent.children.push(frame);
    path.push(frame);
  });
  root.time = root.children.reduce((sum, child) => sum + child.time, 0);
  place(root);
  return root;
}

/** Children lie beside each other in their parent; where they overlap (ranges) or are estimates they may have more time than
 * it has, and share its width. */
function place(root: Frame): void {
  const left = [root];
  for (let frame = left.pop(); frame !== undefined; frame = left.pop()) {
    const inside = frame.children.reduce((sum, child) => sum + child.time, 0);
    const whole = Math.max(frame.time, inside);
    let from = frame.from;
    for (const child of frame.children) {
      child.from = from;
      child.width = whole > 0 ? frame.width * child.time / whole : 0;
      from += child.width;
      left.push(child);
    }
  }
}

/** The same name has the same colour everywhere. */
function colourOf(name: string): number {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return hash % COLOURS;
}

class Flame {
  readonly element: HTMLElement;
  private readonly area = h("div", { class: "frames", role: "tree", "aria-label":
    "Call tree of regions; the arrows go through it, Enter shows one region over the whole width, Escape all" });
  private readonly tip = h("div", { class: "floating", hidden: true });
  private readonly shown = h("span", { class: "muted" });
  private readonly whole = h("button", { type: "button" }, "All regions");
  private readonly elements = new Map<HTMLElement, Frame>();
  private zoomed: Frame;
  private width = 0;

  constructor(private readonly regions: RegionsPage, private readonly root: Frame,
    private readonly colours: Map<string, number>) {
    this.zoomed = root;
    this.element = h("div", { class: "flame" },
      h("div", { class: "controls" }, this.whole, this.shown),
      h("div", { class: "frames-scroll" }, this.area), this.tip);
    this.whole.addEventListener("click", () => this.zoom(root, false));
    this.area.addEventListener("click", (event) => {
      const frame = this.frameOf(event.target);
      if (frame !== undefined) this.zoom(frame, true);
    });
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.area.addEventListener("pointermove", (event) => this.point(this.frameOf(event.target), event));
    this.area.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.area.addEventListener("focusin", (event) => this.focused(event.target));
    this.area.addEventListener("focusout", () => { this.tip.hidden = true; });
    new ResizeObserver(() => {
      if (this.area.clientWidth === this.width) return;
      this.width = this.area.clientWidth;
      this.draw();
    }).observe(this.area);
    this.draw();
  }

  private frameOf(target: EventTarget | null): Frame | undefined {
    const element = target instanceof Element ? target.closest<HTMLElement>(".frame") : null;
    return element === null ? undefined : this.elements.get(element);
  }

  private zoom(frame: Frame, hasFocus: boolean): void {
    this.zoomed = frame;
    this.draw();
    if (hasFocus) this.focus(frame);
  }

  private focus(frame: Frame): void {
    for (const [element, of] of this.elements) if (of === frame) element.focus({ preventScroll: false });
  }

  private draw(): void {
    const width = this.width || this.area.clientWidth || 1000;
    const scale = width / Math.max(this.zoomed.width, 1e-12);
    this.elements.clear();
    const above: Frame[] = [];
    for (let frame = this.zoomed.parent; frame !== null; frame = frame.parent) above.unshift(frame);
    above.forEach((frame) => this.add(frame, 0, width, true));
    let narrow = 0;
    let deepest = this.zoomed.depth;
    const left = [this.zoomed];
    for (let frame = left.pop(); frame !== undefined; frame = left.pop()) {
      const wide = frame === this.zoomed ? width : frame.width * scale;
      if (wide < LEAST_WIDTH) {
        narrow += 1;
        continue;
      }
      deepest = Math.max(deepest, frame.depth);
      this.add(frame, frame === this.zoomed ? 0 : (frame.from - this.zoomed.from) * scale, wide, false);
      left.push(...[...frame.children].reverse());
    }
    replace(this.area, ...this.elements.keys());
    this.area.style.height = `${(deepest + 1) * ROW}px`;
    this.whole.disabled = this.zoomed === this.root;
    replace(this.shown, `${this.zoomed.name}: ${seconds(this.zoomed.time)}` +
      (narrow > 0 ? `; ${count(narrow)} too narrow to be drawn` : ""));
  }

  private add(frame: Frame, left: number, width: number, isAbove: boolean): void {
    const { row } = frame;
    const quality = row === null ? "exact" : this.regions.tree.quality[row] ?? "exact";
    const mark = isEstimate(quality) ? "~" : "";
    const text = `${frame.name} ${mark}${seconds(frame.time)}`;
    const classes = ["frame", row === null ? "all" : frame.name === OTHER ? "other" : `colour-${this.colours.get(frame.name) ?? colourOf(frame.name)}`,
      isAbove && "above", isEstimate(quality) && "estimate"].filter(Boolean).join(" ");
    const element = h("button", { type: "button", class: classes, role: "treeitem", "aria-level": frame.depth + 1,
      "aria-label": this.spoken(frame), tabindex: frame === this.zoomed ? 0 : -1 }, width > 24 && text);
    element.style.left = `${left}px`;
    element.style.width = `${Math.max(width - 1, 1)}px`;
    element.style.top = `${frame.depth * ROW}px`;
    this.elements.set(element, frame);
  }

  private spoken(frame: Frame): string {
    const calls = frame.row === null ? "" : `, ${count(this.regions.tree.calls[frame.row] ?? 0)} calls`;
    const quality = frame.row === null ? "exact" : this.regions.tree.quality[frame.row] ?? "exact";
    return `${frame.name}: ${isEstimate(quality) ? `${quality}, about ` : ""}${seconds(frame.time)}${calls}`;
  }

  private key(event: KeyboardEvent): void {
    const frame = this.frameOf(event.target);
    if (frame === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = this.next(frame, event.key);
    if (event.key === "Escape" || event.key === "0") this.zoom(this.root, true);
    else if (next === undefined) return;
    else if (next !== null) this.focus(next);
    event.preventDefault();
  }

  /** Where a key leads to: null if there is nothing, undefined if it is no such key. */
  private next(frame: Frame, key: string): Frame | null | undefined {
    const drawn = new Set(this.elements.values());
    const beside = frame.parent?.children.filter((child) => drawn.has(child)) ?? [frame];
    switch (key) {
      case "ArrowUp": return frame.parent;
      case "ArrowDown": return frame.children.find((child) => drawn.has(child)) ?? null;
      case "ArrowLeft": return beside[beside.indexOf(frame) - 1] ?? null;
      case "ArrowRight": return beside[beside.indexOf(frame) + 1] ?? null;
      case "Home": return this.zoomed;
      default: return undefined;
    }
  }

  private focused(target: EventTarget | null): void {
    const frame = this.frameOf(target);
    if (frame === undefined || !(target instanceof HTMLElement) || !target.matches(":focus-visible")) return;
    this.show(frame, target.offsetLeft + 12, target.offsetTop + ROW);
  }

  private point(frame: Frame | undefined, event: PointerEvent): void {
    if (frame === undefined) {
      this.tip.hidden = true;
      return;
    }
    const box = this.area.getBoundingClientRect();
    this.show(frame, event.clientX - box.left, event.clientY - box.top);
  }

  private show(frame: Frame, x: number, y: number): void {
    replace(this.tip, h("p", { class: "mono" }, frame.name.slice(0, 400)),
      h("dl", {}, ...this.facts(frame).map(([word, value]) => h("div", {}, h("dt", {}, word), h("dd", {}, value)))));
    this.tip.hidden = false;
    const area = this.area.parentElement ?? this.area;
    const top = area.offsetTop - area.scrollTop;
    this.tip.style.left = `${Math.max(4, Math.min(x + 14, this.element.clientWidth - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${top + y + 18}px`;
  }

  private facts(frame: Frame): [string, string][] {
    const { tree } = this.regions;
    const { row } = frame;
    if (row === null) return [["time", seconds(frame.time)], ["of", this.regions.scope]];
    const quality = tree.quality[row] ?? "exact";
    const mark = isEstimate(quality) ? "~" : "";
    const error = tree.error[row] ?? null;
    const calls = tree.calls[row] ?? 0;
    const openCalls = tree.open_calls[row] ?? 0;
    const optional = (word: string, value: number | null | undefined): [string, string][] =>
      value === null || value === undefined ? [] : [[word, seconds(value)]];
    return [
      ["inclusive", `${mark}${seconds(tree.inclusive[row] ?? 0)}${error === null ? "" : ` ±${seconds(error)}`}`],
      ["exclusive", `${mark}${seconds(tree.exclusive[row] ?? 0)}`],
      ["of all regions", share(frame.time, this.root.time)],
      ...frame.parent === null || frame.parent === this.root ? [] : [[`of ${frame.parent.name.slice(0, 40)}`, share(frame.time, frame.parent.time)] as [string, string]],
      ["calls", count(calls)],
      ...calls > 0 ? [["mean", `${mark}${seconds((tree.inclusive[row] ?? 0) / calls)}`] as [string, string]] : [],
      ...optional("shortest", tree.least[row]),
      ...optional("longest", tree.most[row]),
      ...openCalls > 0 ? [["open at the end", `${count(openCalls)}, for ${seconds(tree.open[row] ?? 0)}`] as [string, string]] : [],
      ...(tree.unbalanced[row] ?? 0) > 0 ? [["unbalanced", count(tree.unbalanced[row] ?? 0)] as [string, string]] : [],
      ...(tree.threads[row] ?? 1) > 1 ? [["added up over", `${count(tree.threads[row] ?? 1)} threads`] as [string, string]] : [],
      ...tree.kind[row] === "range" ? [["kind", "range: may overlap others"] as [string, string]] : [],
      ...frame.name === OTHER ? [["kind", "what found no room in the profile"] as [string, string]] : [],
      ...isEstimate(quality) ? [[quality, qualityWords(quality)] as [string, string]] : [],
      ...this.kernelCosts(row),
    ];
  }

  /** What its system calls cost: told where any region of the program has an account of them. */
  private kernelCosts(row: number): [string, string][] {
    const all = this.regions.tree.kernel_costs;
    if (all.length === 0) return [];
    const costs = all.find((other) => other.row === row);
    if (costs === undefined) return [["in the kernel", "unavailable: no account of calls is bound to the region"]];
    return costs.words.map((words, place): [string, string] => [place === 0 ? "in the kernel" : "", words]);
  }
}

function share(part: number, whole: number): string {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : "–";
}
