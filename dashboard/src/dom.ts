// Elements in one expression. Text is always set as text, so nothing the job wrote becomes markup.

import { lifetime } from "./lifetime";

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, ...children);
  return element;
}

/** The same for what stands in a picture. */
export function svg(tag: string, attributes: Attributes, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  append(element, ...children);
  return element;
}

export function append(parent: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, ...children);
}

/** A section with a heading that can be linked to. */
export function section(id: string, title: string, ...children: Child[]): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title), ...children);
}

/** The same, closed at first: a heading with what is in it in a few words, which opens the rest. */
export function folded(id: string, title: string, brief: string, ...children: Child[]): HTMLElement {
  return h("section", { id, class: "folded", "aria-labelledby": `${id}-title` },
    h("details", {},
      h("summary", {}, h("h2", { id: `${id}-title` }, title), h("span", { class: "muted" }, brief)), ...children));
}

/** On paper nothing can be opened. */
export function openForPrinter(): void {
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((found) => { found.open = true; }));
}

/** The value of a custom property of the page's style, for what is drawn on a canvas. */
export function style(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** To draw on a canvas anew, in the page's pixels; none while it is not shown. */
export function blankContext(canvas: HTMLCanvasElement): CanvasRenderingContext2D | null {
  if (canvas.clientWidth === 0) return null;
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(canvas.clientHeight * scale);
  const context = canvas.getContext("2d");
  context?.scale(scale, scale);
  return context;
}

/** Calls back when the colours of the page change: light, dark, or for the printer. */
export function onThemeChange(redraw: () => void): void {
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", redraw, { signal: lifetime() });
  }
}
