#!/usr/bin/env python3
"""What the single steps of a probe of `weigh trace` cost whom it is passed by, where all of them are in the
processor's caches, beside programs that do next to nothing: those are what no probe can be cheaper than.

    bench/trace_steps.py WEIGH [--rounds 5] [--count 30000]

A program gives itself a name, over and over: that passes task:task_rename. What is told is the CPU time of a call,
the median (and the quartiles) over 20 times as many rounds, in an order that turns, and what it has more than
without any program in the same round. Needs root, and tests/workloads/bin/renames.
"""
import argparse, contextlib, os, signal, statistics, subprocess, time

import bare_programs

HERE = os.path.dirname(os.path.abspath(__file__))
RENAMES = os.path.join(HERE, "../tests/workloads/bin/renames")
POINT = "task_rename"
# 24 bytes of fields behind a header of 40.
EVENT = POINT + "{id=task, a=task, b=task->mm, c=task->pid, d=task->tgid}"


def renames(count):
    said = subprocess.run([RENAMES, str(count), "20"], capture_output=True, text=True, check=True)
    return [float(line) for line in said.stdout.split() if line.replace(".", "").isdigit()]


@contextlib.contextmanager
def probed(weigh, *options):
    """A stream with the event, into memory."""
    command = [weigh, "trace", "-q", *options, "--system", "--into", "memory: size 64MiB"]
    stream = subprocess.Popen(command)
    try:
        control = [weigh, "trace", "ctl", "--stream", str(stream.pid), "list"]
        while subprocess.run(control, capture_output=True).returncode != 0:
            assert stream.poll() is None, "it has ended"
            time.sleep(0.02)
        yield
    finally:
        stream.send_signal(signal.SIGTERM)
        stream.wait()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("weigh")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--count", type=int, default=30_000)
    asked = arguments.parse_args()
    weigh = asked.weigh
    bare = bare_programs.attached
    ways = {
        "a program that does nothing": lambda: bare([POINT]),
        "4 of them": lambda: bare([POINT] * 4),
        "one that reads the clock": lambda: bare([POINT], bare_programs.CLOCK),
        "a tgid that never matches": lambda: probed(weigh, "-e", EVENT, "-f", "tgid == 4194303"),
        "a field that never matches": lambda: probed(weigh, "-e", EVENT + " if task->pid == 4194303"),
        "sample 1/100": lambda: probed(weigh, "-e", EVENT + " sample 1/100"),
        "an event of 64 bytes": lambda: probed(weigh, "-e", EVENT),
    }
    found = {way: [] for way in ways}
    added = {way: [] for way in ways}
    for turn in range(asked.rounds):
        order = list(ways)
        order = order[turn % len(order):] + order[: turn % len(order)]
        for way in order:
            without = renames(asked.count)
            with ways[way]():
                found[way] += renames(asked.count)
            without = statistics.median(without + renames(asked.count))
            added[way].append(statistics.median(found[way][-20:]) - without)
    for way, times in found.items():
        low, middle, high = statistics.quantiles(times, n=4)
        print(f"{way:28} {middle:.1f} ns a call  ({low:.1f} to {high:.1f})  +{statistics.median(added[way]):.1f} ns")


if __name__ == "__main__":
    main()
