// The keys of the page, and what tells of them.

import { h } from "../dom";
import { go } from "./route";

const WORDS: [string, string][] = [
  ["/", "to the filter"],
  ["j, k", "next row, row before"],
  ["Enter", "open the row's job"],
  ["n", "the node, now"],
  ["l", "the list of jobs"],
  ["Esc", "empty the filter and leave it; close this"],
  ["+ - 0 ← →", "of a job's time: closer, wider, all, earlier, later"],
  ["?", "these words"],
];

export class Keys {
  filter: HTMLInputElement | null = null;
  rows: (() => HTMLElement[]) | null = null;
  steer: ((key: string) => boolean) | null = null;
  readonly button = h("button", { type: "button", "aria-label": "Keys", title: "Keys (?)" }, "?");
  readonly help: HTMLDialogElement;

  constructor() {
    const close = h("button", { type: "button" }, "Close");
    this.help = h("dialog", { class: "keys", "aria-label": "Keys" }, h("h2", {}, "Keys"),
      h("dl", {}, ...WORDS.map(([key, word]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, word)))), close);
    close.addEventListener("click", () => this.help.close());
    this.button.addEventListener("click", () => this.help.showModal());
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** Another view has others. */
  reset(): void {
    this.filter = null;
    this.rows = null;
    this.steer = null;
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || this.help.open) return;
    const target = event.target instanceof HTMLElement ? event.target : null;
    const isTyping = target?.matches("input, select, textarea") ?? false;
    if (event.key === "Escape" && isTyping) leave(target);
    else if (isTyping || !this.act(event.key)) return;
    event.preventDefault();
  }

  private act(key: string): boolean {
    switch (key) {
      case "/": this.filter?.focus(); return this.filter !== null;
      case "?": this.help.showModal(); return true;
      case "j": return this.step(1);
      case "k": return this.step(-1);
      case "n": go("/"); return true;
      case "l": go("/jobs"); return true;
      default: return this.steer?.(key) ?? false;
    }
  }

  private step(by: number): boolean {
    const rows = this.rows?.() ?? [];
    const links = rows.flatMap((row) => row.querySelector<HTMLElement>("a") ?? []);
    const now = links.findIndex((one) => one === document.activeElement);
    const next = links[now < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(now + by, 0), links.length - 1)];
    next?.focus();
    return next !== undefined;
  }
}

function leave(field: HTMLElement | null): void {
  if (field instanceof HTMLInputElement && field.type === "search" && field.value !== "") {
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  field?.blur();
}
