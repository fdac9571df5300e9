// What clients of the agent have published: scripts, programs, streams of weigh trace; of a stream what it was asked stands above its values.

import { h, replace } from "../dom";
import { amount, count, real } from "../format";
import type { PublishedValue } from "../generated";
import { Keyed } from "./keyed";
import { type Reading, Plot } from "./reading";
import { printable, titled } from "./text";

const MOST = 60;
const COLUMNS = ["value", "of", "latest"];

/** Values of one client, and of one thing that a stream was asked. */
interface ValueGroup {
  key: string;
  values: PublishedValue[];
}

export class Published {
  readonly element: HTMLElement;
  private readonly groups: Keyed<ValueGroup, GroupRows>;
  private readonly note = h("p", { class: "note" });

  constructor(id = "published") {
    const heads = h("thead", {}, h("tr", {}, ...COLUMNS.map((title) => h("th", { scope: "col" }, title))));
    const table = h("table", { class: "readings sessions published" }, heads);
    this.groups = new Keyed(table, ({ key }) => key, (group) => new GroupRows(group), (rows, group) => rows.update(group.values), heads);
    this.element = h("section", { id, "aria-labelledby": `${id}-title`, hidden: true },
      h("h2", { id: `${id}-title` }, "Published values"), h("div", { class: "wide" }, table), this.note);
  }

  update(values: PublishedValue[], leftOut: number): void {
    this.element.hidden = values.length === 0;
    this.groups.set(grouped(values.slice(0, MOST)));
    const more = values.length - Math.min(values.length, MOST) + leftOut;
    const text = more === 0 ? "" : `${count(more)} more are in weigh agent read pushed.`;
    if (this.note.textContent !== text) replace(this.note, text);
  }
}

/** Where a stream has several tables each is asked for by itself. */
function grouped(values: PublishedValue[]): ValueGroup[] {
  const groups = new Map<string, PublishedValue[]>();
  for (const value of values) {
    const stream = value.query == null ? "" : value.scope.split(":").slice(0, 2).join(":");
    const key = JSON.stringify([stream !== "", value.user, stream]);
    groups.set(key, [...groups.get(key) ?? [], value]);
  }
  // Streams first.
  return [...groups].map(([key, of]) => ({ key, values: of })).sort((a, b) => Number(a.values[0]?.query == null) - Number(b.values[0]?.query == null));
}

class GroupRows {
  readonly element: HTMLElement;
  private readonly rows: Keyed<PublishedValue, ValueRow>;

  constructor({ values: [first] }: ValueGroup) {
    const user = printable(first?.user ?? "not known");
    const query = first?.query;
    const words = query == null ? [`by ${user}`] :
      [h("code", { title: titled(query.asked) }, printable(query.asked)), h("span", { class: "muted" }, ` weigh trace ${first?.pid ?? ""} of ${user}`)];
    this.element = h("tbody", {}, h("tr", { class: "group" }, h("th", { colspan: COLUMNS.length, scope: "rowgroup" }, ...words)));
    this.rows = new Keyed(this.element, (value) => `${value.metric} ${value.scope}`, (value) => new ValueRow(value), (row, value) => row.update(value),
      this.element.firstElementChild);
  }

  update(values: PublishedValue[]): void {
    this.rows.set(values);
  }

  end(): void {
    this.rows.set([]);
  }
}

class ValueRow {
  readonly element: HTMLElement;
  private readonly plot = new Plot();

  constructor({ metric, scope, query }: PublishedValue) {
    const about = query == null ? scope : scope.split(":").slice(2).join(":");
    this.element = h("tr", {}, h("th", { scope: "row", class: "mono name", title: titled(metric) }, printable(metric)),
      h("td", { class: "mono name", title: titled(scope), ...(about === "" ? {} : { "data-title": "of" }) }, printable(about)),
      h("td", { "data-title": "latest" }, h("div", { class: "cell" }, this.plot.spark.canvas, this.plot.value)));
  }

  update(value: PublishedValue): void {
    this.plot.set(reading(value));
  }

  end(): void {
    this.plot.spark.end();
  }
}

/** A count of a client's own need not be whole, and no value has to be of a size that fits here. */
function reading({ value, unit, time, user }: PublishedValue): Reading {
  const isPlain = unit == null || unit === "count" || Math.abs(value) >= 1e15;
  const text = isPlain ? real(value) : amount(value, unit);
  return { number: value, text, title: `${value}${unit == null ? "" : ` ${unit}`}, published at ${time} by ${printable(user ?? "somebody")}`, quality: "exact" };
}
