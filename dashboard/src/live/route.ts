// Which view a URL means, and back. Everything that is chosen on the page stands in its URL.

export type ViewName = "now" | "jobs" | "job";

export interface Route {
  view: ViewName;
  /** Of a job. */
  id: string;
  query: URLSearchParams;
}

export function readRoute(location: Location = window.location): Route {
  const query = new URLSearchParams(location.search);
  const [first, second] = location.pathname.split("/").slice(1);
  if (first !== "jobs") return { view: "now", id: "", query };
  return second ? { view: "job", id: decoded(second), query } : { view: "jobs", id: "", query };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The path of a job's page; null where the browser would make a way up of its name, or nothing at all. */
export function jobPath(id: string): string | null {
  const isNoName = id === "" || id === "." || id === ".." || /\p{Surrogate}/u.test(id);
  return isNoName ? null : `/jobs/${encodeURIComponent(id)}`;
}

/** Says on the page that another view is wanted. */
export const NAVIGATED = "weigh-navigated";

export function go(path: string): void {
  if (path === location.pathname + location.search) return;
  history.pushState(null, "", path + kept(path));
  dispatchEvent(new Event(NAVIGATED));
}

/** A screen on a wall stays one. */
function kept(path: string): string {
  if (!isWall()) return "";
  return path.includes("?") ? "&wall" : "?wall";
}

export function isWall(): boolean {
  return new URLSearchParams(location.search).has("wall");
}

/** Notes in the URL what is chosen, without a step back for each. Null takes a word out. */
export function note(words: Record<string, string | null>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(words)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  // `?wall` has no value.
  const text = query.toString().replace(/(^|&)wall=(?=&|$)/, "$1wall");
  history.replaceState(null, "", location.pathname + (text === "" ? "" : `?${text}`) + location.hash);
}

/** Notes in the URL which section is looked at; "" for none. */
export function replaceHash(id: string): void {
  history.replaceState(null, "", location.pathname + location.search + (id === "" ? "" : `#${id}`));
}
