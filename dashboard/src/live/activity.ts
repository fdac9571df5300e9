// The busiest files, connections, phases and syscalls of the jobs that run, as their recordings tell; each row with its
// job. Or of one job alone, on its own page.

import { h, replace } from "../dom";
import { amount, count, measured } from "../format";
import { type Amounts, type BusiestKind, type BusiestReport, type BusiestRow, type JobRow, getBusiest } from "./api";
import type { Conditions } from "./conditions";
import { Keyed } from "./keyed";
import { jobLink } from "./link";
import { isWall } from "./route";
import { commandLine, printable, titled } from "./text";
import { onVisible } from "./visible";

const INTERVAL_MS = 2_000;
/** Rows of a kind that are shown at first. */
const MOST = 6;
/** Letters of a name that are shown. */
const ENDING = 80;

type KindName = "files" | "connections" | "phases" | "syscalls";

interface Kind {
  name: KindName;
  title: string;
  /** What a row is called. */
  row: string;
  /** What a job lacks of which nothing is recorded, and what records it. */
  without: string;
  command: string;
  columns: Column[];
}

interface Column {
  title: string;
  name: string;
  help: string;
  text(row: BusiestRow): string;
}

const rate = (amounts: Amounts | null, key: "read_bytes" | "written_bytes" | "calls"): string =>
  amounts === null ? "–" : measured(amounts[key], { unit: key === "calls" ? "count" : "bytes", perSecond: true });

const TIME: Column = { title: "time now", name: "now", help: "Part of the last seconds, or of the time between the last two reports; several processes together can have more than all of it",
  text: ({ per_second: now }) => now === null ? "–" : amount(now.seconds, "ratio") };
const CALLS: Column = { title: "calls", name: "calls", help: "Calls in a second", text: (row) => rate(row.per_second, "calls") };
const SO_FAR: Column = { title: "time so far", name: "total", help: "Since the job began", text: ({ total }) => amount(total.seconds, "seconds") };
const MOVED: Column[] = [
  { title: "read", name: "read", help: "Bytes read in a second", text: (row) => rate(row.per_second, "read_bytes") },
  { title: "written", name: "written", help: "Bytes written in a second", text: (row) => rate(row.per_second, "written_bytes") },
];

const KINDS: Kind[] = [
  { name: "files", title: "Busiest files", row: "file", without: "recorded without files:", command: "weigh run --io", columns: [TIME, ...MOVED, CALLS, SO_FAR] },
  { name: "connections", title: "Busiest connections and pipes", row: "connection", without: "recorded without connections:", command: "weigh run --io",
    columns: [TIME, ...MOVED, CALLS, SO_FAR] },
  { name: "phases", title: "Busiest phases and regions", row: "phase",
    without: "without any so far: programs name them with libweigh; of MPI, OpenMP and NVTX they are heard by", command: "weigh run --regions",
    columns: [TIME, { ...CALLS, title: "ended", help: "How many end in a second" }, SO_FAR] },
  { name: "syscalls", title: "Busiest syscalls", row: "syscall", without: "recorded without syscalls:", command: "weigh run --calls", columns: [TIME, CALLS, SO_FAR] },
];

export class Activity {
  readonly element: HTMLElement;
  private readonly tables: KindTable[];
  private readonly note = h("p", { class: "note" });
  private readonly heading: HTMLElement;
  private readonly cards: HTMLElement;
  private conditions: Conditions = {};
  private commands = new Map<string, string>();
  private isVisible = false;
  private timer = 0;
  private asking: AbortController | null = null;

  /** `job`: the id of the one that is shown, if it is one. */
  constructor(private readonly signal: AbortSignal, private readonly job: string | null = null) {
    this.tables = KINDS.map((kind) => new KindTable(kind, job !== null));
    this.cards = h("div", { class: "cards wide-cards" }, ...this.tables.map((table) => table.element));
    this.heading = h("h2", { id: "activity-title", hidden: job !== null }, job === null ? "What jobs are busy with" : "Busy with now");
    this.element = h("section", { id: "activity", "aria-labelledby": "activity-title", hidden: job === null },
      this.heading, this.cards, this.note);
    onVisible(this.element, (isVisible) => {
      this.isVisible = isVisible;
      if (isVisible) void this.ask();
    });
    this.timer = setInterval(() => void this.ask(), INTERVAL_MS);
    signal.addEventListener("abort", () => {
      clearInterval(this.timer);
      this.asking?.abort();
    });
  }

  /** Which jobs there are: none that is recorded has nothing to show. */
  offer(running: JobRow[]): void {
    this.commands = new Map(running.map((job) => [job.id, commandLine(job.command)]));
    this.element.hidden = running.length === 0;
  }

  filter(conditions: Conditions): void {
    this.conditions = conditions;
    void this.ask();
  }

  /** Asks where somebody sees it. */
  private async ask(): Promise<void> {
    if (!this.isVisible || document.hidden && !isWall()) return;
    this.asking?.abort();
    const asking = new AbortController();
    this.asking = asking;
    const { user, category, label, q, file } = this.conditions;
    const job = this.job ?? undefined;
    const words = Object.entries({ job, user, category, label, q, file }).filter((pair): pair is [string, string] => pair[1] !== undefined);
    try {
      this.take(await getBusiest(Object.fromEntries(words), AbortSignal.any([this.signal, asking.signal])));
    } catch (error) {
      if (!this.signal.aborted && !asking.signal.aborted) replace(this.note, (error as Error).message);
    }
  }

