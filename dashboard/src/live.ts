// The live page: the node now, the list of jobs, one job. Reads all of it from the server that it came from.

import "./report.css";
import "./live.css";

import { openForPrinter } from "./dom";
import { within } from "./lifetime";
import { showHistory } from "./live/history";
import { showJob } from "./live/job";
import { showNow } from "./live/now";
import { NAVIGATED, readRoute } from "./live/route";
import { Shell } from "./live/shell";

function start(): void {
  const root = document.getElementById("weigh") ?? document.body;
  const shell = new Shell(root);
  let ended = new AbortController();
  const show = () => {
    ended.abort();
    ended = new AbortController();
    const { signal } = ended;
    const route = readRoute();
    const place = shell.begin(route.view);
    within(signal, () => {
      if (route.view === "now") showNow(shell, place, signal);
      else if (route.view === "jobs") showHistory(shell, place, signal);
      else showJob(shell, place, route.id, signal);
    });
  };
  addEventListener(NAVIGATED, show);
  addEventListener("popstate", show);
  openForPrinter();
  show();
}

if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();
