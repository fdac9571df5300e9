#!/usr/bin/env python3
"""What weigh must never do to a job, tried in bulk: kills at random moments, odd surroundings, disks that fill up.

usage: torture.py WEIGH [--part kills,surroundings,disks,memory,failures,agent] [--way TEXT] [--number N] [--seed S] [--state FILE]

WEIGH is the binary. The job is `careful` of tests/workloads, which checks the result of each of its own calls and
exits with 7. --part names the parts that are tried; those of two calls can be tried beside each other. Prints `ok NAME` or `FAIL NAME: why` for each way and part. Wants root: it works in a mount namespace
with a /tmp and a /dev/shm of its own, and starts half of the runs as an ordinary user.

kills          weigh gets SIGKILL at a random moment, N times a way. Counted: jobs that did not come to their end,
               processes of weigh that are left, and files and settings that are left after the next run.
surroundings   what a command can inherit or meet. The job's status and output must be those without weigh. With a
               small N each surrounding is tried in some of the ways only, others with another seed.
disks          a recording on a disk of N sizes from nothing on, or as many as it takes until all of it fits. The status
               must be the job's.
failures       one write to a file fails in weigh, or all from one on, or one allocation: a random one, N/5 times a way.
               The status must be the job's; where an allocation fails in a tracer weigh may be aborted, and the job comes
               to its end all the same.
agent          an agent in which one allocation fails, or many, or which may have hardly more memory than it has: N
               times, while users' runs and a program with libweigh ask it. It must not end, nor tell a user of a
               process of root's; jobs come to their end as without it, and it serves on, with nothing left.
memory         /dev/shm of 4 KiB (0 is no limit), 64 KiB, 1 MiB and 64 MiB fills at a random moment, N times in all.

With --state all parts go on where the file says they ended, and end at N in all. The last lines are a table of what
was found, as far as it has come.
"""
import argparse
import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
import agent
from surroundings import DEAD_PIPE, FULL_PIPE, SURROUNDINGS, inherited_pipes, script

HERE = Path(__file__).resolve().parent
CAREFUL = HERE.parent / "workloads" / "bin" / "careful"
NOBODY = 65534
MARK = "WEIGH_TORTURE_MARK"
HANGS_AFTER = 60
ROUNDS = 6
# Each look goes through the environments of all processes.
SECONDS_BETWEEN_LOOKS = 0.04
TASK_DELAYACCT = Path("/proc/sys/kernel/task_delayacct")
# Held shared by each weigh that needs the switch on; its text is what they found, while it is to be restored.
DELAYACCT_LOCK = Path("/run/weigh-delayacct.lock")
PARTS = ["kills", "surroundings", "disks", "memory", "failures", "agent"]
# Held by what changes settings of the machine; opened before another /tmp may cover it.
SETTINGS = open(__file__, "rb")


