// The report: reads the data that stands in the page and draws it.

import "./report.css";

import { callsSection } from "./calls";
import { seriesSection } from "./charts";
import { adviceSection, digest } from "./digest";
import { append, h, openForPrinter } from "./dom";
import { filesSection } from "./files";
import type { Page } from "./generated";
import { banners, header } from "./header";
import { countersSection } from "./counters";
import { ioSection } from "./io";
import { ioTimeDetails, ioTimeSection } from "./io-time";
import { Phases, phasesSection } from "./phases";
import { flatSection, regionsSection, valuesSection } from "./regions";
import { collectorsSection, hostSection, limitsSection, metricsSection, snapshotsSection } from "./tables";
import { timelineSection } from "./timeline";
import { toolbar } from "./toolbar";
import { View } from "./view";

function draw(page: Page, root: HTMLElement): void {
  // A job that took no time has nothing to zoom into, but the axes want a length.
  const view = new View(page.duration > 0 ? page.duration : 1);
  const phases = new Phases(page);
  const bands = phasesSection(page, phases, view);
  const series = seriesSection(page, view, phases);
  const counters = countersSection(page, view, phases);
  const timeline = timelineSection(page, view);
  const ioTime = ioTimeSection(page, view);
  append(root, header(page), h("main", {},
    ...banners(page),
    digest(page),
    adviceSection(page),
    (bands || series || timeline || ioTime) &&
      h("div", { class: "over-time" }, toolbar(view), bands, series, counters, timeline, ioTime),
    regionsSection(page, phases),
    flatSection(page),
    valuesSection(page),
    filesSection(page),
    ioSection(page),
    ioTimeDetails(page, view),
    callsSection(page),
    limitsSection(page),
    snapshotsSection(page),
    metricsSection(page),
    collectorsSection(page),
    hostSection(page)));
  openForPrinter();
}

const data = document.getElementById("weigh-data")?.textContent;
const root = document.getElementById("weigh");
if (data && root) draw(JSON.parse(data) as Page, root);
