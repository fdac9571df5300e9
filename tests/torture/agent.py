"""An agent that has no memory: what becomes of it, and of those whom it serves."""
import collections
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBWEIGH = HERE.parent.parent / "libweigh"
NOBODY = 65534
FOLDER = Path("/tmp/agent")
# A run asks the agent for some hundreds of allocations.
ALLOCATIONS = 11
NEVER = 1 << 40
# A program with libweigh takes least, and is done for by several threads.
KINDS = ["run", "program", "io", "program", "crossed", "program", "trace"]
# The agent waits for memory for half a minute.
PASSES_AFTER = 8
# Beyond what the agent has. Of a control group it needs some for itself: what is left goes to sessions.
ADDRESSES = [0, 1 << 12, 1 << 16, 1 << 20, 1 << 23]
MEMORY = [8 << 20, 16 << 20, 32 << 20, 64 << 20]
HANGS_AFTER = 60


OF_THE_NODE = re.compile(r"/proc$|/proc/[a-z]|/proc/[0-9]+/(net/|mountinfo)|/sys/|anon_inode:inotify")


def target(descriptor):
    """What it is open for; nothing if it has just been closed."""
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:
        return ""


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
        self.descriptors = self.descriptors_now()

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
        size = re.search(r"VmSize:\s+(\d+)", status)
        if not size:
            return  # it is ending: who asks next is told
        has = int(size[1]) << 10
        most = "unlimited" if more is None else str(has + more)
        subprocess.run(["prlimit", "--pid", str(self.process.pid), f"--as={most}:"], check=True)

    def descriptors_now(self):
        """How many of each kind, without the files of the machine that it reads again and again: they are opened one by
        one, as they come."""
        targets = map(target, Path(f"/proc/{self.process.pid}/fd").iterdir())
        return collections.Counter(re.sub(r"[0-9]+", "N", each) for each in targets if not OF_THE_NODE.match(each))

    def state(self):
        """Where its threads are."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [((task / "comm").read_text().strip(), (task / "wchan").read_text()) for task in tasks]

    def children(self):
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return path.read_text().split()


def wait_until(is_so, otherwise):
    until = time.monotonic() + HANGS_AFTER
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(otherwise)
        time.sleep(0.01)


class Group:
    """A control group of the agent's, by version 1 or 2 of them."""
    KINDS = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "-1"),
             ("/sys/fs/cgroup", "memory.max", "memory.current", "max")]

    def __init__(self, pid):
        self.folder, self.pid = None, pid
        for root, limit, usage, unlimited in self.KINDS:
            folder = Path(root) / f"weigh-torture-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            if (folder / limit).exists():
                self.folder, self.limit, self.usage, self.unlimited = folder, limit, usage, unlimited
                (folder / "cgroup.procs").write_text(str(pid))
                return
            folder.rmdir()

    def allow(self, more):
        """Bytes beyond what is used; none: as many as there are."""
        # What is mapped of files counts for the one that is ended, and may be another group's: less would be no limit
        # that a unit has.
        resident = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * mmap.PAGESIZE
        has = max(int((self.folder / self.usage).read_text()), resident)
        (self.folder / self.limit).write_text(self.unlimited if more is None else str(has + more))

    def end(self):
        if self.folder:
            wait_until(lambda: not (self.folder / "cgroup.procs").read_text(), "the group is not empty")
            self.folder.rmdir()


class User:
    """An ordinary one, whose runs ask the agent."""

    def __init__(self, weigh, Tried, Way, root):
        self.tried, self.weigh, self.root = Tried(weigh, Way("agent-user", [], NOBODY)), weigh, root
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

    def told(self):
        return (self.tried.folder / "err").read_text(errors="replace")

    def is_followed(self):
        """Whether the kernel has followed its job, exactly, by the agent."""
        fault = self.run("run")
        if fault or not (self.recording / "summary.json").exists():
            return False
        value = json.loads((self.recording / "summary.json").read_text())["metrics"]["processes_total"]
        return (value["source"], value["quality"]) == ("bpf", "exact")


def step():
    """A program with libweigh that asks for an account, and ends well whatever it is answered: its bytes."""
    text = """#include "weigh.h"
int main(void) { weigh *w = weigh_open(); weigh_begin(w, 9, WEIGH_ALL); weigh_end(w); return 0; }
"""
    sources = sorted(str(path) for path in (LIBWEIGH / "src").glob("*.c"))
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "step"
        command = ["cc", "-D_GNU_SOURCE", "-pthread", "-I", LIBWEIGH, "-o", program, "-x", "c", "-", *sources]
        subprocess.run(command, input=text.encode(), check=True)
        return program.read_bytes()


def want(agent, group, at, chance):
    """Lets the agent have no more than that. In words, and how many allocations are to fail."""
    if at % 3 == 1 and group.folder:
        more = chance.choice(MEMORY)
        group.allow(more)
        return f"{more} bytes more for the group", 0
    if at % 3 == 2:
        more = chance.choice(ADDRESSES)
        agent.allow(more)
        return f"{more} bytes more of addresses", 0
    after, times = int(2 ** chance.uniform(0, ALLOCATIONS)), chance.choice([1, 3, 30, 100, NEVER])
    agent.fail(after, times)
    return f"{after} allocations, then {times} fail", times


def allow_all(agent, group):
    agent.fail(0, 0)
    agent.allow(None)
    if group.folder:
        group.allow(None)


def tried(weigh, number, chance, Tried, Way, report):
    """Kinds of requests, and of want, take turns."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    root = subprocess.Popen(["sleep", "infinity"])
    agent, faults, failed = Agent(weigh), [], 0
    user, group = User(weigh, Tried, Way, root.pid), Group(agent.process.pid)
    if not user.is_followed():
        faults.append(f"undisturbed its user's run is not followed: {agent.told()[-300:]}")
    for at in range(0 if faults else number):
        kind = KINDS[at % len(KINDS)]
        what, times = want(agent, group, at, chance)
        passes = threading.Timer(PASSES_AFTER, lambda: agent.fail(0, 0))
        passes.start()
        fault, which = user.run(kind), f"{kind}, {what}"
        passes.cancel()
        failed += agent.have_failed(times) if times < NEVER else 0
        if agent.process.poll() is not None:
            faults.append(f"{which}: the agent ended with {agent.process.returncode}: {agent.told()[-300:]}")
            break
        allow_all(agent, group)
        if agent.process.poll() is not None:
            faults.append(f"{which}: the agent ended with {agent.process.returncode}: {agent.told()[-300:]}")
            break
        if fault:
            faults.append(f"{which}: {fault}")
        try:
            wait_until(lambda: not agent.children(), f"left {agent.children()}")
            wait_until(user.is_followed, "no user is followed any more")
        except TimeoutError as error:
            faults.append(f"{which}: {error}: {user.told()[-300:]}, {agent.state()}")
            break
    if agent.process.poll() is None:
        # Pages of programs that have left take their time.
        try:
            wait_until(lambda: agent.descriptors_now().total() <= agent.descriptors.total() + 1, "descriptors are left")
        except TimeoutError as error:
            faults.append(f"{error}: {dict(agent.descriptors_now() - agent.descriptors)}")
        agent.process.send_signal(signal.SIGTERM)
        agent.process.wait()
    group.end()
    root.kill()
    root.wait()
    return report(f"agent, {number} times, {failed} allocations failed", faults)
