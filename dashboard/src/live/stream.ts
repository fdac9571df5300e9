// What the server tells by itself (server-sent events). Begins again with growing pauses when the connection is lost;
// rests while nobody can see the page.

import { within } from "../lifetime";
import { streamUrl } from "./api";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** The server says something at least every 15 s; of the node much more often. */
const SILENCE_MS = 20_000;

export type Connection =
  | { kind: "opening" }
  | { kind: "open" }
  | { kind: "resting" }
  | { kind: "lost"; since: Date; pauseMs: number };

export type Handlers = Record<string, (data: unknown) => void>;

/** The handler that is told when the connection is there again. */
export const RECONNECTED = "reconnected";

export class Stream {
  private source: EventSource | null = null;
  private timer = 0;
  private pause = FIRST_PAUSE_MS;
  private lostSince: Date | null = null;
  private heardAt = 0;
  private wasOpen = false;

  /** `isWall`: of a screen on a wall, which shows even what the browser thinks is hidden. */
  constructor(private readonly query: Record<string, string>, private readonly handlers: Handlers,
    private readonly say: (connection: Connection) => void, isWall: boolean, private readonly signal: AbortSignal) {
    const visible = () => (document.hidden && !isWall ? this.rest() : this.open());
    document.addEventListener("visibilitychange", visible, { signal });
    const watch = setInterval(() => this.listenForSilence(), 5_000);
    signal.addEventListener("abort", () => {
      clearInterval(watch);
      this.close();
    });
    visible();
  }

  private open(): void {
    if (this.source !== null) return;
    clearTimeout(this.timer);
    if (this.lostSince === null) this.say({ kind: "opening" });
    const source = new EventSource(streamUrl(this.query));
    this.source = source;
    source.addEventListener("open", () => this.opened());
    source.addEventListener("error", () => this.lost());
    for (const [name, handle] of Object.entries(this.handlers)) {
      source.addEventListener(name, (event) => {
        this.heardAt = Date.now();
        const data = (event as MessageEvent<string>).data;
        within(this.signal, () => handle(data === "" ? null : JSON.parse(data)));
      });
    }
  }

  private opened(): void {
    // What came in between was missed.
    if (this.wasOpen) within(this.signal, () => this.handlers[RECONNECTED]?.(null));
    this.wasOpen = true;
    this.pause = FIRST_PAUSE_MS;
    this.lostSince = null;
    this.heardAt = Date.now();
    this.say({ kind: "open" });
  }

  private lost(): void {
    this.close();
    this.lostSince ??= new Date();
    this.say({ kind: "lost", since: this.lostSince, pauseMs: this.pause });
    this.timer = setTimeout(() => this.open(), this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
  }

  /** A connection whose other end is gone without a word looks like an open one. */
  private listenForSilence(): void {
    const isQuiet = "node" in this.query && Date.now() - this.heardAt > SILENCE_MS;
    if (this.source?.readyState === EventSource.OPEN && isQuiet) this.lost();
  }

  private rest(): void {
    this.close();
    this.lostSince = null;
    this.say({ kind: "resting" });
  }

  private close(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}
