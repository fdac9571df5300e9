// A small server that speaks the API of `weigh serve`, for tests of the live page: what it answers is set from outside.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const dist = new URL("../dist/", import.meta.url);
const PAGE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>weigh</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="/assets/none"><link rel="stylesheet" href="/assets/live.css"></head>
<body><div id="weigh"></div><script src="/assets/live.js"></script></body></html>`;

const NONE = { rows: [], rows_total: 0, jobs_without: 0, jobs_cut: 0 };

export class FakeServer {
  /** What `/node` answers; a function gets the number of the report. */
  node = null;
  jobs = [];
  /** What `/published` answers. */
  published = null;
  /** What `/busiest` answers. */
  busiest = { jobs: 0, files: NONE, connections: NONE, phases: NONE, syscalls: NONE };
  pages = new Map();
  /** By job and name of the series: `{ time: seconds since the epoch, value }`. */
  series = new Map();
  /** Paths that were asked for. */
  asked = [];
  /** Whether streams break off, or are refused. */
  isDown = false;
  isLocked = false;
  streams = new Set();
  sockets = new Set();

  async start() {
    this.assets = {
      "/assets/live.js": ["text/javascript", await readFile(new URL("live.js", dist))],
      "/assets/live.css": ["text/css", await readFile(new URL("live.css", dist))],
      "/assets/none": ["image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'/>"],
    };
    this.server = createServer({ maxHeaderSize: 1 << 20 }, (request, response) => this.answer(request, response));
    this.server.on("connection", (socket) => {
      this.sockets.add(socket);
      socket.on("close", () => this.sockets.delete(socket));
    });
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
  }

  stop() {
    this.cut();
    this.server.close();
  }

  /** Breaks every connection. */
  cut() {
    for (const socket of this.sockets) socket.destroy();
  }

  /** To all streams that asked for it. */
  tell(event, data) {
    for (const { query, response } of this.streams) {
      if (["node", "change"].includes(event) && !query.has("node") || event === "job" && query.get("job") !== data.id) continue;
      response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    }
  }

  answer(request, response) {
    const url = new URL(request.url, this.origin);
    this.asked.push(url.pathname + url.search);
    response.setHeader("Content-Security-Policy", "default-src 'self'");
    const asset = this.assets[url.pathname];
    if (asset) return send(response, 200, ...asset);
    if (!url.pathname.startsWith("/api/v1/")) return send(response, 200, "text/html; charset=utf-8", PAGE);
    const parts = url.pathname.slice("/api/v1/".length).split("/").map(decodeURIComponent);
    switch (parts[0]) {
      case "node": return this.node === null ? missing(response) : json(response, this.node);
      case "jobs": return parts.length === 1 ? json(response, { schema: "weigh.jobs/1", jobs: this.jobs }) : this.job(parts[1], response);
      case "published": return this.published === null ? missing(response) : json(response, this.published);
      case "busiest": return json(response, this.busiest);
      case "series": return this.oneSeries(url.searchParams, response);
      case "stream": return this.stream(url.searchParams, request, response);
      default: return missing(response);
    }
  }

  job(id, response) {
    const page = this.pages.get(id);
    return page === undefined ? missing(response) : json(response, { ...page, series: [] });
  }

  oneSeries(query, response) {
    const job = query.get("job");
    if (!query.has("metric")) {
      const names = [...this.series].filter(([key]) => key.startsWith(`${job} `)).map(([key, rows]) =>
        ({ metric: key.slice(job.length + 1), scope: "job", unit: "count", samples: rows.time.length }));
      return json(response, names);
    }
    const rows = this.series.get(`${job} ${query.get("metric")}`);
    if (rows === undefined) return missing(response);
    const [from, to, points] = [Number(query.get("from")) / 1e9, Number(query.get("to")) / 1e9, Number(query.get("points"))];
    return send(response, 200, "application/octet-stream", Buffer.from(columns(rows, from, to, points)));
  }

  stream(query, request, response) {
    if (this.isDown) return request.socket.destroy();
    if (this.isLocked) {
      return send(response, 401, "application/json", JSON.stringify({ schema: "weigh.error/1", error: "no token", expected: "the address that was printed" }));
    }
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(": hello\n\n");
    const stream = { query, response };
    this.streams.add(stream);
    request.on("close", () => this.streams.delete(stream));
  }
}

/** The least, the greatest and the last of each stretch. */
function columns({ time, value }, from, to, points) {
  const found = new Map();
  time.forEach((at, i) => {
    if (at < from || at > to) return;
    const column = Math.min(Math.floor((at - from) / (to - from) * points), points - 1);
    const known = found.get(column);
    if (known === undefined) found.set(column, { time: at, min: value[i], max: value[i], last: value[i] });
    else Object.assign(known, { min: Math.min(known.min, value[i]), max: Math.max(known.max, value[i]), last: value[i] });
  });
  const rows = [...found.values()];
  const bytes = new ArrayBuffer(4 + 32 * rows.length);
  const view = new DataView(bytes);
  view.setUint32(0, rows.length, true);
  ["time", "min", "max", "last"].forEach((name, column) => rows.forEach((row, i) =>
    view.setFloat64(4 + 8 * (column * rows.length + i), row[name], true)));
  return bytes;
}

function send(response, status, type, body) {
  response.writeHead(status, { "Content-Type": type });
  response.end(body);
}

function json(response, data) {
  send(response, 200, "application/json", JSON.stringify(data));
}

function missing(response) {
  send(response, 404, "application/json", JSON.stringify({ schema: "weigh.error/1", error: "no such thing here", expected: "the id of a job" }));
}
