// A histogram of calls by their time, both axes logarithmic; and below each bar where the time of its calls went. The
// two are apart because no area of bars on a logarithmic scale is a number of calls, or an amount of time.

import { svg } from "./dom";
import { count, seconds } from "./format";
import type { KindRow, PartTitle } from "./generated";

const WIDTH = 1120;
const HEIGHT = 250;
const LEFT = 58;
const RIGHT = 12;
const TOP = 20;
const BOTTOM = 28;
/** Bars stand on this line, … */
const GROUND = 150;
/** … and the shares of their time lie between this one and the axis of times. */
const SHARES = 160;

/** A bar of one call is so high, in powers of ten of calls. */
const ONE_CALL = 0.35;

/** The class that gives a part its colour: the remainder and what is left over are grey. */
export function partClass(parts: PartTitle[], index: number): string {
  if (parts[index]?.name === "kernel") return "part-kernel";
  return index === parts.length - 1 ? "part-rest" : `part-${index}`;
}

/** Of a kind of calls, or whatever `noun` says. */
export function histogram(kind: KindRow, parts: PartTitle[], noun: string): SVGElement {
  // What took no time at all has no place on such an axis.
  const shortest = Math.max(Math.min(...kind.from), 1e-8);
  const longest = Math.max(...kind.to, shortest * 10);
  const x = (s: number): number => {
    const part = Math.log(Math.max(s, shortest) / shortest) / Math.log(longest / shortest);
    return LEFT + (WIDTH - LEFT - RIGHT) * part;
  };
  const most = Math.log10(Math.max(...kind.count)) + ONE_CALL;
  const height = (calls: number): number =>
    calls > 0 ? (GROUND - TOP) * (Math.log10(calls) + ONE_CALL) / most : 0;
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `Histogram of ${kind.title}: ${count(kind.calls)} ${noun}` });
  chart.append(...ordinary(kind, x), ...axes(kind, x, height, shortest, longest));
  kind.count.forEach((_, bucket) => chart.append(bar(kind, bucket, parts, noun, x, height)));
  chart.append(...slow(kind, x));
  return chart;
}

function bar(kind: KindRow, bucket: number, parts: PartTitle[], noun: string, x: (s: number) => number,
  height: (calls: number) => number): SVGElement {
  const [from, to, calls] = [kind.from[bucket] ?? 0, kind.to[bucket] ?? 0, kind.count[bucket] ?? 0];
  const shares = kind.shares[bucket] ?? [];
  const group = svg("g", { class: "bar", "data-calls": String(calls) });
  const words = parts.flatMap((part, i) => {
    const share = shares[i] ?? 0;
    return share >= 0.005 ? [`${part.name} ${(100 * share).toFixed(0)} %`] : [];
  });
  group.append(svg("title", {},
    `${seconds(from)} to ${seconds(to)}: ${count(calls)} ${noun}\n${words.join(", ")}`));
  const place = { x: x(from) + 0.5, width: Math.max(x(to) - x(from) - 1, 1) };
  group.append(svg("rect", { class: "calls", ...place, y: GROUND - height(calls), height: height(calls) }));
  const whole = HEIGHT - BOTTOM - SHARES;
  let top = HEIGHT - BOTTOM;
  parts.forEach((_, i) => {
    const part = whole * (shares[i] ?? 0);
    if (part <= 0) return;
    top -= part;
    group.append(svg("rect", { class: partClass(parts, i), ...place, y: top, height: part, "stroke-width": 0.5 }));
  });
  return group;
}

function ordinary(kind: KindRow, x: (s: number) => number): SVGElement[] {
  const { ordinary_from: from, ordinary_to: to } = kind;
  if (from === null || to === null) return [];
  const band = svg("rect", { class: "ordinary", x: x(from), y: TOP - 6,
    width: Math.max(x(to) - x(from), 2), height: HEIGHT - TOP - BOTTOM + 6 });
  return [band, label(x(from), TOP - 9, "ordinary", "start")];
}

function slow(kind: KindRow, x: (s: number) => number): SVGElement[] {
  if (kind.slow_from === null) return [];
  const at = x(kind.slow_from);
  const word = at > WIDTH * 0.8 ? label(at - 5, TOP + 3, "slow", "end") : label(at + 5, TOP + 3, "slow", "start");
  word.setAttribute("class", "slow-word");
  return [svg("line", { class: "slow", x1: at, x2: at, y1: TOP - 6, y2: HEIGHT - BOTTOM }), word];
}

function axes(kind: KindRow, x: (s: number) => number, height: (calls: number) => number,
  shortest: number, longest: number): SVGElement[] {
  const found: SVGElement[] = [];
  const bottom = HEIGHT - BOTTOM;
  for (const y of [GROUND, bottom]) {
    found.push(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }));
  }
  found.push(label(LEFT - 8, (SHARES + bottom) / 2 + 4, "time", "end"));
  for (let power = Math.ceil(Math.log10(shortest)); 10 ** power <= longest; power += 1) {
    const at = x(10 ** power);
    found.push(svg("line", { class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 5 }));
    found.push(label(at, bottom + 19, decade(power), "middle"));
  }
  const most = Math.max(...kind.count);
  for (let power = 0; 10 ** power <= most; power += 1) {
    const at = GROUND - height(10 ** power);
    found.push(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }));
    found.push(label(LEFT - 8, at + 4, count(10 ** power), "end"));
  }
  return found;
}

/** A power of ten of seconds, in the unit that makes it 1, 10 or 100. */
function decade(power: number): string {
  const unit = Math.min(Math.floor(power / 3), 0);
  return `${10 ** (power - 3 * unit)} ${["s", "ms", "us", "ns"][-unit] ?? "s"}`;
}

function label(x: number, y: number, text: string, anchor: string): SVGElement {
  return svg("text", { x, y, "text-anchor": anchor }, text);
}
