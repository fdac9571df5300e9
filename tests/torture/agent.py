"""An agent that has no memory: what becomes of it, and of those whom it serves."""
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBWEIGH = HERE.parent.parent / "libweigh"
NOBODY = 65534
FOLDER = Path("/tmp/agent")
# A run asks the agent for some hundreds of allocations.
ALLOCATIONS = 11
NEVER = 1 << 40
HANGS_AFTER = 60


class Agent:
    """It counts down what stands in a file that it shares with this."""

    def __init__(self, weigh):
        FOLDER.mkdir(mode=0o777)
        FOLDER.chmod(0o777)
        self.socket, left = FOLDER / "socket", FOLDER / "left"
        left.write_bytes(bytes(4096))
        with open(left, "r+b") as file:
            self.left = mmap.mmap(file.fileno(), 4096)
        environment = {**os.environ, "LD_PRELOAD": "/tmp/failing.so", "WEIGH_FAILS": f"shared {left}"}
        with open(FOLDER / "err", "wb") as err:
            self.process = subprocess.Popen([weigh, "agent", "--socket", self.socket], env=environment, stderr=err)
        wait_until(lambda: "serves at" in self.told(), "it does not serve")
        self.descriptors = self.count_descriptors()

    def told(self):
        return (FOLDER / "err").read_text(errors="replace")

    def fail(self, after, times):
        self.left[:16] = struct.pack("qq", after, 0)
        self.left[8:16] = struct.pack("q", times)

    def have_failed(self, times):
        return times - max(0, struct.unpack("q", self.left[8:16])[0])

    def allow(self, more):
        """Bytes of address space beyond what it has; none: as many as it wants."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        has = int(re.search(r"VmSize:\s+(\d+)", status)[1]) << 10
        most = "unlimited" if more is None else str(has + more)
        subprocess.run(["prlimit", "--pid", str(self.process.pid), f"--as={most}:"], check=True)

    def count_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def children(self):
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return path.read_text().split()


def wait_until(is_so, otherwise):
    until = time.monotonic() + HANGS_AFTER
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(otherwise)
        time.sleep(0.01)


class User:
    """An ordinary one, whose runs ask the agent."""

    def __init__(self, weigh, Tried, Way, root):
        self.tried, self.weigh, self.root = Tried(weigh, Way("agent-user", [], NOBODY)), weigh, root
        os.environ["WEIGH_SOCKET"] = str(FOLDER / "socket")
        self.recording = self.tried.folder / "recording"

    def environment(self):
        return {**self.tried.environment(), "WEIGH_SOCKET": str(FOLDER / "socket")}

    def start(self, *words):
        out, err = (open(self.tried.folder / name, "wb") for name in ("out", "err"))
        with out, err:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, user=NOBODY, group=NOBODY,
                                    extra_groups=[], cwd=self.tried.folder / "tmp", env=self.environment())

    def run(self, kind):
        """Of a kind: what it did wrong, or None."""
        self.tried.clear()
        if kind == "crossed":
            process = self.start(self.weigh, "io", "--mechanism", "bpf", "--pid", str(self.root))
            expected = [125]
        elif kind == "program":
            process, expected = self.start("/tmp/step"), [0]
        else:
            options = {
                "run": ["run", "--mechanism", "bpf", "-o", self.recording],
                "io": ["io", "--mechanism", "bpf", "--json", self.tried.folder / "told.json"],
                "trace": ["trace", "-e", "sched:sched_process_exec", "-o", self.tried.folder / "events.jsonl"],
            }[kind]
            process = self.start(self.weigh, *options, "--", *self.tried.job(1, False))
            expected = [7]
        status = self.tried.ended(process)
        told, said = ((self.tried.folder / name).read_text(errors="replace") for name in ("err", "out"))
        refused = status == 125 and "begun" not in said and told
        if status not in expected and not (kind != "crossed" and refused):
            return f"{kind}: status {status}, {told[-200:]!r}"
        if "panicked" in told or ("begun" in said and "whole" not in said):
            return f"{kind}: {said!r}, {told[-200:]!r}"
        return None

    def is_followed(self):
        """Whether the kernel has followed its job, exactly, by the agent."""
        fault = self.run("run")
        if fault or not (self.recording / "summary.json").exists():
            return False
        value = json.loads((self.recording / "summary.json").read_text())["metrics"]["processes_total"]
        return (value["source"], value["quality"]) == ("bpf", "exact")


def build_step():
    """A program with libweigh that asks for an account, and ends well whatever it is answered."""
    text = """#include "weigh.h"
int main(void) { weigh *w = weigh_open(); weigh_begin(w, 9, WEIGH_ALL); weigh_end(w); return 0; }
"""
    sources = sorted(str(path) for path in (LIBWEIGH / "src").glob("*.c"))
    command = ["cc", "-D_GNU_SOURCE", "-pthread", "-I", LIBWEIGH, "-o", "/tmp/step", "-x", "c", "-", *sources]
    subprocess.run(command, input=text.encode(), check=True)


def tried(weigh, number, chance, Tried, report):
    """Kinds of requests, and of want, take turns."""
    from torture import Way
    shutil.rmtree(FOLDER, ignore_errors=True)
    build_step()
    root = subprocess.Popen(["sleep", "infinity"])
    agent, faults, failed = Agent(weigh), [], 0
    user = User(weigh, Tried, Way, root.pid)
    if not user.is_followed():
        faults.append(f"undisturbed its user's run is not followed: {agent.told()[-300:]}")
    for at in range(0 if faults else number):
        kind = ["run", "program", "io", "crossed", "trace"][at % 5]
        after, times = int(2 ** chance.uniform(0, ALLOCATIONS)), chance.choice([1, 1, 3, 30, NEVER])
        room = chance.choice([0, 1 << 12, 1 << 16, 1 << 20, 1 << 23]) if at % 3 == 2 else None
        which = f"{kind}, {after} then {times} allocations" if room is None else f"{kind}, {room} bytes more"
        if room is None:
            agent.fail(after, times)
        else:
            agent.allow(room)
        fault = user.run(kind)
        failed += agent.have_failed(times) if room is None else 0
        agent.fail(0, 0)
        if agent.process.poll() is not None:
            faults.append(f"{which}: the agent ended with {agent.process.returncode}: {agent.told()[-300:]}")
            break
        agent.allow(None)
        if fault:
            faults.append(f"{which}: {fault}")
        try:
            wait_until(lambda: not agent.children(), f"left {agent.children()}")
            wait_until(user.is_followed, "no user is followed any more")
        except TimeoutError as error:
            faults.append(f"{which}: {error}")
            break
    if agent.process.poll() is None:
        # Pages of programs that have left take their time.
        try:
            wait_until(lambda: agent.count_descriptors() <= agent.descriptors + 1,
                       f"{agent.count_descriptors()} descriptors, {agent.descriptors} at first")
        except TimeoutError as error:
            faults.append(str(error))
        agent.process.send_signal(signal.SIGTERM)
        agent.process.wait()
    root.kill()
    root.wait()
    return report(f"agent, {number} times, {failed} allocations failed", faults)
