// The report: reads the data that stands in the page and draws it.

import "./report.css";

import { seriesSection } from "./charts";
import { adviceSection, digest } from "./digest";
import { append, h, openForPrinter } from "./dom";
import type { Page } from "./generated";
import { banners, header } from "./header";
import { Phases } from "./phases";
import { details, overTime } from "./sections";
import { View } from "./view";

function draw(page: Page, root: HTMLElement): void {
  // A job that took no time has nothing to zoom into, but the axes want a length.
  const view = new View(page.duration > 0 ? page.duration : 1);
  const phases = new Phases(page);
  append(root, header(page), h("main", {},
    ...banners(page),
    digest(page),
    adviceSection(page),
    overTime(page, view, phases, seriesSection(page, view, phases)),
    ...details(page, view, phases)));
  openForPrinter();
}

const data = document.getElementById("weigh-data")?.textContent;
const root = document.getElementById("weigh");
if (data && root) draw(JSON.parse(data) as Page, root);
