// The server's API: what it answers, and how it is asked. Names of others stand in queries and paths only in their
// encoded form.

import type { Exit, Page, PublishedValue, Quality, TopReport, Unit } from "../generated";

export type JobState = "running" | "ended" | "broken";

export interface JobValue {
  value: number | null;
  unit: Unit;
  quality: Quality;
}

export interface JobLimit {
  metric: string;
  limit: number;
  exceeded?: boolean;
}

/** A recording of the folders that the server looks into. */
export interface JobRow {
  id: string;
  folder: string;
  command: string[];
  user: string;
  node: string;
  category: string | null;
  labels: Record<string, string>;
  state: JobState;
  /** Why it is broken. */
  reason?: string | null;
  /** Null where it cannot be read. */
  started: string | null;
  ended: string | null;
  exit: Exit | null;
  metrics: Record<string, JobValue>;
  limits: JobLimit[];
}

export type JobPage = Page & { state: JobState; reason?: string | null };

export interface SeriesName {
  metric: string;
  scope: string;
  /** Null where only the program knows it. */
  unit: Unit | null;
  samples: number;
}

/** Columns of a series: each stands for the samples of a stretch. Times in seconds since the epoch. */
export interface Columns {
  time: number[];
  min: number[];
  max: number[];
  last: number[];
}

/** What is new of a job. */
export interface JobNews {
  id: string;
  state: JobState;
  metrics: Record<string, JobValue>;
  samples: { time_ns: number; scope: string; values: Record<string, number> }[];
}

/** An answer that is none, in words for people. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const BASE = "/api/v1";

export const getNode = (signal: AbortSignal): Promise<TopReport> => get("/node", signal);

export interface PublishedList {
  published: PublishedValue[];
  left_out: number;
}

export const getPublished = (signal: AbortSignal): Promise<PublishedList> => get("/published", signal);

export interface JobList {
  jobs: JobRow[];
  /** Recordings that are too many for the list. */
  jobs_left_out?: number;
}

export const getJobs = (signal: AbortSignal): Promise<JobList> => get("/jobs", signal);

/** What was done: of a job since it began, or in a second. */
export interface Amounts {
  seconds: number;
  calls: number;
  read_bytes: number;
  written_bytes: number;
}

export interface BusiestRow {
  /** Its id. */
  job: string;
  name: string;
  total: Amounts;
  /** Null where it is not known. */
  per_second: Amounts | null;
}

export interface BusiestKind {
  rows: BusiestRow[];
  rows_total: number;
  /** Jobs whose recordings hold nothing of this kind. */
  jobs_without: number;
  /** Jobs of which only the rows with most time are held. */
  jobs_cut: number;
}

/** What the jobs that run are busy with. */
export interface BusiestReport {
  /** Jobs that run and fit the filter. */
  jobs: number;
  files: BusiestKind;
  connections: BusiestKind;
  phases: BusiestKind;
  syscalls: BusiestKind;
}

export const getBusiest = (filter: Record<string, string>, signal: AbortSignal): Promise<BusiestReport> =>
  get(`/busiest?${new URLSearchParams(filter)}`, signal);

export async function getJob(id: string, signal: AbortSignal): Promise<JobPage> {
  const page = await get<JobPage>(`/jobs/${encodeURIComponent(id)}`, signal);
  // It comes without samples.
  return { ...page, series: {} };
}

export async function getSeriesNames(job: string, signal: AbortSignal): Promise<SeriesName[]> {
  const names = await get<SeriesName[] | { series: SeriesName[] }>(`/series?${new URLSearchParams({ job })}`, signal);
  return Array.isArray(names) ? names : names.series;
}

export interface SeriesQuery {
  job: string;
  metric: string;
  scope: string;
  /** Nanoseconds since the epoch. */
  from: bigint;
  to: bigint;
  points: number;
}

export async function getSeries(query: SeriesQuery, signal: AbortSignal): Promise<Columns> {
  const { job, metric, scope, from, to, points } = query;
  const words = new URLSearchParams({ job, metric, scope, from: String(from), to: String(to), points: String(points) });
  const answer = await ask(`/series?${words}`, signal);
  return readColumns(await answer.arrayBuffer());
}

/** `u32 n`, then four arrays of n doubles. */
export function readColumns(bytes: ArrayBuffer): Columns {
  const n = bytes.byteLength < 4 ? 0 : new DataView(bytes).getUint32(0, true);
  if (bytes.byteLength !== 4 + 32 * n) throw new ApiError(0, "The server sent a series that is cut short.");
  // What follows the number does not lie where doubles may lie.
  const all = new Float64Array(bytes.slice(4));
  const column = (i: number) => Array.from(all.subarray(i * n, (i + 1) * n));
  return { time: column(0), min: column(1), max: column(2), last: column(3) };
}

/** A time as the API writes it, in nanoseconds since the epoch. */
export function nanoseconds(time: string): bigint {
  const fraction = /\.(\d+)/.exec(time)?.[1] ?? "";
  const whole = Date.parse(time.replace(/\.\d+/, ""));
  return BigInt(Number.isFinite(whole) ? whole : 0) * 1_000_000n + BigInt(fraction.padEnd(9, "0").slice(0, 9));
}

/** Why the server refuses a stream; null if it does not. */
export async function refusal(url: string, signal: AbortSignal): Promise<string | null> {
  const answer = await fetch(url, { signal, headers: { accept: "text/event-stream" } });
  if (!answer.ok) return await reason(answer);
  await answer.body?.cancel();
  return null;
}

export function streamUrl(query: Record<string, string>): string {
  return `${BASE}/stream?${new URLSearchParams(query)}`;
}

async function get<T>(path: string, signal: AbortSignal): Promise<T> {
  return await (await ask(path, signal, "application/json")).json() as T;
}

async function ask(path: string, signal: AbortSignal, accept = "application/octet-stream"): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(BASE + path, { signal, headers: { accept } });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiError(0, "The server cannot be reached.");
  }
  if (answer.ok) return answer;
  throw new ApiError(answer.status, await reason(answer));
}

async function reason(answer: Response): Promise<string> {
  try {
    const { error, expected } = await answer.json() as { error: string; expected?: string };
    return expected ? `${error} (expected: ${expected})` : error;
  } catch {
    return `The server answered with status ${answer.status}.`;
  }
}
