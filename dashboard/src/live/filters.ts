// The controls above the list of jobs: a choice for each field among the values that there are, words, templates.

import { h, replace } from "../dom";
import { count } from "../format";
import type { JobRow } from "./api";
import { type Conditions, FIELDS, type Field, type Key, type Template, fits, offered, readTemplates, writeTemplates } from "./conditions";
import { printable } from "./text";

const ANY: Record<Field, string> = {
  user: "any user", category: "any category", label: "any label", state: "any state", folder: "any folder",
};
/** What a view filters by. */
export interface FilterForm {
  fields: readonly Field[];
  /** What the words are looked for in. */
  hint: string;
  hasFile: boolean;
}

const OF_JOBS: FilterForm = { fields: FIELDS, hint: "Filter by command or id", hasFile: false };

/** So many values are offered at most. */
const MOST = 200;

export class Filters {
  readonly search: HTMLInputElement;
  private readonly file = h("input", { type: "search", class: "file-pattern", placeholder: "file or address, as *.h5",
    "aria-label": "Filter by file or address", title: "A part of the name; with * and ? the whole name" });
  private readonly selects = new Map<Field, HTMLSelectElement>();
  private readonly templates = h("div", { class: "templates", role: "group", "aria-label": "Templates" });
  private readonly save = h("button", { type: "button" }, "Keep as template …");
  private readonly clear = h("button", { type: "button" }, "Clear");
  readonly element: HTMLElement;
  private jobs: JobRow[] = [];

  constructor(private conditions: Conditions, private readonly changed: (conditions: Conditions) => void,
    private readonly form = OF_JOBS) {
    this.search = h("input", { type: "search", placeholder: form.hint, "aria-label": form.hint });
    for (const field of form.fields) {
      const select = h("select", { "aria-label": `Filter by ${field}` });
      select.addEventListener("change", () => this.choose({ ...this.conditions, [field]: select.value || undefined }));
      this.selects.set(field, select);
    }
    this.search.value = conditions.q ?? "";
    this.search.addEventListener("input", () => this.choose({ ...this.conditions, q: this.search.value || undefined }));
    this.file.value = conditions.file ?? "";
    this.file.addEventListener("input", () => this.choose({ ...this.conditions, file: this.file.value || undefined }));
    this.clear.addEventListener("click", () => this.choose({}));
    this.save.addEventListener("click", () => this.askName());
    this.element = h("div", { class: "filters" },
      h("div", { class: "controls" }, this.search, ...this.selects.values(), form.hasFile && this.file, this.clear, this.save), this.templates);
    this.draw();
  }

  /** There are other jobs, and with them other values. */
  offer(jobs: JobRow[]): void {
    this.jobs = jobs;
    this.draw();
  }

  private choose(conditions: Conditions): void {
    this.conditions = Object.fromEntries(Object.entries(conditions).filter(([, value]) => value !== undefined));
    if (this.search.value !== (this.conditions.q ?? "")) this.search.value = this.conditions.q ?? "";
    if (this.file.value !== (this.conditions.file ?? "")) this.file.value = this.conditions.file ?? "";
    this.draw();
    this.changed(this.conditions);
  }

  private draw(): void {
    for (const [field, select] of this.selects) this.drawSelect(field, select);
    const isEmpty = Object.keys(this.conditions).length === 0;
    this.clear.hidden = isEmpty;
    this.save.hidden = isEmpty;
    this.drawTemplates();
  }

  private drawSelect(field: Field, select: HTMLSelectElement): void {
    if (document.activeElement === select && select.options.length > 1) return;
    const chosen = this.conditions[field];
    const values = offered(this.jobs, field).slice(0, MOST);
    if (chosen !== undefined && !values.some(([value]) => value === chosen)) values.push([chosen, 0]);
    const options = values.map(([value, jobs]) => h("option", { value }, `${printable(value, 60)} (${count(jobs)})`));
    replace(select, h("option", { value: "" }, ANY[field]), ...options);
    select.value = chosen ?? "";
    // Where all jobs have the same value there is nothing to choose.
    const isAll = values.length === 1 && values[0]?.[1] === this.jobs.length;
    select.hidden = chosen === undefined && (values.length === 0 || isAll);
  }

  private drawTemplates(): void {
    const now = JSON.stringify(sorted(this.conditions));
    replace(this.templates, ...readTemplates().filter((template) => this.knows(template)).map((template) => {
      const number = this.jobs.filter((job) => fits(job, template.conditions)).length;
      const choose = h("button", { type: "button", "aria-pressed": String(JSON.stringify(sorted(template.conditions)) === now),
        title: Object.entries(template.conditions).map(([field, value]) => `${field}: ${printable(value, 80)}`).join(", ") },
        printable(template.name, 40), h("span", { class: "muted" }, ` ${count(number)}`));
      choose.addEventListener("click", () => this.choose(template.conditions));
      const drop = h("button", { type: "button", class: "drop", "aria-label": `Forget the template ${printable(template.name, 40)}`, title: "Forget" }, "×");
      drop.addEventListener("click", () => this.keep(readTemplates().filter((other) => other.name !== template.name)));
      return h("span", { class: "template" }, choose, drop);
    }));
  }

  /** Whether all that a template says is to be seen here. */
  private knows({ conditions }: Template): boolean {
    const known: Key[] = [...this.form.fields, "q", ...(this.form.hasFile ? ["file" as const] : [])];
    return Object.keys(conditions).every((key) => known.includes(key as Key));
  }

  /** In the row of buttons: the name of the template. */
  private askName(): void {
    const name = h("input", { type: "search", placeholder: "Name of the template", "aria-label": "Name of the template" });
    const form = h("form", { class: "naming" }, name, h("button", {}, "Keep"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const template: Template = { name: name.value.trim() || "unnamed", conditions: this.conditions };
      this.keep([...readTemplates().filter((other) => other.name !== template.name), template]);
    });
    this.templates.append(form);
    name.focus();
  }

  private keep(templates: Template[]): void {
    const isKept = writeTemplates(templates);
    this.draw();
    if (!isKept) this.templates.append(h("span", { class: "muted" }, "This browser keeps nothing for this page."));
  }
}

function sorted(conditions: Conditions): [string, string][] {
  return Object.entries(conditions).sort(([a], [b]) => (a < b ? -1 : 1));
}
