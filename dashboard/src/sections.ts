// The sections of a run's page, in their order: the report has them once, the live page again as the run goes on.

import { callsSection } from "./calls";
import { countersSection } from "./counters";
import { h } from "./dom";
import { filesSection } from "./files";
import type { Page } from "./generated";
import { ioSection } from "./io";
import { ioTimeDetails, ioTimeSection } from "./io-time";
import { type Phases, phasesSection } from "./phases";
import { flatSection, regionsSection, valuesSection } from "./regions";
import { collectorsSection, gpusSection, hostSection, limitsSection, metricsSection, snapshotsSection } from "./tables";
import { timelineSection } from "./timeline";
import { toolbar } from "./toolbar";
import type { View } from "./view";

type Section = HTMLElement | null;

/** What shares the view of time, around the charts of the series. */
export function overTime(page: Page, view: View, phases: Phases, series: Section): Section {
  const bands = phasesSection(page, phases, view);
  const lower = belowCharts(page, view, phases);
  const isEmpty = [bands, series, ...lower].every((section) => section === null);
  return isEmpty ? null : h("div", { class: "over-time" }, toolbar(view), bands, series, ...lower);
}

/** What stands below the charts and moves with them. */
export function belowCharts(page: Page, view: View, phases: Phases): Section[] {
  return [countersSection(page, view, phases), timelineSection(page, view), ioTimeSection(page, view)];
}

export function details(page: Page, view: View, phases: Phases): Section[] {
  return [
    regionsSection(page, phases),
    flatSection(page),
    valuesSection(page),
    filesSection(page),
    ioSection(page),
    ioTimeDetails(page, view),
    callsSection(page),
    gpusSection(page),
    limitsSection(page),
    snapshotsSection(page),
    metricsSection(page),
    collectorsSection(page),
    hostSection(page),
  ];
}
