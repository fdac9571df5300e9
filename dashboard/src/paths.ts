// Paths as people read them.

import type { Page } from "./generated";

/** A path from the job's directory on, if it is below it: as `weigh io` has it. */
export function relative(page: Page, path: string): string {
  const folder = page.job.cwd === "/" ? "" : `${page.job.cwd}/`;
  return folder !== "" && path.startsWith(folder) && path.length > folder.length ? path.slice(folder.length) : path;
}

/** The paths that have a row of their own, as in `weigh io`. */
export function ownPaths(page: Page): string[] {
  const { path, paths, fold } = page.files;
  return path.flatMap((index, row) => (fold[row] === "own" ? [paths[index] ?? ""] : []));
}
