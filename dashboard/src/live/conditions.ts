// What a list of jobs is filtered by, and its templates: named conditions, not lists, so that a template takes in
// jobs and values that come later.

import type { JobRow } from "./api";

export const FIELDS = ["user", "category", "label", "state", "folder"] as const;
export type Field = (typeof FIELDS)[number];

/** `q`: words that the command has; `file`: a pattern of names of files. */
const KEYS = [...FIELDS, "q", "file"] as const;
export type Key = (typeof KEYS)[number];

/** A value for each. */
export type Conditions = Partial<Record<Key, string>>;

export interface Template {
  name: string;
  conditions: Conditions;
}

export function readConditions(query: URLSearchParams): Conditions {
  const found: Conditions = {};
  for (const field of KEYS) {
    const value = query.get(field);
    if (value !== null && value !== "") found[field] = value;
  }
  return found;
}

/** The same as words of a URL. */
export function words(conditions: Conditions): Record<string, string | null> {
  return Object.fromEntries(KEYS.map((field) => [field, conditions[field] ?? null]));
}

/** Whether a text has all words of a filter. */
export function hasWords(text: string, words: string | undefined): boolean {
  const lower = text.toLowerCase();
  return (words ?? "").toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

export function fits(job: JobRow, conditions: Conditions): boolean {
  return hasWords(`${job.id} ${job.command.join(" ")}`, conditions.q) &&
    FIELDS.every((field) => conditions[field] === undefined || valuesOf(job, field).includes(conditions[field]));
}

export function valuesOf(job: JobRow, field: Field): string[] {
  switch (field) {
    case "user": return [job.user];
    case "category": return job.category === null ? [] : [job.category];
    case "label": return Object.entries(job.labels).map(([key, value]) => `${key}=${value}`);
    case "state": return [job.state];
    case "folder": return [parent(job.folder)];
  }
}

/** The folder that a recording's folder is in. */
function parent(folder: string): string {
  const end = folder.lastIndexOf("/");
  return end > 0 ? folder.slice(0, end) : folder;
}

/** The values that there are, with how many jobs have each: the commonest first. */
export function offered(jobs: JobRow[], field: Field): [string, number][] {
  const counts = new Map<string, number>();
  for (const value of jobs.flatMap((job) => valuesOf(job, field))) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

const KEY = "weigh.templates";

export function readTemplates(): Template[] {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]") as unknown;
    return Array.isArray(found) ? found.filter(isTemplate) : [];
  } catch {
    return [];
  }
}

function isTemplate(found: unknown): found is Template {
  const template = found as Partial<Template> | null;
  return typeof template?.name === "string" && typeof template.conditions === "object";
}

/** False where the browser keeps nothing. */
export function writeTemplates(templates: Template[]): boolean {
  try {
    localStorage.setItem(KEY, JSON.stringify(templates));
    return true;
  } catch {
    return false;
  }
}
