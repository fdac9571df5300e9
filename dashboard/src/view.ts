// What part of the run is looked at, and where the pointer is in it: shared by all charts and the
// time line, so that they move together.

import { atEnd } from "./lifetime";

type Listener = () => void;

export class View {
  from = 0;
  to: number;
  /** The time under the pointer, if it is over a chart. */
  cursor: number | null = null;
  private readonly rangeListeners = new Set<Listener>();
  private readonly cursorListeners = new Set<Listener>();

  constructor(private length: number) {
    this.to = length;
  }

  get duration(): number {
    return this.length;
  }

  /** A run that goes on has become longer. A view of its end stays at the end. */
  grow(duration: number): void {
    const by = duration - this.length;
    if (by <= 0) return;
    const isAtEnd = this.to === this.length;
    if (isAtEnd && this.from > 0) this.from += by;
    if (isAtEnd) this.to = duration;
    this.length = duration;
    this.refresh();
  }

  /** Has everything drawn again. */
  refresh(): void {
    for (const listener of [...this.rangeListeners]) listener();
  }

  /** The shortest stretch that can be looked at. */
  private get least(): number {
    return Math.max(this.duration * 1e-6, 1e-6);
  }

  get isWhole(): boolean {
    return this.from === 0 && this.to === this.duration;
  }

  show(from: number, to: number): void {
    const length = Math.min(Math.max(to - from, this.least), this.duration);
    const start = Math.min(Math.max(from, 0), this.duration - length);
    if (start === this.from && start + length === this.to) return;
    this.from = start;
    this.to = length === this.duration ? this.duration : start + length;
    this.refresh();
  }

  whole(): void {
    this.show(0, this.duration);
  }

  /** Shows `factor` times as long a stretch; `around` stays where it is. */
  zoom(factor: number, around = (this.from + this.to) / 2): void {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  /** Moves by a part of what is shown. */
  pan(part: number): void {
    const by = (this.to - this.from) * part;
    const bounded = Math.min(Math.max(by, -this.from), this.duration - this.to);
    this.show(this.from + bounded, this.to + bounded);
  }

  point(at: number | null): void {
    if (at === this.cursor) return;
    this.cursor = at;
    for (const listener of [...this.cursorListeners]) listener();
  }

  onRange(listener: Listener): void {
    this.rangeListeners.add(listener);
    atEnd(() => this.rangeListeners.delete(listener));
  }

  onCursor(listener: Listener): void {
    this.cursorListeners.add(listener);
    atEnd(() => this.cursorListeners.delete(listener));
  }
}

/** Keys that move the view; true if the key was one of them. */
export function steer(view: View, key: string): boolean {
  switch (key) {
    case "+": case "=": view.zoom(0.5); return true;
    case "-": view.zoom(2); return true;
    case "ArrowLeft": view.pan(-0.2); return true;
    case "ArrowRight": view.pan(0.2); return true;
    case "0": case "Escape": view.whole(); return true;
    default: return false;
  }
}
