#!/usr/bin/env python3
"""What it costs to keep packets: `tcpdump` against `weigh trace packets`, in turns.

    bench/packets.py WEIGH [--rounds 5] [--count 300000] [--snaps 96,500,1000,4000] [--ways tcpdump,in,...]

A program sends COUNT datagrams of 1400 bytes over loopback; what reads them writes into tmpfs. Per way and snap, the
medians over the rounds: CPU time of the reader (rusage of its whole process) and that for each datagram without
beginning and end (what COUNT costs more than a fifth of it), packets that are missing, the sender's CPU time for each
datagram as a ratio to that without any reader, bytes of the file for each packet. Needs root, tcpdump, and
tests/workloads/bin/datagrams.
"""
import argparse, os, re, signal, statistics, subprocess, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
SENDS = os.path.join(HERE, "../tests/workloads/bin/datagrams")
SIZE = 1400
WAYS = {
    "tcpdump": None,
    "in": ["--direction", "in"],
    "in-bare": ["--direction", "in", "--no-comments"],
    "both": [],
    "parquet": ["--direction", "in"],
}


def send(count):
    """The sender's CPU time per datagram, in ns."""
    with tempfile.NamedTemporaryFile("r") as truth:
        environment = dict(os.environ, TRUTH_FILE=truth.name)
        subprocess.run([SENDS, str(count), str(SIZE), "0"], env=environment, check=True)
        return int(re.search(r"sender_cpu_ns=(\d+)", truth.read())[1]) / count


def command(weigh, way, snap, path):
    if way == "tcpdump":
        return ["tcpdump", "-i", "lo", "-s", str(snap), "-w", path, "-Z", "root", "udp"]
    return [weigh, "trace", "packets", "--system", "--snap", str(snap), "-o", path, *WAYS[way]]


def wait_until_ready(way, reader):
    """Until it says that it listens, or its socket is there."""
    if way == "tcpdump":
        while "listening" not in reader.stderr.readline():
            pass
        return
    while not os.path.exists(f"/run/weigh/trace-{reader.pid}.sock"):
        time.sleep(0.005)
    time.sleep(0.05)


def told(way, said):
    """Packets that are missing, by the reader's own words."""
    if way == "tcpdump":
        return int(re.search(r"(\d+) packets dropped by kernel", said)[1])
    return int(re.search(r"weigh: \d+ events in [\d.]+ s, (\d+) lost", said)[1])


def once(weigh, way, snap, count, folder):
    """Reader's CPU seconds, sender's ns, lost, bytes of the file."""
    path = os.path.join(folder, "packets." + ("parquet" if way == "parquet" else "pcapng"))
    reader = subprocess.Popen(command(weigh, way, snap, path), stderr=subprocess.PIPE, text=True)
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


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("weigh")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--count", type=int, default=300_000)
    arguments.add_argument("--snaps", default="96,500,1000,4000")
    arguments.add_argument("--ways", default="tcpdump,in,both,parquet")
    asked = arguments.parse_args()
    ways = asked.ways.split(",")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for snap in map(int, asked.snaps.split(",")):
            found = {way: [] for way in ways}
            for turn in range(asked.rounds):
                at = turn % len(ways)
                for way in ways[at:] + ways[:at]:
                    bare = send(asked.count)
                    few = once(asked.weigh, way, snap, asked.count // 5, folder)
                    many = once(asked.weigh, way, snap, asked.count, folder)
                    found[way].append((few, many, bare))
            for way, rounds in found.items():
                show(asked.count, snap, way, rounds)


def show(count, snap, way, rounds):
    cpu = statistics.median([many[0] for _, many, _ in rounds])
    each = statistics.median([(many[0] - few[0]) / (count - count // 5) for few, many, _ in rounds]) * 1e9
    lost = [many[2] for _, many, _ in rounds]
    slowing = statistics.median([many[1] / bare for _, many, bare in rounds])
    size = statistics.median([many[3] for _, many, _ in rounds])
    print(f"snap {snap:5} {way:16} reader {cpu:.3f} s, {each:4.0f} ns a datagram; "
          f"lost {statistics.median(lost):.0f} (most {max(lost)}, none in {lost.count(0)} of {len(lost)}); "
          f"sender x {slowing:.2f}; {size / count:.0f} bytes a datagram", flush=True)


if __name__ == "__main__":
    main()
