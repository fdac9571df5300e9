// The job's data flow as a graph: processes as boxes, files between those that wrote and those that read them,
// pipes and sockets as broken lines. dagre says where everything stands.

import { Graph, layout } from "@dagrejs/dagre";

import { h, svg } from "./dom";
import { size } from "./format";
import type { FlowRow, Page } from "./generated";
import { relative } from "./paths";

/** Of more flows a graph says nothing to the eye; the list beneath has all of them. */
const MOST = 60;
const LETTER = 6.6;
const HEIGHT = 24;

interface Box { text: string; title: string; isFile: boolean; width: number; height: number; x?: number; y?: number }
interface Named { text: string; title: string }
interface Line { bytes: number | null; isFile: boolean; name: string; titles: string[]; points?: { x: number; y: number }[] }

export function flowGraph(page: Page, flows: FlowRow[]): HTMLElement[] {
  if (flows.length === 0) return [];
  try {
    return draw(page, flows);
  } catch (error) {
    // The list beneath says the same; a page without anything else would be the greater harm.
    return [h("p", { class: "note" }, `The graph could not be drawn: ${String(error)}`)];
  }
}

function draw(page: Page, flows: FlowRow[]): HTMLElement[] {
  const graph = build(page, flows.slice(0, MOST));
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": "Who wrote what others read" }, arrow());
  const lines = graph.edges().map((edge) => graph.edge(edge) as Line);
  const most = Math.max(...lines.map((line) => line.bytes ?? 0), 1);
  for (const line of lines) picture.append(path(line, most), ...name(line));
  for (const name of graph.nodes()) picture.append(box(graph.node(name) as Box));
  const more = flows.length > MOST && `The ${MOST} of ${flows.length} with most bytes; a wider line is more of them.`;
  return [
    h("h3", {}, "Data flow"),
    h("figure", { class: "flow" }, h("div", { class: "wide", tabindex: 0 }, picture),
      h("figcaption", { class: "note" }, more || "A wider line is more bytes; broken ones are pipes and sockets.")),
  ];
}

function build(page: Page, flows: FlowRow[]): Graph {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 48, marginx: 6, marginy: 6 });
  for (const flow of flows) {
    const writer = node(graph, `process ${flow.writer}`, label(flow.writer_name, flow.writer), false);
    const reader = node(graph, `process ${flow.reader}`, label(flow.reader_name, flow.reader), false);
    if (flow.is_file) {
      const file = node(graph, `file ${flow.name}`, { text: relative(page, flow.name), title: flow.name }, true);
      join(graph, writer, file, flow, Math.max);
      join(graph, file, reader, flow, (a, b) => a + b);
    } else {
      join(graph, writer, reader, flow, (a, b) => a + b);
    }
  }
  return graph;
}

function label(name: string, pid: number): Named {
  return { text: `${name} ${pid}`, title: `${name} ${pid}` };
}

function node(graph: Graph, name: string, { text, title }: Named, isFile: boolean): string {
  if (!graph.hasNode(name)) {
    const label: Box = { text, title, isFile, width: text.length * LETTER + 18, height: HEIGHT };
    graph.setNode(name, label);
  }
  return name;
}

/** What several read of the same writing was written once; what one reads of several adds up. */
function join(graph: Graph, from: string, to: string, flow: FlowRow, together: (a: number, b: number) => number): void {
  // Two pipes between the same processes are two lines.
  const name = flow.is_file ? undefined : flow.name;
  const known = graph.edge(from, to, name) as Line | undefined;
  const bytes = flow.bytes === null ? null : together(known?.bytes ?? 0, flow.bytes);
  const line: Line = { bytes, isFile: flow.is_file, name: flow.name, titles: [...known?.titles ?? [], flow.text] };
  // Between two processes there has to be room for it.
  const width = flow.is_file ? 0 : flow.name.length * LETTER;
  graph.setEdge(from, to, { ...line, width, height: HEIGHT / 2, labelpos: "c" }, name);
}

function path(line: Line, most: number): SVGElement {
  const points = line.points ?? [];
  const d = points.map((point, i) => `${i === 0 ? "M" : "L"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`).join(" ");
  // By the root: little beside much is still to be seen.
  const width = line.bytes === null ? 1.5 : 1 + 3.5 * Math.sqrt(line.bytes / most);
  const shown = svg("path", { d, class: line.isFile ? "of-file" : "of-pipe", "stroke-width": width.toFixed(2),
    "marker-end": "url(#flow-arrow)" });
  shown.append(svg("title", {}, [...line.bytes === null ? [] : [size(line.bytes)], ...line.titles].join("\n")));
  return shown;
}

/** A pipe or socket has no box: its name stands at the middle of its line. */
function name(line: Line): SVGElement[] {
  const middle = line.points?.[Math.floor((line.points.length - 1) / 2)];
  if (line.isFile || middle === undefined) return [];
  return [svg("text", { x: middle.x, y: middle.y - 4, "text-anchor": "middle", class: "name" }, line.name)];
}

function box(label: Box): SVGElement {
  const { width, height, x = 0, y = 0 } = label;
  return svg("g", { class: label.isFile ? "file" : "process" },
    svg("title", {}, label.title),
    svg("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: label.isFile ? 2 : 11 }),
    svg("text", { x, y: y + 4, "text-anchor": "middle" }, label.text));
}

function arrow(): SVGElement {
  return svg("defs", {}, svg("marker", { id: "flow-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4,
    markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto" },
    svg("path", { d: "M0 0L8 4L0 8z", class: "head" })));
}
