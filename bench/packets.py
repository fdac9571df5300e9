#!/usr/bin/env python3
"""What it costs to keep packets: `tcpdump` against `weigh trace packets`, in turns.

    bench/packets.py WEIGH [--rounds 5] [--count 300000] [--snaps 96,500,1000,4096] [--ways tcpdump,in,...] [--json FILE]
    bench/packets.py WEIGH --loss 20 --snaps 4096 --ways tcpdump,in [--buffer 64MiB] [--json FILE]
    bench/packets.py --json FILE --page PAGE

A program sends COUNT datagrams of 1400 bytes over loopback; what reads them writes into tmpfs. Per way and snap, the
medians over the rounds: CPU time of the reader (rusage of its whole process), that with nothing sent, and that for each
datagram without beginning and end (what COUNT costs more than a fifth of it), packets that are missing, the sender's CPU
time for each datagram as a ratio to that without any reader, bytes of the file for each packet. `--loss` has one run of
COUNT datagrams for each of so many rounds, and tells what is missing in each. `--json` adds all figures to FILE, from
which `weigh-bench packets` draws the pictures and `--page` writes docs/measurements/packets.md. Needs root, tcpdump, and
tests/workloads/bin/datagrams; the way `arrow` needs pyarrow.
"""
import argparse, contextlib, json, os, platform, re, signal, statistics, subprocess, tempfile, time

import bare_programs

HERE = os.path.dirname(os.path.abspath(__file__))
SENDS = os.path.join(HERE, "../tests/workloads/bin/datagrams")
SIZE = 1400
# Of Ethernet, IP and UDP before it; of tcpdump's file for each; of weigh's record besides the packet.
HEADERS, TCPDUMP_BYTES, RECORD_BYTES = 42, 16, 96
POINT = "netif_receive_skb"
IN = ["--direction", "in"]
# The program's options; of tcpdump its filter. What none of them can be cheaper than: a program that does nothing where
# packets come in; one that puts as many bytes into a ring, which nobody reads; to write as many bytes as tcpdump does; and
# what Arrow's library takes to write the columns of a .parquet from memory.
WAYS = {
    "tcpdump": ["udp"],
    "tcpdump-none": ["udp port 9"],
    "nothing": None,
    "ring": None,
    "writes": None,
    "arrow": None,
    "in": IN,
    "in-bare": [*IN, "--no-comments"],
    "both": [],
    "pcap": IN,
    "parquet": IN,
    "in-none": [*IN, "-f", "udp port 9"],
    "in-1/2": [*IN, "--sampling", "sample 1/2"],
    "in-1/10": [*IN, "--sampling", "sample 1/10"],
    "in-1/100": [*IN, "--sampling", "sample 1/100"],
}
# How the names of files end that are no .pcapng.
ENDINGS = {"parquet": "parquet", "pcap": "pcap"}


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