  private take(report: BusiestReport): void {
    const isNone = report.jobs === 0;
    this.cards.hidden = isNone;
    const text = isNone && this.job === null ? "No recorded job that runs fits the filter." : "";
    if (this.note.textContent !== text) replace(this.note, text);
    for (const table of this.tables) table.update(report, this.commands, this.conditions.file !== undefined);
    if (this.job !== null) this.heading.hidden = this.tables.every((table) => table.element.hidden);
  }
}

class KindTable {
  readonly element: HTMLElement;
  private readonly rows: Keyed<BusiestRow, Row>;
  private readonly table: HTMLElement;
  private readonly note = h("p", { class: "note" });
  private readonly more = h("button", { type: "button", class: "more-rows" });
  private isOpen = false;
  private draw = () => {};
  private commands = new Map<string, string>();

  /** `isOfOne`: of one job, which need not be named. */
  constructor(private readonly kind: Kind, private readonly isOfOne: boolean) {
    const { columns, row, title } = kind;
    const body = h("tbody");
    this.rows = new Keyed(body, ({ job, name }) => `${job}\n${name}`, (found) => new Row(found, this.commands.get(found.job) ?? found.job, columns),
      (one, found) => one.update(found));
    const head = (text: string, name: string, help?: string) => h("th", { scope: "col", class: `${help ? "number " : ""}of-${name}`, title: help }, text);
    this.table = h("div", { class: "wide" }, h("table", { class: isOfOne ? "activity of-one" : "activity" },
      h("thead", {}, h("tr", {}, head(row, "name"), head("job", "job"), ...columns.map((c) => head(c.title, c.name, c.help)))), body));
    this.element = h("article", { class: "card", "data-kind": kind.name }, h("h3", {}, title), this.table, this.more, this.note);
    this.more.addEventListener("click", () => {
      this.isOpen = !this.isOpen;
      this.draw();
    });
  }

  update(report: BusiestReport, commands: Map<string, string>, isByName: boolean): void {
    this.draw = () => this.update(report, commands, isByName);
    this.commands = commands;
    const found = report[this.kind.name];
    this.rows.set(found.rows.slice(0, this.isOpen ? undefined : MOST));
    this.more.hidden = found.rows.length <= MOST;
    const more = this.isOpen ? "Show fewer" : `Show ${count(found.rows.length - MOST)} more`;
    if (this.more.textContent !== more) replace(this.more, more);
    this.table.hidden = found.rows.length === 0;
    // A page of one job has no room for what it does not do.
    this.element.hidden = this.isOfOne && found.rows.length === 0;
    const text = this.words(found, report.jobs, isByName);
    const command = found.jobs_without > 0 ? this.kind.command : "";
    if (this.note.textContent !== `${text} ${command}`) replace(this.note, `${text} `, command && h("code", {}, command));
  }

  private words(found: BusiestKind, jobs: number, isByName: boolean): string {
    const { without, row } = this.kind;
    const left = found.rows_total - found.rows.length;
    const jobsWords = (number: number) => (number === 1 ? "1 job is" : `${count(number)} jobs are`);
    return [
      found.rows.length === 0 && found.jobs_without < jobs && (isByName ? `No ${row} fits the filter.` : "Nothing yet."),
      left > 0 && `${count(left)} more take less time.`,
      found.jobs_cut > 0 && "Only those with most time are held.",
      found.jobs_without > 0 && `${found.jobs_without === jobs && jobs > 1 ? "All jobs are" : jobsWords(found.jobs_without)} ${without}`,
    ].filter(Boolean).join(" ");
  }
}

class Row {
  readonly element: HTMLElement;
  private readonly cells: HTMLElement[];

  constructor({ job, name }: BusiestRow, command: string, private readonly columns: Column[]) {
    this.cells = columns.map((column) => h("td", { class: `number of-${column.name}` }));
    this.element = h("tr", { class: "pick" },
      h("td", { class: "of-name" }, h("span", { class: "mono name path", title: titled(name) }, h("bdi", {}, printable(ending(name))))),
      h("td", { class: "of-job" }, jobLink(job, command)), ...this.cells);
  }

  update(row: BusiestRow): void {
    const title = exactly(row);
    this.columns.forEach((column, i) => {
      const cell = this.cells[i] as HTMLElement;
      const text = column.text(row);
      if (cell.textContent !== text) replace(cell, text);
      if (cell.title !== title) cell.title = title;
    });
  }
}

/** Of a long path the end says most. */
function ending(name: string): string {
  const letters = Array.from(name);
  return letters.length > ENDING ? `…${letters.slice(1 - ENDING).join("")}` : name;
}

/** All digits. */
function exactly({ total, per_second: now }: BusiestRow): string {
  const words = ({ seconds, calls, read_bytes: read, written_bytes: written }: Amounts) =>
    `${seconds} s, ${calls} calls` + (read + written > 0 ? `, ${read} bytes read, ${written} bytes written` : "");
  return `so far: ${words(total)}; in a second now: ${now === null ? "not known: regions and syscalls are read once a second while somebody looks at the job's page" : words(now)}`;
}
