// What was read and written over time: compute against calls on files, process by process, and where in the
// files that were used most.

import { folded, h, section } from "./dom";
import { clock, count, measured, power, seconds, size } from "./format";
import type { FileHeat, IoHeat, IoOverTime, Page } from "./generated";
import { type Heat, type HeatRow, heatMap } from "./heat";
import { ownPaths, relative } from "./paths";
import type { View } from "./view";

const READ = 0;
const WRITTEN = 1;
const CPU = 2;
const CALLS = 4;
const all = (colour: number) => () => colour;
/** So many columns a run has about. */
const COLUMNS = 160;
const ROW = 16;
/** The height of a file's map. */
const MAP = 160;

export function ioTimeSection(page: Page, view: View): HTMLElement | null {
  const io = page.io_over_time;
  if (io === null) return null;
  return section("io-time", "Compute against reading and writing",
    h("div", { class: "legend" }, key(READ, "read"), key(WRITTEN, "written"),
      key(CALLS, "time in calls on files"), key(CPU, "CPU")),
    heatMap(overview(page, io), view));
}

/** Process by process, and place by place in the files of the job. */
export function ioTimeDetails(page: Page, view: View): HTMLElement | null {
  const io = page.io_over_time;
  if (io === null || io.processes.length < 2 && io.files.length === 0) return null;
  const own = new Set(ownPaths(page));
  const files = io.files.filter((file) => own.has(file.path));
  const system = io.files.filter((file) => !own.has(file.path));
  const maps = (of: FileHeat[]) => h("div", { class: "charts" },
    ...of.map((file) => heatMap(byPlace(page, io, file, seenIn(page)), view)));
  const notes = [
    io.processes_total > io.processes.length && io.processes.length > 0 &&
      `Of ${count(io.processes_total)} processes those ${io.processes.length} that moved most.`,
    io.files_total > io.files.length && io.files.length > 0 &&
      `Of ${count(io.files_total)} files those ${io.files.length} that were used most.`,
    "io_series.parquet and io_places.parquet have all of it.",
  ].filter(Boolean);
  return folded("io-places", "Read and written over time, by process and by place in files",
    `${count(io.processes.length)} processes, ${count(io.files.length)} files`,
    ...io.processes.length > 1 ? [heatMap(byProcess(io, seenIn(page)), view)] : [],
    maps(files),
    system.length > 0 && h("details", { class: "more" },
      h("summary", {}, `${count(system.length)} system files, libraries and bytecode`), maps(system)),
    h("p", { class: "note" }, notes.join(" ")));
}

/** Which of the two can be seen: what cannot be seen is not 0. */
interface Seen { reads: boolean; writes: boolean }

function seenIn(page: Page): Seen {
  return { reads: page.io?.are_reads_unseen !== true, writes: page.io?.are_writes_unseen !== true };
}

/** So much was read and so much written, as far as it can be seen. */
function moved(seen: Seen, read: string, written: string): string {
  return `${seen.reads ? read : "an unknown amount"} read, ${seen.writes ? written : "an unknown amount"} written`;
}

function key(colour: number, word: string): HTMLElement {
  return h("span", { class: `key colour-${colour}` }, h("span", { class: "swatch" }), word);
}

/** Columns over the whole run: those in which calls were made, and what lies between them, which has no place
 * among them. */
interface Columns { from: number[]; to: number[]; places: (number | null)[] }

/** Where nothing was read or written the columns are about as wide as elsewhere. */
export function wholeAxis(from: number[], to: number[], duration: number): Columns {
  const out: Columns = { from: [], to: [], places: [] };
  let end = 0;
  const push = (begin: number, until: number, place: number | null) => {
    out.from.push(begin);
    out.to.push(until);
    out.places.push(place);
    end = Math.max(end, until);
  };
  const fill = (until: number) => {
    const [begin, parts] = [end, Math.ceil((until - end) / duration * COLUMNS - 1e-6)];
    for (let i = 0; i < parts; i += 1) push(begin + (until - begin) * i / parts, begin + (until - begin) * (i + 1) / parts, null);
  };
  from.forEach((begin, place) => {
    fill(begin);
    push(Math.max(begin, end), Math.max(to[place] ?? begin, end), place);
  });
  fill(duration);
  return out;
}

/** The whole job: two rows of bytes, and compute against calls. */
function overview(page: Page, followed: IoOverTime): Heat {
  const axis = wholeAxis(followed.from, followed.to, Math.max(page.duration, 1e-6));
  const io = { ...followed, from: axis.from, to: axis.to, all: spread(followed.all, axis) };
  const lengths = io.from.map((from, i) => Math.max((io.to[i] ?? 0) - from, 1e-6));
  const perSecond = (values: number[]) => values.map((v, i) => v / (lengths[i] ?? 1));
  const cpu = growth(page, io);
  const calls = perSecond(io.all.seconds);
  const cores = cpu === null ? null : perSecond(cpu);
  const read = perSecond(io.all.read);
  const written = perSecond(io.all.written);
  const bytes = Math.max(...read, ...written);
  const seen = seenIn(page);
  const busy = Math.max(...calls, ...cores ?? []);
  const rows: HeatRow[] = [
    ...seen.reads ? [{ label: "read", values: read, colour: all(READ), top: bytes }] : [],
    ...seen.writes ? [{ label: "written", values: written, colour: all(WRITTEN), top: bytes }] : [],
    { label: "in calls on files", values: calls, colour: all(CALLS), top: busy },
    ...cores === null ? [] : [{ label: "CPU", values: cores, colour: all(CPU), top: busy }],
  ];
  const say = (_: number, column: number) => {
    const rate = { unit: "bytes", perSecond: true } as const;
    const words = [
      moved(seen, measured(read[column] ?? 0, rate), measured(written[column] ?? 0, rate)),
      `${(calls[column] ?? 0).toFixed(2)} threads in calls on files`,
      ...cores === null ? [] : [`${(cores[column] ?? 0).toFixed(2)} CPUs busy`],
    ];
    return `${when(io, column)}: ${words.join(", ")}`;
  };
  return { title: "All processes", rows, from: io.from, to: io.to, rowHeight: ROW + 4, scale:
    `fullest colour: ${bytes > 0 ? `${measured(bytes, { unit: "bytes", perSecond: true })}, of time ` : ""}` +
      `${busy.toFixed(2)} threads or CPUs`, say };
}

