// Regions that programs name: a flame graph, sums by name, what programs said of themselves, and what is not whole.

import { folded, h, replace, section } from "./dom";
import { count, real, seconds } from "./format";
import { flameGraph } from "./flame";
import type { FlatRegion, Page, Quality, RegionsPage } from "./generated";
import type { Phases } from "./phases";
import { OTHER, isEstimate, qualityWords } from "./region-words";

const PART = 50;

export function regionsSection(page: Page, phases: Phases): HTMLElement | null {
  const { regions } = page;
  if (regions === null) return null;
  const colours = phases.kinds.flatMap(({ name, colour }): [string, number][] => (colour === null ? [] : [[name, colour]]));
  const flame = flameGraph(regions, new Map(colours));
  const leftOut = regions.tree.left_out;
  return section("regions", "Regions",
    h("p", { class: "note scope" }, regions.scope),
    flame ?? h("p", { class: "note" }, "No call of a region has ended."),
    leftOut > 0 && h("p", { class: "note" },
      `${count(leftOut)} places of the call tree that took less time are not on this page; regions.parquet has all of them.`),
    ...regions.notes.map((note) => h("p", { class: "note doubt" }, h("span", { class: "badge estimated" }, "note"), ` ${note}`)));
}

type Column = "name" | "exclusive" | "inclusive" | "calls" | "mean" | "longest" | "threads" | "imbalance";

const TITLES: Record<Column, string> = { name: "region", exclusive: "exclusive", inclusive: "inclusive", calls: "calls",
  mean: "mean", longest: "longest", threads: "threads", imbalance: "imbalance" };

/** Sums by name, wherever the region was called. */
export function flatSection(page: Page): HTMLElement | null {
  const { regions } = page;
  if (regions === null || regions.flat.length === 0) return null;
  const hasRanks = regions.flat.some((region) => region.ranks);
  const columns = (Object.keys(TITLES) as Column[]).filter((column) => column !== "imbalance" || hasRanks);
  const body = h("tbody");
  const tally = h("span", { class: "muted tally" });
  const filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter the regions" });
  const more = h("button", { type: "button", class: "more-rows" }, "Show more");
  let [column, upwards, most]: [Column, boolean, number] = ["exclusive", false, PART];
  const heads = columns.map((name) => {
    const button = h("button", { type: "button", class: "sort" }, TITLES[name]);
    button.addEventListener("click", () => {
      upwards = column === name ? !upwards : name === "name";
      column = name;
      show();
    });
    return { name, cell: h("th", { scope: "col", class: name === "name" ? "" : "number" }, button) };
  });
  const show = (): void => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = regions.flat.filter((region) => words.every((word) => region.name.toLowerCase().includes(word)));
    found.sort((a, b) => (upwards ? 1 : -1) * compare(a, b, column));
    replace(body, ...found.slice(0, most).map((region) => row(region, columns)));
    replace(tally, `${count(found.length)} of ${count(regions.flat_total)} regions`);
    more.hidden = found.length <= most;
    for (const head of heads) {
      head.cell.setAttribute("aria-sort", head.name !== column ? "none" : upwards ? "ascending" : "descending");
    }
  };
  filter.addEventListener("input", () => { most = PART; show(); });
  more.addEventListener("click", () => { most += PART * 4; show(); });
  show();
  return folded("regions-flat", "Regions by name", brief(regions),
    h("div", { class: "controls" }, filter, tally),
    h("div", { class: "wide" }, h("table", { class: "regions" },
      h("thead", {}, h("tr", {}, ...heads.map((head) => head.cell), h("th", { scope: "col" }, "quality"))), body)),
    more);
}

function brief(regions: RegionsPage): string {
  const top = regions.flat[0];
  return `${count(regions.flat_total)} ${regions.flat_total === 1 ? "name" : "names"}` +
    (top === undefined ? "" : `, most by itself: ${shown(top)} ${seconds(top.exclusive_seconds)}`);
}

function shown(region: FlatRegion): string {
  return region.name === "" ? "(no name)" : region.name;
}

