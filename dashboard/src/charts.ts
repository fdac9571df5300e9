// The series, drawn. All charts show the same stretch of time and the same cursor.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { h, onThemeChange, replace, section, style } from "./dom";
import { clock, measured, tick } from "./format";
import type { Page } from "./generated";
import { atEnd } from "./lifetime";
import type { Phases } from "./phases";
import { type Chart, type Line, charts, seriesNames, unitWords } from "./series";
import { type View, steer } from "./view";

const HEIGHT = 140;
/** So many charts are shown at first: two rows of them. */
const MOST = 6;
const COLOURS = 6;

export function seriesSection(page: Page, view: View, phases: Phases): HTMLElement | null {
  const { charts: found, flat } = charts(page);
  if (found.length === 0) return null;
  const plots = found.map((chart) => figure(chart, view, phases));
  const cut = Object.values(page.series).some((s) => s.at.length < s.total);
  const zero = flat.length > 0 && `Zero all the time: ${flat.map((m) => m.help).join(", ")}.`;
  const more = plots.slice(MOST);
  const brief = [more.length > 0 && `${more.length} more ${more.length === 1 ? "chart" : "charts"}`, zero && `${flat.length} series that are zero`];
  const notes = [
    cut && "Long series are thinned for this page, their extremes kept; series.parquet has all samples.",
  ].filter(Boolean);
  return section("series", "Over time",
    h("div", { class: "charts" }, ...plots.slice(0, MOST)),
    (more.length > 0 || zero) && h("details", { class: "more" },
      h("summary", {}, brief.filter(Boolean).join(", ")),
      h("div", { class: "charts" }, ...more), zero && h("p", { class: "note" }, zero)),
    notes.length > 0 && h("p", { class: "note" }, notes.join(" ")));
}

export function figure(chart: Chart, view: View, phases: Phases): HTMLElement {
  return plotFigure(chart, view, phases).element;
}

export interface Figure {
  element: HTMLElement;
  /** Draws what the chart's lines have become. */
  update(): void;
}

export function plotFigure(chart: Chart, view: View, phases: Phases): Figure {
  const legend = h("div", { class: "legend" });
  const place = h("div", { class: "plot", tabindex: 0, role: "img",
    "aria-label": `${chart.title} over time; keys + - 0 and the arrows change the stretch shown` });
  const title = h("h3", {}, chart.title,
    !chart.title.endsWith(unitWords(chart)) && h("span", { class: "muted" }, ` ${unitWords(chart)}`));
  const element = h("figure", { class: "chart", "data-group": chart.group.group },
    h("figcaption", {}, title, legend), place);
  const shown = chart.lines.map(() => true);

  let plot = draw(chart, shown, view, phases, place, 600);
  const keys = legendKeys(chart, shown, (i, on) => {
    shown[i] = on;
    plot.setSeries(i + 1, { show: on });
  });
  replace(legend, ...keys.map((k) => k.element));
  const sayValues = () => {
    const index = view.cursor === null ? null : plot.valToIdx(view.cursor);
    keys.forEach((key, i) => {
      const line = chart.lines[i];
      const value = index === null ? line?.top : plot.data[i + 1]?.[index];
      key.say(value ?? null, index === null, line && index !== null ? spreadAt(line, plot.data[0]?.[index]) : null);
    });
  };
  sayValues();

  view.onRange(() => plot.setScale("x", { min: view.from, max: view.to }));
  view.onCursor(() => {
    const left = view.cursor === null ? -10 : plot.valToPos(view.cursor, "x");
    plot.setCursor({ left, top: left < 0 ? -10 : 0 }, false);
    sayValues();
  });
  place.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && steer(view, event.key)) {
      event.preventDefault();
    }
  });
  new ResizeObserver(() => {
    if (place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: HEIGHT });
  }).observe(place);
  onThemeChange(() => {
    plot.destroy();
    plot = draw(chart, shown, view, phases, place, place.clientWidth || 600);
  });
  phases.onChange(() => plot.redraw(false));
  atEnd(() => plot.destroy());
  sayPhase(place, view, phases);
  const update = () => {
    plot.setData(dataOf(chart), false);
    plot.setScale("x", { min: view.from, max: view.to });
    sayValues();
  };
  return { element, update };
}

/** Under the pointer: which phase it is. */
function sayPhase(place: HTMLElement, view: View, phases: Phases): void {
  const said = h("p", { class: "phase-at", hidden: true });
  place.append(said);
  view.onCursor(() => {
    const text = view.cursor !== null && place.matches(":hover") ? phases.at(view.cursor) : "";
    said.hidden = text === "";
    replace(said, text);
  });
}

interface Key {
  element: HTMLElement;
  /** `spread` has the least and the greatest of the samples that the value stands for. */
  say(value: number | null, isTop: boolean, spread: [number, number] | null): void;
}

/** Between what the samples lie that a point of the line stands for, if it stands for different ones. */
function spreadAt(line: Line, at: number | undefined): [number, number] | null {
  const index = at === undefined ? -1 : line.at.indexOf(at);
  const [low, high] = [line.low?.[index], line.high?.[index]];
  return low !== undefined && high !== undefined && high > low ? [low, high] : null;
}

