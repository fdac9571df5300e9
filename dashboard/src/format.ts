// Amounts for people, in the words of crates/schema/src/amount.rs; for what is computed on the
// page. Metrics' own values come as text from there.

import type { Unit } from "./generated";

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit + 1 < SIZES.length) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${value.toFixed(0)} B` : `${value.toFixed(1)} ${SIZES[unit]}`;
}

export function seconds(s: number): string {
  if (s === 0) return "0 s";
  if (Math.abs(s) < 0.5e-9) return "under 1 ns";
  if (Math.abs(s) < 1e-7) return `${(s * 1e9).toFixed(0)} ns`;
  if (s < 1e-3) return `${(s * 1e6).toFixed(1)} us`;
  if (s < 1) return `${(s * 1e3).toFixed(1)} ms`;
  if (s < 120) return `${s.toFixed(3)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${pad(Math.floor(s % 60))} s`;
  return `${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} min`;
}

function pad(n: number): string {
  return String(n).padStart(2, "0");
}

export function count(n: number): string {
  return n.toFixed(0).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function amount(value: number, unit: Unit): string {
  switch (unit) {
    case "bytes": return size(value);
    case "seconds": return seconds(value);
    case "count": return count(value);
    case "cores":
    case "threads": return value.toFixed(2);
    case "ratio": return `${(value * 100).toFixed(1)} %`;
    case "celsius": return `${value.toFixed(1)} °C`;
    case "watts": return `${value.toFixed(1)} W`;
    case "joules": return `${value.toFixed(1)} J`;
  }
}

/** What a series is drawn in: a metric's unit, or that unit per second. */
export interface Measure {
  unit: Unit;
  perSecond: boolean;
  /** Of a program's own: any number, which need not be whole. */
  isReal?: boolean;
}

/** A number of a program's own. */
export function real(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return count(value);
  return String(Number(value.toPrecision(5)));
}

export function measured(value: number, measure: Measure): string {
  if (measure.isReal) return real(value) + (measure.perSecond ? "/s" : "");
  // Less than one thing per second would round to none.
  const few = measure.unit === "count" && measure.perSecond && value < 10;
  const text = few ? value.toFixed(1) : amount(value, measure.unit);
  return measure.perSecond ? `${text}/s` : text;
}

/** A number beside an axis: short, without more digits than the distance to the next one needs. */
export function tick(value: number, measure: Measure): string {
  const per = measure.perSecond ? "/s" : "";
  switch (measure.unit) {
    case "bytes": return roundSize(value) + per;
    case "count": return (value >= 1e4 ? compact(value) : trimmed(value)) + per;
    case "ratio": return `${trimmed(value * 100)} %`;
    case "seconds": return `${trimmed(value)} s`;
    case "cores":
    case "threads": return trimmed(value);
    case "celsius": return `${trimmed(value)} °C`;
    case "watts": return `${trimmed(value)} W`;
    case "joules": return `${trimmed(value)} J`;
  }
}

/** A size with as many digits as it has. */
function roundSize(bytes: number): string {
  const unit = Math.min(Math.max(Math.floor(Math.log2(Math.abs(bytes) || 1) / 10), 0), SIZES.length - 1);
  return `${trimmed(bytes / 1024 ** unit)} ${SIZES[unit]}`;
}

function trimmed(value: number): string {
  return String(Number(value.toPrecision(6)));
}

function compact(value: number): string {
  for (const [factor, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (value >= factor) return trimmed(value / factor) + letter;
  }
  return trimmed(value);
}

/** A step of one digit that is at most so long: for times that lie anywhere. */
export function power(step: number): number {
  return 10 ** Math.floor(Math.log10(step) + 1e-9);
}

/** So many digits behind the point tell steps of this length exactly, as far as a page shows them. */
function digitsOf(step: number): number {
  for (let digits = 0; digits < 6; digits += 1) {
    const scaled = step * 10 ** digits;
    if (scaled >= 0.999 && Math.abs(scaled - Math.round(scaled)) < 1e-3) return digits;
  }
  return 6;
}

/** A time of a run that took `longest`, with as many digits as the distance between two marks
 * asks for. */
export function clock(s: number, step: number, longest: number): string {
  const digits = digitsOf(step);
  if (longest < 60) return `${s.toFixed(digits)} s`;
  // Rounded before it is split: 59.96 at one digit is 1:00.0.
  const rounded = Number(s.toFixed(digits));
  const rest = (rounded % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  const minutes = Math.floor(rounded / 60);
  if (longest < 3600) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${rest}`;
}
