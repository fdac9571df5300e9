// The files, each once, with how often and by how many processes it was opened.

import { h, replace, section } from "./dom";
import { count } from "./format";
import type { Page, Quality } from "./generated";

interface File {
  path: string;
  opened: number;
  pids: Set<number>;
  quality: Quality;
}

type Column = "path" | "opened" | "processes";

const PART = 50;

export function filesSection(page: Page): HTMLElement | null {
  const all = files(page);
  if (all.length === 0) return null;
  const names = new Map(page.processes.pid.map((pid, i) =>
    [pid, page.processes.texts[page.processes.name[i] ?? -1] ?? ""]));
  let column: Column = "opened";
  let upwards = false;
  let most = PART;

  const filter = h("input", { type: "search", placeholder: "Filter by path", "aria-label": "Filter the files" });
  const tally = h("span", { class: "muted tally" });
  const body = h("tbody");
  const more = h("button", { type: "button" }, "Show more");
  const heads = (["path", "opened", "processes"] as const).map((name) => {
    const button = h("button", { type: "button", class: "sort" }, name === "opened" ? "opens" : name);
    button.addEventListener("click", () => {
      upwards = column === name ? !upwards : name === "path";
      column = name;
      show();
    });
    return { name, cell: h("th", { class: name === "path" ? "" : "number", scope: "col" }, button) };
  });

  function show(): void {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((f) => words.every((w) => f.path.toLowerCase().includes(w)));
    found.sort((a, b) => (upwards ? 1 : -1) * compare(a, b, column) || byText(a.path, b.path));
    replace(body, ...found.slice(0, most).map((f) => row(f, names)));
    replace(tally, `${count(found.length)} of ${count(all.length)} files`);
    more.hidden = found.length <= most;
    for (const { name, cell } of heads) {
      cell.setAttribute("aria-sort", name !== column ? "none" : upwards ? "ascending" : "descending");
    }
  }

  filter.addEventListener("input", () => { most = PART; show(); });
  more.addEventListener("click", () => { most += PART * 4; show(); });
  show();
  const missing = page.files.total - page.files.path.length;
  return section("files", "Files",
    h("div", { class: "controls" }, filter, tally),
    h("div", { class: "wide" }, h("table", { class: "files" },
      h("thead", {}, h("tr", {}, ...heads.map((head) => head.cell), h("th", { scope: "col" }, "by"))), body)),
    more,
    missing > 0 && h("p", { class: "note" },
      `${count(missing)} of ${count(page.files.total)} rows are not on this page; files.parquet has them all.`));
}

function files(page: Page): File[] {
  const t = page.files;
  const found = new Map<number, File>();
  t.path.forEach((path, i) => {
    const file = found.get(path) ??
      { path: t.paths[path] ?? "", opened: 0, pids: new Set<number>(), quality: "exact" as Quality };
    file.opened += t.opened[i] ?? 0;
    file.pids.add(t.pid[i] ?? 0);
    const quality = t.quality[i] ?? "exact";
    if (quality !== "exact") file.quality = quality;
    found.set(path, file);
  });
  return [...found.values()];
}

function compare(a: File, b: File, column: Column): number {
  switch (column) {
    case "path": return byText(a.path, b.path);
    case "opened": return a.opened - b.opened;
    case "processes": return a.pids.size - b.pids.size;
  }
}

/** The same order in every language. */
function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function row(file: File, names: Map<number, string>): HTMLElement {
  const by = [...new Set([...file.pids].map((pid) => names.get(pid) || String(pid)))];
  const shown = by.slice(0, 3).join(", ") + (by.length > 3 ? `, ${by.length - 3} more` : "");
  return h("tr", {},
    h("td", { class: "mono path" }, file.path,
      file.quality !== "exact" && h("span", { class: `badge ${file.quality}` }, file.quality)),
    h("td", { class: "number" }, count(file.opened)),
    h("td", { class: "number" }, count(file.pids.size)),
    h("td", { class: "muted" }, shown));
}