class Way:
    """A verb with a mechanism, by root or an ordinary user."""

    def __init__(self, name, options, user=None, mounts=False):
        self.name, self.options, self.user, self.mounts = name, options, user, mounts

    def command(self, weigh, folder, job):
        options = [option.replace("@", str(folder)) for option in self.options]
        return [weigh, *options, "--", *job]

    def changes_settings(self):
        return "--delays" in self.options

    @contextlib.contextmanager
    def alone_with_settings(self):
        """Lets no other call change the machine's settings meanwhile, if this way changes them."""
        if self.changes_settings():
            fcntl.flock(SETTINGS, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if self.changes_settings():
                fcntl.flock(SETTINGS, fcntl.LOCK_UN)


@contextlib.contextmanager
def settled_delays(lock=DELAYACCT_LOCK, switch=TASK_DELAYACCT, patience=HANGS_AFTER):
    """kernel.task_delayacct as it is while no weigh has it on, and none changes it meanwhile. None where one keeps it on."""
    if not switch.exists():
        yield None
        return
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        end, value = time.monotonic() + patience, None
        while value is None and time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # One that was killed has left the note.
                value = (os.pread(descriptor, 1, 0).decode() or switch.read_text()).strip()
                continue
            time.sleep(0.1)
        yield value
    finally:
        os.close(descriptor)


def all_ways():
    run = lambda mechanism: ["run", "--mechanism", mechanism, "-o", "@/recording"]
    io = lambda mechanism: ["io", "--mechanism", mechanism, "--json", "@/told.json"]
    return [
        Way("run-bpf", run("bpf") + ["--delays"]),
        Way("run-ptrace", run("ptrace"), NOBODY),
        Way("run-preload", run("preload"), NOBODY),
        Way("run-poll", run("poll"), NOBODY),
        Way("io-bpf", io("bpf")),
        Way("io-ptrace", io("ptrace") + ["--no-seccomp"], NOBODY),
        Way("io-preload", io("preload"), NOBODY),
        Way("calls-bpf", ["calls", "--mechanism", "bpf", "--json", "@/told.json"]),
        Way("calls-preload", ["calls", "--mechanism", "preload", "--json", "@/told.json"]),
        Way("trace", ["trace", "-e", "sched:sched_process_exec", "-o", "@/events.jsonl"]),
        Way("io-mount", ["io", "mount", "@/source", "@/mounted"], mounts=True),
    ]


# Where a mechanism that was asked for by name, or any recording, is impossible: weigh may say so before the command
# has begun.
MAY_REFUSE = {"no file of any size", "files of 40 KiB at most"}
SHARED_MEMORY = ["4k", "64k", "1m", "64m"]
WRITE_ERRORS = ["EIO", "ENOSPC", "EINTR", "short", "EIO+", "ENOSPC+"]
# A run makes some dozens of writes to files, and some ten thousand allocations.
WRITES, ALLOCATIONS = 40, 15
ABORTED = 128 + signal.SIGABRT


class Tried:
    """Runs of one way in a folder of their own."""

    def __init__(self, weigh, way):
        self.weigh, self.way = weigh, way
        self.folder = Path("/tmp") / way.name
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("", "home", "tmp", "source", "mounted"):
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o777)
        self.mark = f"{way.name}-{os.getpid()}"

    def environment(self):
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp"),
            "XDG_STATE_HOME": str(self.folder / "home"), "LANG": "C.UTF-8", MARK: self.mark,
        }

    def job(self, rounds, measured):
        """Its file lies in the mount where weigh serves one."""
        place = "mounted" if self.way.mounts and measured else "tmp"
        return ["/tmp/careful", str(rounds), str(self.folder / place / "careful.data")]

    def start(self, command, prelude=""):
        """Starts a command; what its standard output gets goes to a file."""
        self.out = self.folder / "out"
        with open(self.out, "wb") as out, open(self.folder / "err", "wb") as err:
            user = {"user": self.way.user, "group": self.way.user, "extra_groups": []} if self.way.user else {}
            # Spaces apart what is a word; assignments and redirections are the shell's.
            shell = ["bash", "-c", script(prelude), "bash", *command]
            return subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.folder / "tmp",
                                    env=self.environment(), pass_fds=(FULL_PIPE, DEAD_PIPE), **user)

    def said(self):
        return re.sub(r"begun \d+", "begun", self.out.read_text(errors="replace"))

    def ended(self, process):
        """Its status, or None where it hangs."""
        try:
            return process.wait(HANGS_AFTER)
        except subprocess.TimeoutExpired:
            self.end_all()
            process.kill()
            process.wait()
            return None

    def clear(self):
        for name in ("recording", "told.json", "events.jsonl"):
            path = self.folder / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def marked(self):
        """PIDs of all that carry the mark, with what they are."""
        found = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    if f"{MARK}={self.mark}".encode() in Path(entry.path, "environ").read_bytes().split(b"\0"):
                        words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
                        found[int(entry.name)] = b" ".join(words[:4]).decode(errors="replace")
                except OSError:
                    pass
        return found

    def end_all(self):
        for pid in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def unmount(self):
        if self.way.mounts:
            subprocess.run(["umount", "-l", self.folder / "mounted"], stderr=subprocess.DEVNULL)

    def litter(self):
        """What lies in the folders for temporary files."""
        own = self.folder / "tmp"
        left = [str(path.relative_to(own)) for path in own.rglob("*") if path.name != "careful.data"]
        return left + [f"/dev/shm/{name}" for name in os.listdir("/dev/shm")]


def report(name, faults):
    print(f"FAIL  {name}: {'; '.join(faults)}" if faults else f"ok    {name}", flush=True)
    return not faults


def wait_for_end_of_jobs(tried):
    """Waits until no process of the job lives; what of weigh's lives then."""
    until = time.monotonic() + HANGS_AFTER
    while time.monotonic() < until:
        alive = tried.marked()
        if not any("careful" in words and "weigh" not in words.split()[0] for words in alive.values()):
            break
        time.sleep(SECONDS_BETWEEN_LOOKS)
    # What is to end by itself gets its moment.
    for _ in range(50):
        alive = tried.marked()
        if not alive:
            return {}
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return alive


