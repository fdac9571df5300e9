// Rows that stay the same elements from one report to the next, so that what is focused or pointed at stays.

export class Keyed<T, R extends { element: HTMLElement; end?(): void }> {
  readonly rows = new Map<string, R>();

  constructor(private readonly parent: HTMLElement, private readonly keyOf: (item: T) => string,
    private readonly create: (item: T) => R, private readonly update: (row: R, item: T) => void) {}

  set(items: T[]): void {
    const present = new Set(items.map(this.keyOf));
    for (const [key, row] of this.rows) {
      if (present.has(key)) continue;
      row.element.remove();
      row.end?.();
      this.rows.delete(key);
    }
    let before: Element | null = this.parent.firstElementChild;
    for (const item of items) {
      const key = this.keyOf(item);
      const row = this.rows.get(key) ?? this.create(item);
      this.rows.set(key, row);
      this.update(row, item);
      if (row.element === before) before = before.nextElementSibling;
      else this.parent.insertBefore(row.element, before);
    }
  }
}
