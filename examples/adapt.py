#!/usr/bin/env python3
"""A reader that adapts: takes few events of a stream while there are many, and all of them while there are few.

It reads the reports of a `weigh trace` that runs, and asks that stream for another sampling when the rate of its first
event passes a bound, as an autofocus does. `weigh trace --when` does the same by itself; here a program decides.

    weigh trace -e 'syscalls:sys_enter_write{}' --rate 'by event' -q -o writes.jsonl &
    examples/adapt.py PID 1000
"""

import sys
from typing import Any, Dict, Optional

import weigh


def rate(report: Dict[str, Any]) -> int:
    """Events in the last second that is over."""
    rows = report["found"][0]["rows"]
    return rows[0]["rate"]["last"] if rows else 0


def sampling_for(last: int, bound: int) -> Optional[str]:
    """About as many as the bound, or all of them."""
    return None if last <= bound else f"sample 1/{-(-last // bound)}"


def main(pid: int, bound: int) -> None:
    taken: Optional[str] = None
    with weigh.reports(pid, every=0.2) as reports, weigh.trace(pid) as stream:
        for report in reports:
            # What is sampled already is counted as it was taken: so many times as many happened.
            times = int(taken.split("/")[1]) if taken else 1
            wanted = sampling_for(rate(report) * times, bound)
            # A little more or less is no reason.
            if (wanted is None) != (taken is None):
                try:
                    stream.control({"sample": {"id": 0, "rule": wanted}})
                except ValueError:
                    # The stream has ended meanwhile.
                    break
                taken = wanted
                print(f"{report['seconds']:.1f} s: {wanted or 'all'}", flush=True)
            lost = report["found"][0]["lost_total"]
            missed = report.get("reports_missed_total", 0)
            if lost or missed:
                print(f"{lost} events lost, {missed} reports missed", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
