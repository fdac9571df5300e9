// Folded sections that are open stay so when they are drawn again; the last that was opened stands in the URL (`#files`).

import { replaceHash } from "./route";

export class SectionLink {
  private readonly open = new Set<string>();
  private wanted = location.hash.slice(1);

  constructor(root: HTMLElement, signal: AbortSignal) {
    // The event does not bubble.
    root.addEventListener("toggle", (event) => this.toggled(event.target), { capture: true, signal });
  }

  private toggled(target: EventTarget | null): void {
    if (!(target instanceof HTMLDetailsElement) || !target.matches("section[id] > details")) return;
    const id = target.parentElement?.id ?? "";
    if (target.open && !this.open.has(id)) {
      this.open.add(id);
      replaceHash(id);
    } else if (!target.open && this.open.delete(id) && location.hash === `#${id}`) replaceHash("");
  }

  /** After a drawing. What the URL names is opened once, and brought into view. */
  restore(): void {
    const named = this.wanted === "" ? null : document.getElementById(this.wanted);
    if (named?.matches("section") === true) {
      this.open.add(this.wanted);
      this.wanted = "";
      requestAnimationFrame(() => document.getElementById(named.id)?.scrollIntoView());
    }
    for (const id of this.open) document.getElementById(id)?.querySelector(":scope > details")?.setAttribute("open", "");
  }
}
