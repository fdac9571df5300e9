// Links within the page, which change the view without loading it again.

import { h } from "../dom";
import { go, jobPath } from "./route";
import { printable, titled } from "./text";

type Child = Node | string | null | false;

export function link(path: string, attributes: Record<string, string>, ...children: Child[]): HTMLElement {
  const element = h("a", { href: path, ...attributes }, ...children);
  element.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(path);
  });
  return element;
}

/** A job by its command; text alone where its name can be in no path. */
export function jobLink(id: string, text: string): HTMLElement {
  const path = jobPath(id);
  const attributes = { class: "mono name job-link", title: titled(text) };
  if (path !== null) return link(path, attributes, printable(text));
  return h("span", { ...attributes, title: `the id ${id} can be in no address` }, printable(text));
}
