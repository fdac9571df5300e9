#!/usr/bin/env python3
"""What a probe at a function of a program, or at a point that was compiled into it, costs the thread that
comes by.

    bench/trace_user.py WEIGH [--rounds 11] [--count 200000]

Each round runs every way once, in an order that turns, each just after a run without weigh; what is told is
the median over the rounds of the CPU time that each hit adds (and the quartiles). Needs root, and
tests/workloads/bin/probed. The kernel does what a `nop`, or the `push` that functions begin with, does by itself;
any other instruction, as the one behind the beginning, the processor has to do alone, with a trap after it.
"""
import argparse, os, re, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS = os.path.realpath(os.path.join(HERE, "../tests/workloads/bin/probed"))
GIVEN, STEP = f"user:{CALLS}:given", f"usdt:{CALLS}:weigh_test:step"
# Events, options, and whether the program is somebody else's, whom nobody follows.
WAYS = {
    "a function is called, `{arg0}`": ([GIVEN + "{arg0}"], [], False),
    "the same, with `str(arg2)`": ([GIVEN + "{arg0, str(arg2)}"], [], False),
    "the same, with `ustack`": ([GIVEN + "{arg0, ustack}"], [], False),
    "a function returns, `{ret}`": ([GIVEN + "%return{ret}"], [], False),
    "an instruction behind its beginning, `{arg0}`": ([GIVEN + "+1{arg0}"], [], False),
    "a point is passed, `{arg0, arg1}`": ([STEP + "{arg0, arg1}"], [], False),
    "a filter that never matches": ([GIVEN + " if arg0 == 0xffffffffff"], [], False),
    "`sample 1/100`": ([GIVEN + "{arg0} sample 1/100"], [], False),
    "a program that is not followed": ([GIVEN + "{arg0}"], [], True),
}


def calls(count, before=()):
    """The CPU time of a call, and what was said."""
    with tempfile.NamedTemporaryFile("r") as truth:
        environment = dict(os.environ, TRUTH_FILE=truth.name)
        command = [*before, CALLS, str(count)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 5, done.stderr
        return int(re.search(r"calls_cpu_ns=(\d+)", truth.read())[1]) / count, done.stderr


def traced(weigh, count, events, options, is_others):
    asked = [word for event in events for word in ("-e", event)]
    command = [weigh, "trace", *asked, *options, "--buffer", "256MiB", "-o", "/dev/shm/probed.jsonl", "--"]
    if not is_others:
        cost, said = calls(count, command)
        sent, lost = re.search(r"weigh: (\d+) events in [\d.]+ s, (\d+) lost", said).groups()
        assert lost == "0", said
        return cost
    weigh = subprocess.Popen([*command, "sleep", "60"], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    cost, _ = calls(count)
    weigh.terminate()
    weigh.wait()
    return cost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weigh")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--count", type=int, default=200000)
    asked = parser.parse_args()
    bare, added = [], {way: [] for way in WAYS}
    names = list(WAYS)
    for number in range(asked.rounds):
        for way in names[number % len(names) :] + names[: number % len(names)]:
            before, _ = calls(asked.count)
            added[way].append(traced(asked.weigh, asked.count, *WAYS[way]) - before)
            bare.append(before)
    print(f"bare: {statistics.median(bare):.1f} ns for each call with its point")
    for way, costs in added.items():
        low, middle, high = statistics.quantiles(costs, n=4)
        print(f"{way}: {middle:.0f} ns ({low:.0f} to {high:.0f})")
    os.path.exists("/dev/shm/probed.jsonl") and os.remove("/dev/shm/probed.jsonl")


if __name__ == "__main__":
    sys.exit(main())
