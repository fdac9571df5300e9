// The frame of every view: where one can go, how the connection is, what keys there are.

import { append, h, replace } from "../dom";
import { clockOf } from "./cores";
import { Keys } from "./keys";
import { link } from "./link";
import { isWall } from "./route";
import { type Connection, type Handlers, Stream } from "./stream";

export class Shell {
  readonly main = h("main", {});
  private readonly status = h("p", { class: "connection", role: "status" });
  private readonly links = [link("/", { "data-view": "now" }, "Now"), link("/jobs", { "data-view": "jobs" }, "Jobs")];
  private readonly keys = new Keys();

  constructor(root: HTMLElement) {
    append(root,
      h("header", { class: "bar" }, h("strong", { class: "brand" }, "weigh"), h("nav", { "aria-label": "Views" }, ...this.links),
        this.status, this.keys.button),
      this.main, this.keys.help);
  }

  /** A fresh place for a view. */
  begin(view: string): HTMLElement {
    for (const element of this.links) {
      const isThis = element.dataset.view === view || (view === "job" && element.dataset.view === "jobs");
      if (isThis) element.setAttribute("aria-current", "page");
      else element.removeAttribute("aria-current");
    }
    this.keys.reset();
    replace(this.status);
    const place = h("div", { class: `view ${view}` });
    replace(this.main, place);
    return place;
  }

  title(text: string): void {
    document.title = `${text} – weigh`;
  }

  /** What `/` brings the cursor to. */
  filter(element: HTMLInputElement): void {
    this.keys.filter = element;
  }

  /** What `j`, `k` and Enter go through. */
  rows(list: () => HTMLElement[]): void {
    this.keys.rows = list;
  }

  /** What other keys do in this view; true if the key was one of them. */
  steer(act: (key: string) => boolean): void {
    this.keys.steer = act;
  }

  stream(query: Record<string, string>, handlers: Handlers, signal: AbortSignal): void {
    const ended = (connection: Connection) => !signal.aborted && this.say(connection);
    new Stream(query, handlers, ended, isWall(), signal);
  }

  /** There is nothing more to wait for. */
  ended(): void {
    this.status.className = "connection";
    replace(this.status, "ended");
  }

  say(connection: Connection): void {
    this.status.className = `connection ${connection.kind}`;
    replace(this.status, words(connection));
  }
}

function words(connection: Connection): string {
  switch (connection.kind) {
    case "opening": return "connecting …";
    case "open": return "live";
    case "resting": return "resting";
    case "lost": return `no connection since ${clockOf(connection.since)}; next try in ${Math.ceil(connection.pauseMs / 1000)} s` +
      (connection.why === null ? "" : `: ${connection.why}`);
  }
}
