// Ends with a view of the live page what the view has begun: listeners on what outlives it, plots, timers.
// The report has one view, which never ends.

let current: AbortSignal | undefined;

/** Builds something that lasts until the signal. */
export function within<T>(signal: AbortSignal, build: () => T): T {
  const outer = current;
  current = signal;
  try {
    return build();
  } finally {
    current = outer;
  }
}

/** The signal that ends what is being built. */
export function lifetime(): AbortSignal | undefined {
  return current;
}

/** Calls back when what is being built ends. */
export function atEnd(act: () => void): void {
  current?.addEventListener("abort", act, { once: true });
}
