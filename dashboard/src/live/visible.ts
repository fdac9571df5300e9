// What is in view: only that is drawn and fetched.

import { atEnd } from "../lifetime";

const shown = new WeakMap<Element, (isVisible: boolean) => void>();
let observer: IntersectionObserver | undefined;

/** Calls back when an element comes into view or leaves it. A little beside counts as in view. */
export function onVisible(element: Element, act: (isVisible: boolean) => void): void {
  observer ??= new IntersectionObserver((entries) => {
    for (const entry of entries) shown.get(entry.target)?.(entry.isIntersecting);
  }, { rootMargin: "160px" });
  shown.set(element, act);
  observer.observe(element);
  atEnd(() => observer?.unobserve(element));
}
