#!/usr/bin/env python3
"""How long it takes from an event in the kernel to a program that waits for it, by each way that there is.

    bench/live_values.py WEIGH [--rounds 60] [--load]

The program makes an event (a system call with a number that nobody else uses), notes when, and notes again when it has been
told: by `--on-event` (the command writes the time), by a report to an attached client each 100 ms, by a line of `--json
--every 100ms`, by a scrape of `--metrics` that is asked for at once, and by an event that is read along. With --load two
processes per CPU do nothing but compute meanwhile. Prints median, p99 and most of each in milliseconds, and how many were not told
within 10 s. Events come at moments spread over the readers' intervals. Needs root and libweigh's Python module (PYTHONPATH).
"""
import argparse, json, os, queue, signal, socket, subprocess, sys, tempfile, threading, time

sys.path[:0] = [path for path in [os.environ.get("WEIGH_PYTHON")] if path]
import weigh

MARK = 4242
PATIENCE = 10.0
#: personality(2) with a flag that does nothing, so that others' calls are told apart.
CALL = f"syscalls:sys_enter_personality{{personality}} if personality == {MARK}"


def make_event(libc):
    libc.personality(MARK)
    return time.monotonic()


class Count:
    """The greatest total that was told, and when."""

    def __init__(self):
        self.total, self.changed = 0, threading.Condition()

    def tell(self, total):
        with self.changed:
            self.total = max(self.total, total)
            self.changed.notify_all()

    def wait(self, total):
        with self.changed:
            return self.changed.wait_for(lambda: self.total >= total, PATIENCE) and time.monotonic()


def read_lines(file, count):
    for line in file:
        count.tell(json.loads(line)["events_total"])


def read_reports(pid, count):
    for report in weigh.reports(pid, every=0.1):
        count.tell(report["events_total"])


def read_events(pid, count):
    seen = 0
    for _ in weigh.trace(pid, count=1):
        seen += 1
        count.tell(seen)


def scrape(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while part := client.recv(65536):
            text += part
    return next(int(line.split()[1]) for line in text.decode().splitlines() if line.startswith("weigh_trace_events_total "))


def scrape_until(path, total, since):
    while time.monotonic() < since + PATIENCE:
        if scrape(path) >= total:
            return time.monotonic()
    return None


def follow_pipe(path, count):
    """Lines of --on-event's command: how many events each stands for."""
    total = 0
    with open(path) as pipe:
        for line in pipe:
            total += int(line)
            count.tell(total)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weigh")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--load", action="store_true")
    asked = parser.parse_args()
    import ctypes

    libc = ctypes.CDLL(None)
    kept = libc.personality(0xFFFFFFFF)
    folder = tempfile.TemporaryDirectory()
    pipe, metrics = os.path.join(folder.name, "pipe"), os.path.join(folder.name, "metrics")
    os.mkfifo(pipe)
    # Written to by each command; kept open so that the reader sees no end between two.
    keeps = os.open(pipe, os.O_RDWR)
    command = f"sh -c 'echo $WEIGH_EVENTS >{pipe}' at most 1000/s"
    words = [asked.weigh, "trace", "-q", "--system", "-e", CALL, "--rate", "by event", "--json", "-", "--every", "100ms"]
    stream = subprocess.Popen(words + ["--metrics", metrics, "--on-event", command], stdout=subprocess.PIPE, text=True)
    while not os.path.exists(metrics) or not os.path.exists(f"/run/weigh/trace-{stream.pid}.sock"):
        time.sleep(0.05)
    time.sleep(1)
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count() if asked.load else 0)]
    counts = {"--on-event": Count(), "reports": Count(), "--json --every": Count(), "event read along": Count()}
    readers = [
        (follow_pipe, pipe), (read_reports, stream.pid), (read_lines, stream.stdout), (read_events, stream.pid),
    ]
    for (read, what), count in zip(readers, counts.values()):
        threading.Thread(target=read, args=(what, count), daemon=True).start()
    time.sleep(1)
    times = {way: [] for way in [*counts, "--metrics"]}
    missing = dict.fromkeys(times, 0)
    for number in range(1, asked.rounds + 1):
        time.sleep(0.2 + number * 0.0173 % 0.1)
        began, waiting, told = make_event(libc), [], queue.Queue()
        for way, count in counts.items():
            waiting.append(threading.Thread(target=lambda way=way, count=count: told.put((way, count.wait(number)))))
        waiting.append(threading.Thread(target=lambda: told.put(("--metrics", scrape_until(metrics, number, began)))))
        for thread in waiting:
            thread.start()
        for _ in waiting:
            way, at = told.get()
            if at:
                times[way].append((at - began) * 1000)
            else:
                missing[way] += 1
    libc.personality(kept)
    for spinner in spinners:
        spinner.kill()
    stream.send_signal(signal.SIGTERM)
    stream.wait()
    os.close(keeps)
    print(f"{'way':18} {'median':>8} {'p99':>8} {'most':>8}  ms, {asked.rounds} rounds, {'loaded' if asked.load else 'idle'}")
    for way, all_of in times.items():
        all_of.sort()
        at = lambda share: all_of[min(len(all_of) - 1, int(len(all_of) * share))] if all_of else float("nan")
        print(f"{way:18} {at(0.5):8.1f} {at(0.99):8.1f} {at(1):8.1f}  {missing[way]} not told")


if __name__ == "__main__":
    main()