def floor(way, snap, count, folder):
    """The same of what no program can be cheaper than."""
    kept = min(snap, SIZE + HEADERS)
    if way == "writes":
        return write(count * (kept + TCPDUMP_BYTES), folder), send(count), 0, count * (kept + TCPDUMP_BYTES)
    with contextlib.ExitStack() as held:
        code = bare_programs.NOTHING
        if way == "ring":
            ring = held.enter_context(bare_programs.emptied(64 << 20))
            code = bare_programs.record(ring, (kept + RECORD_BYTES) // 8 * 8)
        held.enter_context(bare_programs.attached([POINT], code))
        return 0, send(count), 0, 0


def write(size, folder):
    """CPU seconds of writing so many bytes into a file, 256 KiB at once."""
    piece, path = bytes(256 << 10), os.path.join(folder, "bytes")
    began = time.process_time()
    with open(path, "wb", buffering=0) as file:
        for at in range(0, size, len(piece)):
            file.write(piece[:size - at])
    took = time.process_time() - began
    os.unlink(path)
    return took


def write_columns(asked, snap, count, folder):
    """CPU seconds of pyarrow's for the columns of what weigh has recorded, those with few values by dictionaries, as weigh
    has them; bytes of the file."""
    from pyarrow import parquet
    path = os.path.join(folder, "packets.parquet")
    record(asked, "parquet", snap, count, path)
    table = parquet.read_table(path)
    few = [name for name in table.schema.names if name not in ("time", "id", "packet")]
    began = time.process_time()
    parquet.write_table(table, path, compression="none", use_dictionary=few)
    took = time.process_time() - began
    size = os.path.getsize(path)
    os.unlink(path)
    return took, size


def once(asked, way, snap, count, folder):
    """Reader's CPU seconds, sender's ns, lost, bytes of the file."""
    if way == "arrow":
        took, size = write_columns(asked, snap, count, folder)
        return took, 0, 0, size
    if WAYS[way] is None:
        return floor(way, snap, count, folder)
    path = os.path.join(folder, "packets." + ENDINGS.get(way, "pcapng"))
    used, cost, lost = record(asked, way, snap, count, path)
    size = os.path.getsize(path)
    os.unlink(path)
    return used, cost, lost, size


def record(asked, way, snap, count, path):
    """Reader's CPU seconds, sender's ns, lost."""
    line = command(asked, way, snap, path)
    reader = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    wait_until_ready(way, reader)
    cost = send(count)
    # Both look at what has come by themselves, tcpdump once in a second, weigh 20 times.
    time.sleep(1.2 if way.startswith("tcpdump") else 0.2)
    reader.send_signal(signal.SIGTERM)
    _, _, used = os.wait4(reader.pid, 0)
    return used.ru_utime + used.ru_stime, cost, told(way, reader.stderr.read())


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
    return [{"snap": snap, "way": way, "rings": rings(asked, way, snap, folder), "lost": lost} for way, lost in found.items()]


def rings(asked, way, snap, folder):
    """What waits has so much room, by the reader's own words."""
    if way.startswith("tcpdump"):
        return "2 MiB"
    reader = subprocess.Popen(command(asked, way, snap, os.path.join(folder, "none.pcapng")), stderr=subprocess.PIPE, text=True)
    wait_until_ready(way, reader)
    ask = [asked.weigh, "trace", "ctl", "--stream", str(reader.pid), "list", "--json"]
    buffer = json.loads(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)["buffers"][0]
    reader.send_signal(signal.SIGTERM)
    reader.communicate()
    return f"{buffer['rings']} of {buffer['ring_bytes'] >> 20} MiB"


MEANS = {
    "tcpdump": "`tcpdump`",
    "tcpdump-none": "`tcpdump`, a filter that takes none",
    "in": "`--direction in`",
    "in-bare": "the same with `--no-comments`",
    "both": "both directions",
    "pcap": "`--direction in`, to `.pcap`",
    "parquet": "`--direction in`, to `.parquet`",
    "in-none": "`--direction in`, a filter that takes none",
    "in-1/2": "`--direction in`, `sample 1/2`",
    "in-1/10": "`--direction in`, `sample 1/10`",
    "in-1/100": "`--direction in`, `sample 1/100`",
    "nothing": "floor: a program that does nothing where packets come in",
    "ring": "floor: a program that puts as many bytes into a ring of the kernel's, which nobody reads",
    "writes": "floor: to write as many bytes as `tcpdump` does",
    "arrow": "floor: `pyarrow` writes the columns of the `.parquet` from memory",
}
IMAGES = {
    "packets.svg": "CPU time of the reader, of the sender, packets that are missing (figures 5, 6, table 3)",
    "packets-sampling.svg": "With sampling in the kernel (figure 7)",
    "packets-filter.svg": "With a filter in the kernel that takes nothing (figure 8)",
}


def row(count, way, rounds):
    middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    is_floor = WAYS[way] is None
    is_of_reader = way in ("writes", "arrow")
    reader = "" if is_floor and not is_of_reader else f"{middle['reader_s'] * 1e3:.0f} ms"
    started = "" if is_floor else f"{middle['nothing_s'] * 1e3:.0f} ms"
    each = "" if is_floor else f"{middle['each_ns']:.0f} ns" if middle["each_ns"] > 0 else "–"
    lost = "" if is_floor else f"{middle['lost'] / count * 100:.1f} %"
    size = f"{middle['bytes']:.0f}" if middle["bytes"] else ""
    sender = "" if is_of_reader else f"{middle['sender']:.2f}"
    return f"| {MEANS[way]} | {reader} | {started} | {each} | {lost} | {sender} | {size} | {len(rounds)} |"


def page(figures, path):
    """docs/measurements/packets.md."""
    lines = [
        "# Packets", "",
        f"Written by `bench/packets.py`: {figures['count']:,} datagrams of {SIZE} bytes over loopback, kept in tmpfs by `tcpdump`",
        "(2 MiB for what waits) or by `weigh trace packets`, in turns. Medians. The reader's CPU time is that of its whole process;",
        "beside it that with nothing sent, and for each datagram what all cost more than a fifth of them (–: less than starts differ",
        "by). The sender's CPU time is a ratio to that without any reader, taken in the same round. As the figures 5 to 8 and the table 3",
        "of the published system",
        f"(MAGNET). Machine: {figures['machine']}.", "",
    ]
    for snap in sorted({one["snap"] for one in figures["ways"]}):
        lines += [
            f"## {snap} bytes of each", "",
            "| | reader | nothing sent | each datagram | missing | sender | bytes each | rounds |", "|---|---|---|---|---|---|---|---|",
        ]
        those = [one for one in figures["ways"] if one["snap"] == snap]
        those.sort(key=lambda one: list(MEANS).index(one["way"]))
        lines += [row(figures["count"], one["way"], one["rounds"]) for one in those]
        lines.append("")
    if figures.get("losses"):
        lines += ["## Missing, run by run", "", "| bytes of each | | rings | none missing in | missing in the others |", "|---|---|---|---|---|"]
    for one in figures.get("losses", []):
        some = [lost for lost in one["lost"] if lost]
        span = f"{min(some):,} to {max(some):,}" if some else ""
        lines.append(f"| {one['snap']} | {MEANS[one['way']]} | {one['rings']} | {one['lost'].count(0)} of {len(one['lost'])} | {span} |")
    there = os.path.join(os.path.dirname(os.path.abspath(path)), "images")
    for name, title in IMAGES.items():
        if os.path.exists(os.path.join(there, name)):
            lines += ["", f"![{title}](images/{name})"]
    with open(path, "w") as file:
        file.write("\n".join(lines).rstrip() + "\n")


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    return f"{os.cpu_count()} CPUs ({model[1] if model else platform.machine()}), Linux {platform.release().split('-')[0]}, at a load average of {os.getloadavg()[0]:.0f}"


def add(path, found):
    """Figures of the same kind take the place of older ones."""
    there = {"ways": [], "losses": []}
    if os.path.exists(path):
        with open(path) as file:
            there = json.load(file)
    for kind, keys in (("ways", ("snap", "way")), ("losses", ("snap", "way", "rings"))):
        new = {tuple(one[key] for key in keys) for one in found[kind]}
        found[kind] = [one for one in there[kind] if tuple(one[key] for key in keys) not in new] + found[kind]
    with open(path, "w") as file:
        json.dump(found, file)


def read_figures(path):
    """What `--json` has left; raises ValueError with what is wrong and what to type."""
    write = f"bench/packets.py target/release/weigh --json {path} measures and writes it"
    try:
        with open(path) as file:
            found = json.load(file)
    except OSError as error:
        raise ValueError(f"--json {path}: {error.strerror}; {write}") from error
    except ValueError as error:
        raise ValueError(f"--json {path}: expected JSON: {error}; {write}") from error
    if not isinstance(found, dict) or not {"count", "machine", "ways"} <= found.keys():
        raise ValueError(f"--json {path}: expected count, machine and ways; {write}")
    return found


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("weigh", nargs="?")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--count", type=int, default=300_000)
    arguments.add_argument("--snaps", default="96,500,1000,4096")
    arguments.add_argument("--ways", default="tcpdump,in,both,parquet,nothing")
    arguments.add_argument("--loss", type=int, default=0)
    arguments.add_argument("--buffer")
    arguments.add_argument("--json")
    arguments.add_argument("--page")
    asked = arguments.parse_args()
    if asked.page:
        if not asked.json:
            arguments.error("--page needs --json FILE: the figures that the page is made of")
        try:
            return page(read_figures(asked.json), asked.page)
        except ValueError as error:
            arguments.error(str(error))
        except OSError as error:
            arguments.error(f"--page {asked.page}: {error.strerror}")
    if not asked.weigh:
        arguments.error("expected WEIGH, the binary that is measured, such as target/release/weigh")
    ways = asked.ways.split(",")
    lines, lost = [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for snap in map(int, asked.snaps.split(",")):
            if asked.loss:
                lost += losses(asked, snap, ways, folder)
                continue
            for way, rounds in figures(asked, snap, ways, folder).items():
                show(snap, way, rounds)
                lines.append({"snap": snap, "way": way, "rounds": rounds})
    if asked.json:
        add(asked.json, {"count": asked.count, "machine": machine(), "ways": lines, "losses": lost})


if __name__ == "__main__":
    main()
