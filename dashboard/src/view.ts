// What part of the run is looked at, and where the pointer is in it: shared by all charts and the
// time line, so that they move together.

type Listener = () => void;

export class View {
  from = 0;
  to: number;
  /** The time under the pointer, if it is over a chart. */
  cursor: number | null = null;
  private readonly rangeListeners: Listener[] = [];
  private readonly cursorListeners: Listener[] = [];

  constructor(readonly duration: number) {
    this.to = duration;
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
    for (const listener of this.rangeListeners) listener();
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
    for (const listener of this.cursorListeners) listener();
  }

  onRange(listener: Listener): void {
    this.rangeListeners.push(listener);
  }

  onCursor(listener: Listener): void {
    this.cursorListeners.push(listener);
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