function spread(heat: IoHeat, axis: Columns): IoHeat {
  const over = (values: number[]) => axis.places.map((place) => (place === null ? 0 : values[place] ?? 0));
  return { read: over(heat.read), written: over(heat.written), seconds: over(heat.seconds) };
}

/** CPU time of each column, from the samples; null where there are none. */
function growth(page: Page, io: IoOverTime): number[] | null {
  const series = page.series["cpu_seconds"];
  if (series === undefined || series.at.length === 0) return null;
  const at = [0, ...series.at];
  const value = [0, ...series.value];
  const used = (time: number): number => {
    const next = at.findIndex((t) => t >= time);
    if (next < 0) return value[value.length - 1] ?? 0;
    if (next === 0) return value[0] ?? 0;
    const [t0, t1, v0, v1] = [at[next - 1] ?? 0, at[next] ?? 0, value[next - 1] ?? 0, value[next] ?? 0];
    return t1 > t0 ? v0 + (v1 - v0) * (time - t0) / (t1 - t0) : v1;
  };
  return io.from.map((from, i) => Math.max(used(io.to[i] ?? 0) - used(from), 0));
}

/** Two rows for each process: what it read, and what it wrote. */
function byProcess(io: IoOverTime, seen: Seen): Heat {
  const top = Math.max(...io.processes.flatMap(({ heat }) => [...heat.read, ...heat.written]));
  const rows = io.processes.flatMap(({ heat, name, pid }): HeatRow[] => [
    { label: `${name} ${pid}`.trim(), values: heat.read, colour: all(READ), top },
    { label: "", values: heat.written, colour: all(WRITTEN), top },
  ]);
  const say = (row: number, column: number) => {
    const process = io.processes[Math.floor(row / 2)];
    return process === undefined ? "" :
      `${process.name} ${process.pid}, ${when(io, column)}: ${amounts(process.heat, column, seen)}`;
  };
  return { title: "By process", rows, from: io.from, to: io.to, rowHeight: 10, scale: `fullest colour: ${size(top)} in a column`, say };
}

function amounts(heat: IoHeat, column: number, seen: Seen): string {
  return `${moved(seen, size(heat.read[column] ?? 0), size(heat.written[column] ?? 0))}, ` +
    `${seconds(heat.seconds[column] ?? 0)} in calls`;
}

/** Each place of a file is a row, its beginning at the bottom: the more of the two decides the colour. */
function byPlace(page: Page, io: IoOverTime, file: FileHeat, seen: Seen): Heat {
  const columns = io.from.length;
  const top = Math.max(...file.read, ...file.written);
  const cell = (bytes: number[], place: number, column: number) => bytes[place * columns + column] ?? 0;
  const places = Array.from({ length: file.places }, (_, i) => file.places - 1 - i);
  const every = Math.max(Math.ceil(file.places / 6), 1);
  const rows = places.map((place): HeatRow => {
    const values = io.from.map((_, column) =>
      cell(file.read, place, column) + cell(file.written, place, column));
    return {
      label: place % every === 0 ? size(place * file.place_bytes) : "",
      values, top,
      colour: (column) => cell(file.written, place, column) > cell(file.read, place, column) ? WRITTEN : READ,
    };
  });
  const say = (row: number, column: number) => {
    const place = places[row] ?? 0;
    return `${size(place * file.place_bytes)} to ${size((place + 1) * file.place_bytes)}, ${when(io, column)}: ` +
      moved(seen, size(cell(file.read, place, column)), size(cell(file.written, place, column)));
  };
  return { title: titleOf(page, io, file), rows, from: io.from, to: io.to, rowHeight: Math.max(MAP / file.places, 4),
    scale: `fullest colour: ${size(top)} in a cell`, say };
}

/** Files that had the same path one after the other are told apart. */
function titleOf(page: Page, io: IoOverTime, file: FileHeat): string {
  const alike = io.files.filter((other) => other.path === file.path);
  const path = relative(page, file.path);
  return alike.length > 1 ? `${path} (${alike.indexOf(file) + 1} of ${alike.length} files of this path)` : path;
}

function when(io: IoOverTime, column: number): string {
  const longest = io.to[io.to.length - 1] ?? 1;
  const [from, to] = [io.from[column] ?? 0, io.to[column] ?? 0];
  const step = power(Math.max(to - from, 1e-6) / 10);
  return `${clock(from, step, longest)} to ${clock(to, step, longest)}`;
}