class State:
    """How far a long run has come, by part and way."""

    def __init__(self, path):
        self.path = None
        if path:
            # The folder itself: its path may lead through the /tmp that is covered later.
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY)
            self.path = Path(f"/proc/self/fd/{folder}") / Path(path).name
        self.all = json.loads(self.path.read_text()) if self.path and self.path.exists() else {}

    def of(self, name):
        so_far = self.all.setdefault(name, {})
        for key in ("harmed", "left", "files", "hangs", "lost", "ways"):
            so_far.setdefault(key, [])
        so_far.setdefault("done", 0)
        return so_far

    def save(self):
        if self.path:
            self.path.write_text(json.dumps(self.all, indent=1))


def chance_of(seed, name, so_far):
    """What goes on where another call ended does not repeat it."""
    return random.Random(f"{seed} {name} {so_far['done']}")


def rows(state):
    """The table: what was found in all, and in how many tries."""
    parts = lambda *names: [found for name, found in state.all.items() if name.split()[0] in names]
    sums = lambda found, *keys: " / ".join(str(sum(len(part[key]) for part in found)) for key in keys)
    tries = lambda found: sum(part["done"] for part in found)
    memory, kills, odd, other = parts("memory"), parts("kills"), parts("surroundings"), parts("disks", "failures")
    least = min((part["done"] for part in kills), default=0)
    yield "/dev/shm fills at a random moment: jobs that die", sums(memory, "harmed"), tries(memory)
    killed = f"kills, {least} a way at least: jobs harmed / processes left / files left after the next run"
    yield killed, sums(kills, "harmed", "left", "files"), tries(kills)
    yield "surroundings × ways: hangs / lost statuses", sums(odd, "hangs", "lost"), sum(len(part["ways"]) for part in odd)
    yield "full disks, failing writes and allocations: lost statuses", sums(other, "lost"), tries(other)


LATER_RUNS = 5
# So many sizes one after the other, for what is written differs a little from run to run.
SIZES_THAT_FIT = 4


def kills(weigh, way, number, seed, state):
    tried = Tried(weigh, way)
    # A weigh that aborted for want of memory leaves its file to the next of its kind, and that may be no run of this way.
    subprocess.run(["find", "/dev/shm", "-mindepth", "1", "-delete"], check=True)
    so_far = state.of(f"kills {way.name}")
    chance = chance_of(seed, f"kills {way.name}", so_far)
    command = lambda: way.command(weigh, tried.folder, tried.job(ROUNDS, True))
    # Beside a way that leaves it alone another call may change it; and a weigh of nobody here may have it on.
    delays = None
    if way.changes_settings():
        with settled_delays() as delays:
            pass
    began = time.monotonic()
    whole = tried.ended(tried.start(command()))
    length = time.monotonic() - began
    if whole != 7:
        return report(f"kills {way.name}", [f"undisturbed it ended with {whole}: {(tried.folder / 'err').read_text()[-300:]}"])
    harmed, left = so_far["harmed"], so_far["left"]
    while so_far["done"] < number:
        tried.clear()
        tried.unmount()
        process = tried.start(command())
        moment = chance.uniform(0, length * 1.1)
        time.sleep(moment)
        process.kill()
        process.wait()
        alive = wait_for_end_of_jobs(tried)
        said = tried.said()
        # Who uses a mount whose server is gone gets an error, and nothing else.
        if "begun" in said and "whole" not in said and not way.mounts:
            harmed.append(f"killed after {moment:.3f} s: {(tried.folder / 'err').read_text()[-200:]}")
        left += alive.values()
        tried.end_all()
        so_far["done"] += 1
        state.save()
    tried.clear()
    tried.unmount()
    again = tried.ended(tried.start(command()))
    # A process that is just executing a program may be of the job for all that can be seen: the folder stays for a
    # later run.
    for _ in range(LATER_RUNS):
        if not tried.litter():
            break
        time.sleep(1)
        later = tried.ended(tried.start(command()))
        again = later if again == 7 else again
    litter = so_far["files"]
    litter += tried.litter()
    state.save()
    faults = []
    if harmed:
        faults.append(f"{len(harmed)} of {number} jobs harmed, first {harmed[0]}")
    if left:
        faults.append(f"{len(left)} processes left of {number} kills, first {left[0]}")
    if again != 7:
        faults.append(f"the run after ended with {again}")
    if litter:
        faults.append(f"{len(litter)} files left after the next run, first {litter[0]}")
    if delays is not None:
        with settled_delays() as now:
            if now is not None and TASK_DELAYACCT.read_text().strip() != delays:
                faults.append("kernel.task_delayacct is not as it was")
                TASK_DELAYACCT.write_text(delays)
    return report(f"kills {way.name}, {so_far['done']}", faults)


