// A histogram of how long pairs lasted: both axes logarithmic.

import { svg } from "./dom";
import { count } from "./format";
import type { PairRow } from "./generated";

const WIDTH = 1120;
const HEIGHT = 190;
const LEFT = 58;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 28;

/** A bar of one pair is so high, in powers of ten of pairs. */
const ONE = 0.35;

/** A time, in the unit that it is a few of. */
export function short(seconds: number): string {
  if (seconds === 0) return "0 s";
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "us"]] as const;
  for (const [unit, name] of units) {
    if (seconds >= unit) return `${Number((seconds / unit).toPrecision(4))} ${name}`;
  }
  return `${Math.round(seconds * 1e9)} ns`;
}

export function latencies(pair: PairRow): SVGElement {
  const shortest = Math.max(Math.min(...pair.from), 1e-9);
  const longest = Math.max(...pair.to, shortest * 10);
  const x = (s: number): number => LEFT + (WIDTH - LEFT - RIGHT)
    * Math.log(Math.max(s, shortest) / shortest) / Math.log(longest / shortest);
  const most = Math.log10(Math.max(...pair.count, 1)) + ONE;
  const height = (pairs: number): number => (HEIGHT - TOP - BOTTOM) * (Math.log10(pairs) + ONE) / most;
  const ground = HEIGHT - BOTTOM;
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `Histogram of ${pair.name}: ${count(pair.total)} pairs` });
  chart.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: ground, y2: ground }));
  for (let power = Math.ceil(Math.log10(shortest) - 1e-9); 10 ** power <= longest; power += 1) {
    const at = x(10 ** power);
    chart.append(svg("line", { class: "axis", x1: at, x2: at, y1: ground, y2: ground + 5 }),
      svg("text", { x: at, y: ground + 19, "text-anchor": at > WIDTH - 40 ? "end" : "middle" }, short(10 ** power)));
  }
  for (let power = 0; 10 ** power <= Math.max(...pair.count); power += 1) {
    const at = ground - height(10 ** power);
    chart.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }),
      svg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, count(10 ** power)));
  }
  pair.count.forEach((pairs, bucket) => {
    const [from, to] = [pair.from[bucket] ?? 0, pair.to[bucket] ?? 0];
    const bar = svg("rect", { class: "bar colour-0", "data-pairs": pairs, x: x(from) + 0.5, y: ground - height(pairs),
      width: Math.max(x(to) - x(from) - 1, 1), height: height(pairs) });
    bar.append(svg("title", {}, `${short(from)} to ${short(to)}: ${count(pairs)} pairs`));
    chart.append(bar);
  });
  return chart;
}