function number(region: FlatRegion, column: Column): number {
  switch (column) {
    case "exclusive": return region.exclusive_seconds;
    case "inclusive": return region.inclusive_seconds;
    case "calls": return region.calls;
    case "mean": return region.calls > 0 ? region.inclusive_seconds / region.calls : 0;
    case "longest": return region.max_seconds ?? 0;
    case "threads": return region.threads;
    case "imbalance": return region.ranks?.imbalance_ratio ?? 0;
    case "name": return 0;
  }
}

function compare(a: FlatRegion, b: FlatRegion, column: Column): number {
  if (column === "name") return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
  return number(a, column) - number(b, column);
}

function cell(region: FlatRegion, column: Column): string {
  const mark = isEstimate(region.quality) ? "~" : "";
  const n = number(region, column);
  switch (column) {
    case "calls": case "threads": return count(n);
    case "exclusive": case "inclusive": return mark + seconds(n);
    case "mean": return region.calls > 0 ? mark + seconds(n) : "";
    case "longest": return region.max_seconds === null || region.max_seconds === undefined ? "" : seconds(n);
    case "imbalance": return region.ranks ? `${n.toFixed(2)}` : "";
    case "name": return shown(region);
  }
}

function row(region: FlatRegion, columns: Column[]): HTMLElement {
  const { ranks } = region;
  const why = (column: Column) => column === "imbalance" && ranks
    ? `rank ${ranks.max_rank} took ${seconds(ranks.max_seconds)}, the mean of ${count(ranks.ranks)} ranks is ${seconds(ranks.mean_seconds)}` : undefined;
  return h("tr", { class: region.name === OTHER ? "muted" : "" }, ...columns.map((column) => column === "name"
    ? h("td", { class: "mono path", title: region.name }, shown(region).slice(0, 400))
    : h("td", { class: "number", title: why(column) }, cell(region, column))),
    h("td", {}, qualityBadge(region.quality, region.error_seconds ?? null), remarks(region)));
}

function qualityBadge(quality: Quality, error: number | null): HTMLElement {
  const text = error === null ? quality : `${quality} ±${seconds(error)}`;
  return h("span", { class: `badge ${quality}`, title: qualityWords(quality) }, text);
}

function remarks(region: FlatRegion): HTMLElement | null {
  const parts = [
    (region.open_calls ?? 0) > 0 && `${count(region.open_calls ?? 0)} open`,
    (region.unbalanced_calls ?? 0) > 0 && `${count(region.unbalanced_calls ?? 0)} unbalanced`,
    region.name === OTHER && "found no room in the profile",
  ].filter(Boolean);
  return parts.length === 0 ? null : h("span", { class: "muted" }, ` ${parts.join(", ")}`);
}

/** Counters, gauges and events, and what programs said of themselves. */
export function valuesSection(page: Page): HTMLElement | null {
  const { regions } = page;
  if (regions === null) return null;
  const metadata = Object.entries(regions.metadata);
  if (regions.counters.length === 0 && metadata.length === 0) return null;
  const differs = new Set(regions.metadata_differs);
  const counters = regions.counters.map((counter) => h("tr", {},
    h("td", { class: "mono path" }, counter.name), h("td", { class: "muted" }, counter.kind),
    h("td", { class: "number" }, real(counter.value)), h("td", { class: "number" }, count(counter.samples)),
    h("td", { class: "number" }, real(counter.min)), h("td", { class: "number" }, real(counter.max))));
  const facts = metadata.map(([key, value]) => h("tr", {},
    h("td", { class: "mono path" }, key), h("td", { class: "path" }, value),
    h("td", { class: "muted" }, differs.has(key) ? "processes said different things: this is the first one's" : "")));
  return folded("regions-values", "Counters and metadata",
    `${count(counters.length)} counters, ${count(metadata.length)} metadata`,
    counters.length > 0 && h("div", { class: "wide" }, h("table", { class: "counters" },
      h("thead", {}, h("tr", {}, ...["counter", "kind"].map((t) => h("th", { scope: "col" }, t)),
        ...["value", "samples", "least", "greatest"].map((t) => h("th", { scope: "col", class: "number" }, t)))),
      h("tbody", {}, ...counters))),
    facts.length > 0 && h("div", { class: "wide" }, h("table", { class: "metadata" },
      h("thead", {}, h("tr", {}, ...["metadata", "value", ""].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, ...facts))));
}
