// Words about regions that several parts of the page have.

import type { Quality } from "./generated";

/** What found no room in a program's profile has this name. */
export const OTHER = "(other)";

export function isEstimate(quality: Quality): boolean {
  return quality !== "exact";
}

/** Why a time is not exact. */
export function qualityWords(quality: Quality): string {
  switch (quality) {
    case "sampled": return "of it, or of a region inside, one call in 64 is timed";
    case "estimated": return "read while it was written, or of calls that found no room";
    case "unavailable": return "not known";
    case "exact": return "every call was timed";
  }
}
