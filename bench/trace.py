#!/usr/bin/env python3
"""What `weigh trace` costs whom: the sender of UDP datagrams over loopback, and weigh itself.

    bench/trace.py WEIGH [--rounds 11] [--count 300000] [--storm 60] [--only through|sender|kept]

Each round runs every way once, in an order that turns; what is told is the median over the rounds of
the sender's CPU time per datagram, as a ratio to the same round without weigh (paired), and the spread
between the quartiles. Needs root, and tests/workloads/bin/datagrams.
"""
import argparse, os, re, signal, statistics, subprocess, sys, tempfile, time

import bare_programs

HERE = os.path.dirname(os.path.abspath(__file__))
SENDS = os.path.join(HERE, "../tests/workloads/bin/datagrams")
# 24 bytes of fields behind a header of 40.
EVENTS = [
    "net:net_dev_queue{id=skb, a=skb, b=skb->dev, c=skb->len, d=skb->data_len}",
    "sock:sock_send_length{id=sk, a=sk, b=sk->sk_socket, c=ret, d=flags}",
    "net:net_dev_start_xmit{id=skb, a=skb, b=dev, c=skb->len, d=skb->data_len}",
    "net:netif_rx{id=skb, a=skb, b=skb->dev, c=skb->len, d=skb->data_len}",
]
POINTS = [event.split("{")[0].split(":")[1] for event in EVENTS]
MISS = ["-f", "tgid == 4194303"]
WAYS = {
    "1 event": (1, []),
    "2 events": (2, []),
    "4 events": (4, []),
    "4 events, of the command alone": (4, ["members"]),
    "4 probes, tgid never matches": (4, MISS),
    "4 probes, a field never matches": (4, ["fields"]),
    "4 probes, sample 1/100": (4, ["--sampling", "sample 1/100"]),
    "4 programs that do nothing, without weigh": (4, ["bare"]),
    "4 events into two buffers": (4, ["--into", "second: size 64MiB"]),
    "4 probes, a predicate that never holds": (4, ["nowhere"]),
    "4 probes, removed again": (4, ["removed"]),
}
# Of about 1 KB, at every system call.
LARGE = "raw_syscalls:sys_enter{" + ", ".join(f"{name}=bytes(regs, 160)" for name in "abcdef") + "}"
SMALL = "raw_syscalls:sys_enter{id, a=id, b=regs}"


