#!/usr/bin/env python3
"""Each buffer policy of the agent's streams with four readers, one of which stops for a minute: what each has got, and what it was told
that it has lost, is counted record by record.

usage: stopped_reader.py WEIGH [SECONDS]     SECONDS: how long it stops [60]

Values are published 50 at a time, once a second. The stopped reader is stopped by SIGSTOP and goes on by SIGCONT.
"""
import json, os, signal, subprocess, sys, tempfile, time

WEIGH = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else sys.exit(__doc__)
PAUSE = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
AT_ONCE, KEPT = 50, 700
READERS = 4


def weigh(*arguments):
    return subprocess.run([WEIGH, *arguments], check=True, capture_output=True, text=True).stdout


def stream():
    return next(one for one in json.loads(weigh("agent", "status", "--json"))["streams"] if one["name"] == "pushed")


def publish(seconds, published):
    """Once a second, until so many have passed; how many values there are then."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        due = time.monotonic() + 1
        weigh("push", *[f"value_{number}={published + number}" for number in range(AT_ONCE)])
        published += AT_ONCE
        time.sleep(max(0.0, due - time.monotonic()))
    return published


def wait_for(what, condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(0.05)


class Reader:
    def __init__(self, folder, name):
        self.path = f"{folder}/{name}"
        with open(self.path, "w") as file:
            self.process = subprocess.Popen([WEIGH, "agent", "read", "pushed", "--follow"], stdout=file)

    def found(self):
        """Numbers of the records, and how many were said to be lost; lines that are not whole yet are left out."""
        lines = open(self.path).read().split("\n")[:-1]
        lines = [json.loads(line) for line in lines]
        return [line["sequence"] for line in lines if "sequence" in line], sum(line.get("lost", 0) for line in lines)

    def has_last(self, published):
        sequences, _ = self.found()
        return sequences[-1:] == [published]


def check(policy, expected_lost):
    """With an agent of its own: numbers begin with 1."""
    with tempfile.TemporaryDirectory(prefix="weigh-streams-") as folder:
        os.environ["WEIGH_SOCKET"] = f"{folder}/socket"
        with open(f"{folder}/log", "w") as log:
            agent = subprocess.Popen([WEIGH, "agent", "--socket", f"{folder}/socket"], stderr=log)
        readers = []
        try:
            wait_for("the agent", lambda: os.path.exists(f"{folder}/socket"))
            weigh("agent", "set", "--stream", "pushed", "--policy", policy)
            readers += [Reader(folder, str(number)) for number in range(READERS)]
            measure(policy, readers, expected_lost)
        finally:
            for one in [*readers, agent]:
                getattr(one, "process", one).kill()
                getattr(one, "process", one).wait()


def measure(policy, readers, expected_lost):
    published = publish(3, 0)
    wait_for("the first values", lambda: stream()["readers"] == READERS and all(one.has_last(published) for one in readers))
    before = [reader.found() for reader in readers]
    *quick, slow = readers
    slow.process.send_signal(signal.SIGSTOP)
    so_far, published = published, publish(PAUSE, published)
    wait_for("the other readers", lambda: all(reader.has_last(published) for reader in quick))
    slow.process.send_signal(signal.SIGCONT)
    wait_for("the reader that was stopped", lambda: slow.has_last(published))
    count, lost = published - so_far, []
    for reader, (old, lost_before) in zip(readers, before):
        sequences, lost_now = reader.found()
        new = sequences[len(old):]
        lost.append(lost_now - lost_before)
        assert new == sorted(set(new)) and all(so_far < sequence <= published for sequence in new), "each once, in order"
        assert len(new) + lost[-1] == count, (policy, len(new), lost, count)
    low, high = expected_lost(count)
    assert low <= lost[-1] <= high, (policy, lost, low, high)
    assert not policy.startswith("fill") or not any(lost[:-1]), "a slow reader costs no other one anything"
    print(f"{policy:14} {count} values came while one reader was stopped for {PAUSE:.0f} s: it lost {lost[-1]}, the others {lost[:-1]}")


def main():
    # What it had asked for when it was stopped is answered with the values of one second.
    check("fill-drain", lambda count: (0, 0))
    check(f"fill({KEPT})-read", lambda count: (count - KEPT - AT_ONCE, count - KEPT))
    check("replace-read", lambda count: (count - 2, count - 1))
    check("replace-drain", lambda count: (count - 2, count - 1))
    print("4 passed, 0 failed")


main()