function legendKeys(chart: Chart, shown: boolean[], toggle: (i: number, on: boolean) => void): Key[] {
  const names = seriesNames(chart);
  return chart.lines.map((line, i) => {
    const value = h("span", { class: "key-value" });
    const element = h("button", { type: "button", class: `key colour-${i % COLOURS}`,
      "aria-pressed": String(shown[i]), title: `${line.metric.help} (${line.metric.series})` },
      h("span", { class: "swatch" }), h("span", {}, names[i]), value);
    element.addEventListener("click", () => {
      const on = element.getAttribute("aria-pressed") !== "true";
      element.setAttribute("aria-pressed", String(on));
      toggle(i, on);
    });
    return {
      element,
      say: (number, isTop, spread) => {
        const between = spread === null ? "" : ` (${measured(spread[0], chart.measure)} to ${measured(spread[1], chart.measure)})`;
        replace(value, number === null ? "–" : `${isTop ? "max " : ""}${measured(number, chart.measure)}${between}`);
      },
    };
  });
}

function draw(chart: Chart, shown: boolean[], view: View, phases: Phases, place: HTMLElement, width: number): uPlot {
  const isRate = chart.lines.map((line) => line.metric.kind === "counter");
  const text = style("--muted");
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: text, font, grid: { stroke: style("--grid"), width: 1 },
    ticks: { stroke: style("--grid"), width: 1, size: 4 } };
  const stepped = uPlot.paths.stepped?.({ align: -1 });
  const options: uPlot.Options = {
    width,
    height: HEIGHT,
    padding: [8, 6, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: () => [view.from, view.to] },
      y: { range: (_, lowest, highest) => {
        const [least, top] = extremes(chart, shown, view, lowest, highest);
        return [Math.min(least * 1.08, 0), top > 0 ? top * 1.08 : least < 0 ? 0 : 1];
      } },
    },
    axes: [
      { ...axis, size: 26, space: 64,
        values: (_, splits, __, ___, step) => splits.map((s) => clock(s, step, view.duration)) },
      { ...axis, size: 72, space: 30,
        ...(chart.measure.unit === "bytes" ? { incrs: POWERS } : {}),
        values: (_, splits) => splits.map((v) => tick(v, chart.measure)) },
    ],
    series: [{}, ...chart.lines.map((line, i) => {
      const colour = style(`--colour-${i % COLOURS}`);
      return {
        show: shown[i] ?? true, stroke: colour, width: 1.5, spanGaps: true,
        points: { show: false },
        ...(chart.lines.length === 1 || i === 0 ? { fill: `${colour}1f` } : {}),
        ...(line.isOther ? { dash: [5, 4], width: 1 } : {}),
        ...(isRate[i] && stepped ? { paths: stepped } : {}),
      };
    })],
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      points: { size: 7 },
      bind: { dblclick: () => () => { view.whole(); return null; } },
    },
    hooks: {
      drawClear: [(u) => phases.paint(u.ctx, view, (time) => u.valToPos(time, "x", true),
        u.bbox.top, u.bbox.top + u.bbox.height)],
      drawAxes: [(u) => paintSpreads(u, chart, shown, view)],
      setSelect: [(u) => {
        if (u.select.width < 3) return;
        const from = u.posToVal(u.select.left, "x");
        const to = u.posToVal(u.select.left + u.select.width, "x");
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        view.show(from, to);
      }],
      setCursor: [(u) => {
        const left = u.cursor.left ?? -1;
        view.point(left < 0 ? null : u.posToVal(left, "x"));
      }],
    },
  };
  return new uPlot(options, dataOf(chart), place);
}

function dataOf(chart: Chart): uPlot.AlignedData {
  return uPlot.join(chart.lines.map((line) => [line.at, line.value] as uPlot.AlignedData));
}

/** The least and the greatest that is to be seen. */
function extremes(chart: Chart, shown: boolean[], view: View, lowest: number, highest: number): [number, number] {
  let [least, top] = [lowest, highest];
  chart.lines.forEach(({ at, low, high }, i) => {
    if (low === undefined || high === undefined || !shown[i]) return;
    at.forEach((time, point) => {
      if (time < view.from || time > view.to) return;
      least = Math.min(least, low[point] ?? least);
      top = Math.max(top, high[point] ?? top);
    });
  });
  return [least, top];
}

/** Behind a line: between what its samples lie, so that one alone is seen among millions. */
function paintSpreads(u: uPlot, chart: Chart, shown: boolean[], view: View): void {
  const { ctx: context, bbox } = u;
  context.save();
  context.beginPath();
  context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  context.clip();
  chart.lines.forEach((line, i) => {
    if (line.low === undefined || line.high === undefined || !shown[i]) return;
    context.fillStyle = style(`--colour-${i % COLOURS}`);
    context.globalAlpha = 0.45;
    line.at.forEach((time, point) => {
      if (time < view.from || time > view.to) return;
      const [x, top, bottom] = [u.valToPos(time, "x", true), u.valToPos(line.high?.[point] ?? 0, "y", true),
        u.valToPos(line.low?.[point] ?? 0, "y", true)];
      if (bottom - top >= 1) context.fillRect(x - devicePixelRatio / 2, top, Math.max(devicePixelRatio, 1), bottom - top);
    });
  });
  context.restore();
}

/** Steps between the marks of an axis of sizes: those that people read, in powers of two. */
const POWERS = Array.from({ length: 60 }, (_, i) => 2 ** i);