def datagrams(count, before=()):
    """The sender's CPU time per datagram."""
    with tempfile.NamedTemporaryFile("r") as truth:
        environment = dict(os.environ, TRUTH_FILE=truth.name)
        command = [*before, SENDS, str(count), "1400", "0"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        spent = int(re.search(r"sender_cpu_ns=(\d+)", truth.read())[1])
        return spent / count, done.stderr


def traced(weigh, count, events, options, output):
    options = list(options)
    chosen = EVENTS[:events]
    scope = ["--system"]
    if options == ["members"]:
        options, scope = [], []
    if options == ["fields"]:
        options = []
        fields = ["skb->len == 3", "ret == 3", "skb->len == 3", "skb->len == 3"]
        chosen = [f"{event} if {test}" for event, test in zip(chosen, fields)]
    if options == ["removed"]:
        return removed(weigh, count, chosen)
    if options == ["bare"]:
        with bare_programs.attached(POINTS[:events]):
            return datagrams(count)[0], 0
    if options == ["nowhere"]:
        options, output = ["--into", "none: size 64MiB if cpu > 60000"], None
    # Room for all: what is lost would be cheaper than what is kept.
    options = [*options, "--buffer", "64MiB"]
    asked = [word for event in chosen for word in ("-e", event)]
    to = ["-o", output] if output else []
    cost, said = datagrams(count, [weigh, "trace", *asked, *options, *scope, *to, "--"])
    return cost, int(re.search(r"weigh: \d+ events in [\d.]+ s, (\d+) lost", said)[1])


def removed(weigh, count, chosen):
    """Probes that were there, and are not any more, while weigh goes on."""
    asked = [word for event in chosen for word in ("-e", event)]
    stream = subprocess.Popen([weigh, "trace", "-q", *asked, "--system", "--into", "none:"])
    control = [weigh, "trace", "ctl", "--stream", str(stream.pid)]
    try:
        for _ in range(500):
            if subprocess.run([*control, "list"], capture_output=True).returncode == 0:
                break
            time.sleep(0.02)
        for number in range(len(chosen)):
            subprocess.run([*control, "remove", str(number)], check=True, capture_output=True)
        return datagrams(count)[0], 0
    finally:
        stream.send_signal(signal.SIGTERM)
        stream.wait()


def calls(weigh, event, seconds, jobs, options):
    """What comes through while so many programs do nothing but system calls: records in a second, bytes, lost, the
    share of a CPU that weigh takes, and its CPU time for each record."""
    load = "; ".join(["dd if=/dev/zero of=/dev/null bs=1 status=none &"] * jobs)
    command = ["timeout", str(seconds), "sh", "-c", load.replace("&;", "&") + " wait"]
    stream = subprocess.Popen(
        [weigh, "trace", "-e", event, *options, "--system", "--for", f"{seconds}s"], stderr=subprocess.PIPE, text=True)
    work = subprocess.Popen(command)
    _, status, used = os.wait4(stream.pid, 0)
    said = stream.stderr.read()
    work.wait()
    counted = re.search(r"weigh: (\d+) events in ([\d.]+) s, (\d+) lost", said)
    events, spent, lost = int(counted[1]), float(counted[2]), int(counted[3])
    cpu = used.ru_utime + used.ru_stime
    return events / spent, lost, cpu / spent, cpu / max(events, 1) * 1e9


def through(asked):
    """How much goes from the kernel to weigh, and what that costs it."""
    cores = os.cpu_count() or 1
    size = 40 + 6 * 160
    room = ["--into", "memory: size 256MiB"]
    ways = {
        "1 KB, one program": (LARGE, 5, 1, room, size),
        "64 bytes, one program, into memory": (SMALL, 5, 1, room, 64),
        "64 bytes, every 4th call, all cores busy": (SMALL + " sample 1/4", asked.storm, cores, room, 64),
    }
    for way, (event, seconds, jobs, options, bytes_each) in ways.items():
        rate, lost, share, each = calls(asked.weigh, event, seconds, jobs, options)
        print(f"{way:42} {rate:.0f} events/s  {rate * bytes_each / 1e6:.0f} MB/s  {lost} lost  "
              f"weigh {share:.2f} CPUs, {each:.0f} ns each", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("weigh")
    arguments.add_argument("--rounds", type=int, default=11)
    arguments.add_argument("--count", type=int, default=300_000)
    arguments.add_argument("--storm", type=int, default=60, help="seconds that all cores are busy")
    arguments.add_argument("--only", choices=["through", "sender", "kept"], help="one of the three parts")
    asked = arguments.parse_args()
    if asked.only in (None, "through"):
        through(asked)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        output = os.path.join(place, "events.parquet")
        if asked.only in (None, "sender"):
            sender(asked, output)
        if asked.only in (None, "kept"):
            reader(asked, output)


def sender(asked, output):
    """What it costs whom is followed."""
    ratios = {way: [] for way in WAYS}
    added = {way: [] for way in WAYS}
    bare = []
    lost = 0
    for turn in range(asked.rounds):
        ways = list(WAYS)
        ways = ways[turn % len(ways):] + ways[: turn % len(ways)]
        for way in ways:
            events, options = WAYS[way]
            base, _ = datagrams(asked.count)
            cost, gone = traced(asked.weigh, asked.count, events, options, output)
            again, _ = datagrams(asked.count)
            bare.append((base + again) / 2)
            ratios[way].append(cost / bare[-1])
            added[way].append(cost - bare[-1])
            lost += gone
        print(f"round {turn + 1} of {asked.rounds}", file=sys.stderr, flush=True)
    print(f"bare: {statistics.median(bare):.0f} ns a datagram; {lost} events lost")
    for way, found in ratios.items():
        low, middle, high = statistics.quantiles(found, n=4)
        print(f"{way:34} {middle:.3f}  ({low:.3f} to {high:.3f})  +{statistics.median(added[way]):.0f} ns")


def kept(weigh, count, output):
    """Records that weigh took in, and its own CPU time, without that of who sends and with all that it does once."""
    asked = [word for event in EVENTS for word in ("-e", event)]
    stream = subprocess.Popen(
        [weigh, "trace", *asked, "--system", "--buffer", "64MiB", "-o", output], stderr=subprocess.PIPE, text=True)
    control = [weigh, "trace", "ctl", "--stream", str(stream.pid), "list"]
    while subprocess.run(control, capture_output=True).returncode != 0:
        time.sleep(0.02)
    datagrams(count)
    stream.send_signal(signal.SIGTERM)
    _, _, used = os.wait4(stream.pid, 0)
    counted = re.search(r"weigh: (\d+) events in [\d.]+ s, (\d+) lost", stream.stderr.read())
    return int(counted[1]), used.ru_utime + used.ru_stime, int(counted[2])


def reader(asked, output):
    """weigh's own CPU time per record: what five times as many records cost more."""
    for name in ["events.parquet", "events.jsonl"]:
        found, lost = [], 0
        path = os.path.join(os.path.dirname(output), name)
        for _ in range(max(5, asked.rounds)):
            small = kept(asked.weigh, asked.count // 5, path)
            large = kept(asked.weigh, asked.count, path)
            found.append((large[1] - small[1]) / (large[0] - small[0]) * 1e9)
            lost += small[2] + large[2]
        bytes_each = os.path.getsize(path) / large[0]
        low, middle, high = statistics.quantiles(found, n=4)
        print(f"weigh's CPU time per record, {name[7:]}: {middle:.0f} ns  ({low:.0f} to {high:.0f})  "
              f"{bytes_each:.1f} bytes each, {lost} lost", flush=True)


if __name__ == "__main__":
    main()
