#!/usr/bin/env python3
"""What it costs to keep packets: `tcpdump` against `weigh trace packets`, in turns.

    bench/packets.py WEIGH [--rounds 5] [--count 300000] [--snaps 96,500,1000,4000] [--ways tcpdump,in,...] [--json FILE]
    bench/packets.py WEIGH --loss 20 --snaps 4096 --ways tcpdump,in

A program sends COUNT datagrams of 1400 bytes over loopback; what reads them writes into tmpfs. Per way and snap, the
medians over the rounds: CPU time of the reader (rusage of its whole process), that with nothing sent, and that for each
datagram without beginning and end (what COUNT costs more than a fifth of it), packets that are missing, the sender's CPU
time for each datagram as a ratio to that without any reader, bytes of the file for each packet. `--loss` has one run of
COUNT datagrams for each of so many rounds, and tells what is missing in each. `--json` leaves all figures in FILE, from
which `weigh-bench packets` draws the picture. Needs root, tcpdump, and tests/workloads/bin/datagrams.
"""
import argparse, json, os, re, signal, statistics, subprocess, tempfile, time

import bare_programs

HERE = os.path.dirname(os.path.abspath(__file__))
SENDS = os.path.join(HERE, "../tests/workloads/bin/datagrams")
SIZE = 1400
IN = ["--direction", "in"]
# The program's options; of tcpdump its filter. A program that does nothing stands where packets come in.
WAYS = {
    "tcpdump": ["udp"],
    "tcpdump-none": ["udp port 9"],
    "nothing": None,
    "in": IN,
    "in-bare": [*IN, "--no-comments"],
    "both": [],
    "parquet": IN,
    "in-none": [*IN, "-f", "udp port 9"],
    "in-1/2": [*IN, "--sampling", "sample 1/2"],
    "in-1/10": [*IN, "--sampling", "sample 1/10"],
    "in-1/100": [*IN, "--sampling", "sample 1/100"],
}


def send(count):
    """The sender's CPU time per datagram, in ns."""
    if count == 0:
        return 0
    with tempfile.NamedTemporaryFile("r") as truth:
        environment = dict(os.environ, TRUTH_FILE=truth.name)
        subprocess.run([SENDS, str(count), str(SIZE), "0"], env=environment, check=True)
        return int(re.search(r"sender_cpu_ns=(\d+)", truth.read())[1]) / count


def command(asked, way, snap, path):
    if way.startswith("tcpdump"):
        return ["tcpdump", "-i", "lo", "-s", str(snap), "-w", path, "-Z", "root", *WAYS[way]]
    size = ["--buffer", asked.buffer] if asked.buffer else []
    return [asked.weigh, "trace", "packets", "--system", "--snap", str(snap), "-o", path, *size, *WAYS[way]]


def wait_until_ready(way, reader):
    """Until it says that it listens, or its socket is there."""
    if way.startswith("tcpdump"):
        while "listening" not in reader.stderr.readline():
            pass
        return
    while not os.path.exists(f"/run/weigh/trace-{reader.pid}.sock"):
        time.sleep(0.005)
    time.sleep(0.05)


def told(way, said):
    """Packets that are missing, by the reader's own words."""
    if way.startswith("tcpdump"):
        return int(re.search(r"(\d+) packets dropped by kernel", said)[1])
    return int(re.search(r"weigh: \d+ events in [\d.]+ s, (\d+) lost", said)[1])


def once(asked, way, snap, count, folder):
    """Reader's CPU seconds, sender's ns, lost, bytes of the file."""
    if WAYS[way] is None:
        with bare_programs.attached(["netif_receive_skb"]):
            return 0, send(count), 0, 0
    path = os.path.join(folder, "packets." + ("parquet" if way == "parquet" else "pcapng"))
    line = command(asked, way, snap, path)
    reader = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    wait_until_ready(way, reader)
    cost = send(count)
    # Both look at what has come by themselves, tcpdump once in a second.
    time.sleep(1.2)
    reader.send_signal(signal.SIGINT)
    _, _, used = os.wait4(reader.pid, 0)
    said = reader.stderr.read()
    size = os.path.getsize(path)
    os.unlink(path)
    return used.ru_utime + used.ru_stime, cost, told(way, said), size


def figures(asked, snap, ways, folder):
    """All rounds of each way, which take turns."""
    found = {way: [] for way in ways}
    for turn in range(asked.rounds):
        at = turn % len(ways)
        for way in ways[at:] + ways[:at]:
            bare = send(asked.count)
            counts = [0, asked.count // 5, asked.count]
            none, few, many = [once(asked, way, snap, count, folder) for count in counts]
            each = (many[0] - few[0]) / (asked.count - counts[1]) * 1e9
            found[way].append(
                {"reader_s": many[0], "nothing_s": none[0], "each_ns": each, "lost": many[2],
                 "sender": many[1] / bare, "bytes": many[3] / asked.count}
            )
    return found


def show(snap, way, rounds):
    middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    lost = [one["lost"] for one in rounds]
    print(f"snap {snap:5} {way:16} reader {middle['reader_s']:.3f} s ({middle['nothing_s']:.3f} with nothing sent), "
          f"{middle['each_ns']:4.0f} ns a datagram; lost {middle['lost']:.0f} (most {max(lost)}, none in {lost.count(0)} "
          f"of {len(lost)}); sender x {middle['sender']:.2f}; {middle['bytes']:.0f} bytes a datagram", flush=True)


def losses(asked, snap, ways, folder):
    found = {way: [] for way in ways}
    for _ in range(asked.loss):
        for way in ways:
            found[way].append(once(asked, way, snap, asked.count, folder)[2])
    for way, lost in found.items():
        print(f"snap {snap:5} {way:16} none of {asked.count} lost in {lost.count(0)} of {len(lost)} runs; {lost}", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("weigh")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--count", type=int, default=300_000)
    arguments.add_argument("--snaps", default="96,500,1000,4000")
    arguments.add_argument("--ways", default="tcpdump,in,both,parquet,nothing")
    arguments.add_argument("--loss", type=int, default=0)
    arguments.add_argument("--buffer")
    arguments.add_argument("--json")
    asked = arguments.parse_args()
    ways = asked.ways.split(",")
    lines = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for snap in map(int, asked.snaps.split(",")):
            if asked.loss:
                losses(asked, snap, ways, folder)
                continue
            for way, rounds in figures(asked, snap, ways, folder).items():
                show(snap, way, rounds)
                lines.append({"snap": snap, "way": way, "rounds": rounds})
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump({"count": asked.count, "ways": lines}, file)


if __name__ == "__main__":
    main()