def surrounded(weigh, ways, which, prelude, state):
    so_far = state.of(f"surroundings {which}")
    for way in ways:
        if way.name in so_far["ways"]:
            continue
        tried = Tried(weigh, way)
        expected = tried.ended(tried.start(tried.job(1, False), prelude)), tried.said()
        with way.alone_with_settings():
            measured = tried.ended(tried.start(way.command(weigh, tried.folder, tried.job(1, True)), prelude))
        tried.unmount()
        found = measured, tried.said()
        begun = "begun" in found[1]
        if found != expected and not (which in MAY_REFUSE and measured == 125 and not begun):
            told = (tried.folder / "err").read_text(errors="replace")[-200:].strip()
            hangs = "hangs" if measured is None else f"status {found[0]} for {expected[0]}"
            fault = f"{way.name}: {hangs}, said {found[1]!r} for {expected[1]!r} ({told!r})"
            so_far["hangs" if measured is None else "lost"].append(fault)
        tried.end_all()
        so_far["ways"].append(way.name)
        state.save()
    return report(f"surroundings {which}, {len(so_far['ways'])} ways", so_far["hangs"] + so_far["lost"])


def surroundings(weigh, ways, number, seed, state):
    a_time = min(len(ways), max(3, number // 10))
    first, good = random.Random(seed).randrange(len(ways)), True
    for at, (which, prelude) in enumerate(SURROUNDINGS):
        chosen = [ways[(first + at * a_time + i) % len(ways)] for i in range(a_time)]
        good &= surrounded(weigh, chosen, which, prelude, state)
    return good


def disks(weigh, way, number, state):
    """A recording on a disk that is too small for it, from nothing on: the status is the job's."""
    tried = Tried(weigh, way)
    disk, so_far = tried.folder / "disk", state.of(f"disks {way.name}")
    there = Way(way.name, [option.replace("@/", "@/disk/") for option in way.options], way.user)
    disk.mkdir()
    fitting = 0
    for size in range(so_far["done"] + 1, number + 1):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={4096 * size},mode=1777", "none", disk], check=True)
        status = tried.ended(tried.start(there.command(weigh, tried.folder, tried.job(1, True))))
        said, told = tried.said(), (tried.folder / "err").read_text(errors="replace")
        # A recording that cannot be begun is a reason not to begin the command.
        if status != 7 and not (status == 125 and "begun" not in said and told):
            so_far["lost"].append(f"{4 * size} KiB: status {status}, {told[-200:]!r}")
        is_fitting = status == 7 and "No space" not in told and os.statvfs(disk).f_bfree > 0
        fitting = fitting + 1 if is_fitting else 0
        subprocess.run(["umount", "-l", disk], check=True)
        so_far["done"] = size
        state.save()
        if fitting == SIZES_THAT_FIT:
            break
    return report(f"disks {way.name}, {so_far['done']} sizes", so_far["lost"])


def failing(chance, at):
    """What fails at the run of a number, as failing.c has it."""
    if at % 2 == 0:
        return f"write {chance.randint(1, WRITES)} {chance.choice(WRITE_ERRORS)}"
    return f"malloc {int(2 ** chance.uniform(0, ALLOCATIONS))}"


# Rust's word, and glibc's own where the first use of a thread's data needs some.
NO_MEMORY = re.compile(r"memory allocation|out of memory")


def failures(weigh, way, number, seed, state):
    """Writes and allocations take turns."""
    tried, so_far = Tried(weigh, way), state.of(f"failures {way.name}")
    chance, faults = chance_of(seed, f"failures {way.name}", so_far), so_far["lost"]
    for at in range(so_far["done"], max(2, number // 5)):
        fails = failing(chance, at)
        prelude = f"env LD_PRELOAD=/tmp/failing.so 'WEIGH_FAILS={fails}'"
        status = tried.ended(tried.start(way.command(weigh, tried.folder, tried.job(1, True)), prelude))
        left = wait_for_end_of_jobs(tried)
        said, told = tried.said(), (tried.folder / "err").read_text(errors="replace")
        refused = status == 125 and "begun" not in said and told
        # Only the end of a tracer lets the programs go; all others wait for the command.
        may_abort = fails.startswith("malloc") and "ptrace" in way.name
        aborted = may_abort and status in (ABORTED, -signal.SIGABRT) and NO_MEMORY.search(told)
        if not (status == 7 or refused or aborted) or "panicked" in told:
            faults.append(f"{fails}: status {status}, {told[-200:]!r}")
        elif "begun" in said and "whole" not in said:
            faults.append(f"{fails}: the job did not come to its end, {said!r}")
        if left:
            faults.append(f"{fails}: left {left}")
        tried.end_all()
        tried.clear()
        so_far["done"] += 1
        state.save()
    return report(f"failures {way.name}, {so_far['done']}", faults)


def memory(weigh, way, number, seed, state):
    """Shared memory that somebody else fills. The job must not notice."""
    tried, so_far = Tried(weigh, way), state.of(f"memory {way.name}")
    chance = chance_of(seed, f"memory {way.name}", so_far)
    while so_far["done"] < number:
        size = SHARED_MEMORY[so_far["done"] % len(SHARED_MEMORY)]
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "none", "/dev/shm"], check=True)
        process = tried.start(way.command(weigh, tried.folder, tried.job(ROUNDS, True)))
        time.sleep(chance.uniform(0, 0.5))
        subprocess.run(["dd", "if=/dev/zero", "of=/dev/shm/full", "bs=4k"], stderr=subprocess.DEVNULL)
        status = tried.ended(process)
        if status != 7 or "whole" not in tried.said():
            told = (tried.folder / "err").read_text(errors="replace")[-200:]
            so_far["harmed"].append(f"/dev/shm of {size}: status {status}, {told!r}")
        tried.clear()
        subprocess.run(["umount", "-l", "/dev/shm"], check=True)
        so_far["done"] += 1
        state.save()
    harmed = so_far["harmed"]
    faults = [f"{len(harmed)} of {number} jobs harmed, first {harmed[0]}"] if harmed else []
    return report(f"memory {way.name}, {so_far['done']}", faults)


def apart(weigh):
    """Goes on in a mount namespace of its own, with what ordinary users need in /tmp."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    # What is below /tmp now is covered then.
    program, careful, failing = (path.read_bytes() for path in (Path(weigh), CAREFUL, HERE / "failing.c"))
    step = agent.step()
    for place in ("/tmp", "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", place], check=True)
    for name, content in (("weigh", program), ("careful", careful), ("step", step)):
        path = Path("/tmp") / name
        path.write_bytes(content)
        path.chmod(0o755)
    shared = ["cc", "-shared", "-fPIC", "-O1", "-o", "/tmp/failing.so", "-x", "c", "-"]
    subprocess.run(shared, input=failing, check=True)
    os.chdir("/tmp")
    return "/tmp/weigh"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weigh")
    parser.add_argument("--part", default=",".join(PARTS))
    parser.add_argument("--way", default="")
    parser.add_argument("--number", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=os.path.abspath)
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("torture.py: this wants root, for a mount namespace of its own and for other users")
    if os.environ.get("WEIGH_TORTURE_APART") != "1":
        os.environ["WEIGH_TORTURE_APART"] = "1"
        os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])
    seed, state, good = given.seed, State(given.state), True
    weigh = apart(os.path.abspath(given.weigh))
    pipe = inherited_pipes()
    ways = [way for way in all_ways() if given.way in way.name]
    if not ways and given.way != "agent":
        sys.exit(f"torture.py: no way has '{given.way}' in its name: {', '.join(way.name for way in all_ways())}")
    parts = given.part.split(",")
    if not set(parts) <= set(PARTS):
        sys.exit(f"torture.py: the parts are {', '.join(PARTS)}, not '{given.part}'")
    wanted = lambda part: part in parts
    for way in ways:
        if wanted("kills"):
            with way.alone_with_settings():
                good &= kills(weigh, way, given.number, seed, state)
        if wanted("memory") and "preload" in way.name:
            good &= memory(weigh, way, given.number, seed, state)
        if wanted("disks") and not way.mounts:
            good &= disks(weigh, way, given.number, state)
        if wanted("failures") and not way.mounts:
            good &= failures(weigh, way, given.number, seed, state)
    if wanted("agent") and given.way in "agent":
        good &= agent.tried(weigh, given.number, random.Random(seed), Tried, Way, report)
    if wanted("surroundings"):
        good &= surroundings(weigh, ways, given.number, seed, state)
    os.close(pipe)
    for what, found, tries in rows(state):
        print(f"| {what} | {found} of {tries} |")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
