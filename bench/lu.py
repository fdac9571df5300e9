#!/usr/bin/env python3
"""What regions, and publishing them at each iteration, cost LU of the NAS Parallel Benchmarks (NPB 3.4, MPI).

    bench/lu.py NPB3.4-MPI WEIGH [--rounds 20] [--minutes 22] [--works W:2:300,W:4:300,A:2:25,A:4:25]

Nothing is fetched: NPB3.4-MPI is the folder of that name of the suite. It is copied, and LU gets a region where it has
a timer, a phase around each iteration. A work is CLASS:RANKS:ITERATIONS. In each round each work runs by each kind once,
in random order:

    off        LU as it is
    kept       with regions, and the profile in a file (WEIGH_PROFILE)
    written    the same, and 25 KB are written to a file and renamed at each iteration
    run        `off` under `weigh run`
    published  with regions, published at each iteration, under `weigh run`

Printed are LU's own times: medians, and medians of the ratios in each round with bootstrap intervals (95 %). Needs
gfortran, cc and Open MPI.
"""
import argparse, json, os, random, re, shutil, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
LIBWEIGH = os.path.join(HERE, "../libweigh")
TIMERS = ["lcomm", "blts", "ucomm", "buts", "rhs", "exch"]
KINDS = {"off": [], "kept": ["REGIONS"], "written": ["REGIONS", "WRITE"], "published": ["REGIONS", "PUBLISH"]}
RUNS = {"off": ("off", False), "kept": ("kept", False), "written": ("written", False),
        "run": ("off", True), "published": ("published", True)}
PAIRS = [("kept", "off"), ("written", "off"), ("published", "run")]
GRID = {"W": (33, "1.5e-3"), "A": (64, "2.0")}

MODULE = """
module lu_regions
  use weigh_region
  integer(weigh_name), save :: r_iteration = 0, %s
contains
  subroutine iteration_ends
    call phase_end(r_iteration)
#ifdef PUBLISH
    call region_publish
#endif
#ifdef WRITE
    call write_profile
#endif
  end subroutine
end module
""" % ", ".join(f"r_{name} = 0" for name in TIMERS)

WRITE = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
void write_profile_(void)
{
	static char data[25 << 10];
	char name[32], partial[40];
	int file;

	snprintf(name, sizeof(name), "written.%d", getpid());
	snprintf(partial, sizeof(partial), "%s.partial", name);
	file = open(partial, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	if (file < 0 || write(file, data, sizeof(data)) != sizeof(data) || close(file) || rename(partial, name))
		_exit(99);
}
"""

ENVIRONMENT = dict(
    os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1",
    OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")


def call(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def replaced(text, pattern, by):
    text, times = re.subn(pattern, by, text)
    assert times, f"not the LU of NPB 3.4: {pattern} is not in it"
    return text


def annotate(folder):
    """A region where LU has a timer."""
    for name in ["ssor.f", "rhs.f"]:
        path = os.path.join(folder, "LU", name)
        with open(path) as source:
            text = source.read()
        text = replaced(text, r"\n      use timing\n", "\n      use timing\n      use lu_regions\n")
        text = replaced(text, r"if \(timeron\) call timer_start\(t_(\w+)\)", r"call region_begin('\1', r_\1)")
        text = replaced(text, r"if \(timeron\) call timer_stop\(t_(\w+)\)", r"call region_end(r_\1)")
        if name == "ssor.f":
            begin = "\\1         call phase_begin('iteration', r_iteration,\n     >      int(istep, 8))\n"
            text = replaced(text, r"(\n      do istep = 1, niter\n)", begin)
            text = replaced(text, r"\n      end do\n  900 ", "\n      call iteration_ends\n      end do\n  900 ")
        with open(path, "w") as source:
            source.write(text)


def build(npb, scratch, libweigh, kind, work_class):
    """LU of that kind and class: the path of the program."""
    folder = os.path.join(scratch, f"{kind}-{work_class}")
    shutil.copytree(npb, folder)
    os.makedirs(os.path.join(folder, "bin"), exist_ok=True)
    flags, objects = "-O3 -fallow-argument-mismatch", ""
    if KINDS[kind]:
        annotate(folder)
        at = os.path.join(folder, "LU")
        for name, text in [("lu_regions.F90", MODULE), ("write_profile.c", WRITE)]:
            with open(os.path.join(at, name), "w") as source:
                source.write(text)
        call("mpifort", "-O3", "-c", f"{libweigh}/include/weigh_region.f90", cwd=at)
        call("mpifort", "-O3", "-c", "lu_regions.F90", *[f"-D{word}" for word in KINDS[kind]], cwd=at)
        call("cc", "-O2", "-c", "write_profile.c", cwd=at)
        objects = f"lu_regions.o weigh_region.o write_profile.o {libweigh}/lib/libweigh.a"
    with open(os.path.join(folder, "config", "make.def"), "w") as settings:
        settings.write(f"MPIFC = mpifort\nFLINK = mpifort\nFMPI_LIB = {objects} -lpthread -ldl\nFFLAGS = {flags}\n"
                       "MPICC = mpicc\nCC = cc\nBINDIR = ../bin\nRAND = randi8\n")
    call("make", "-C", os.path.join(folder, "LU"), f"CLASS={work_class}")
    return os.path.join(folder, "bin", f"lu.{work_class}.x")


def prepare_input(folder, work_class, iterations):
    size, step = GRID[work_class]
    values = [f"1 {iterations}", iterations, step, "1.2", "1.0e-8 1.0e-8 1.0e-8 1.0e-8 1.0e-8", f"{size} {size} {size}"]
    with open(os.path.join(folder, "inputlu.data"), "w") as data:
        data.writelines(f"c\nc\n{value}\n" for value in values)


def once(weigh, programs, work, run, folder):
    """LU's own seconds; and where a recording is."""
    work_class, ranks, iterations = work
    kind, is_measured = RUNS[run]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    prepare_input(folder, work_class, iterations)
    recording = os.path.join(folder, "recording")
    command = ["mpirun", "-n", str(ranks), programs[kind, work_class]]
    if is_measured:
        command = [weigh, "run", "-q", "-o", recording, "--", *command]
    environment = dict(ENVIRONMENT, WEIGH_PROFILE=os.path.join(folder, "profile.%p"))
    said = call(*command, cwd=folder, env=environment)
    kept = [name for name in os.listdir(folder) if name.startswith("profile.")]
    assert len(kept) == (ranks if kind in ("kept", "written") else 0), kept
    return float(re.search(r"Time in seconds =\s+([\d.]+)", said)[1]), recording


def check(weigh, programs, work, folder):
    """Its regions are all there. How many calls an iteration has."""
    _, recording = once(weigh, programs, work, "published", folder)
    told = json.loads(call(weigh, "show", "--regions", "--json", recording))
    # LU does one iteration ahead to touch its memory.
    phases = work[1] * (work[2] + 1)
    found = sum(row["calls"] for row in told["regions"] if row["name"] == "iteration")
    assert len(told["phases"]) == found == phases, (len(told["phases"]), found, phases)
    return sum(row["calls"] for row in told["regions"]) / phases


def own_costs(scratch, libweigh):
    """Nanoseconds by bench/regions.c."""
    program = os.path.join(scratch, "costs")
    call("cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-pthread", os.path.join(HERE, "regions.c"), "-o", program,
         f"-I{libweigh}/include", f"{libweigh}/lib/libweigh.a")
    found = {}
    for line in call(program, "listener", "301").splitlines():
        name, ns = line.split("\t")
        found.setdefault(name, []).append(float(ns))
    return {name: statistics.median(values) for name, values in found.items()}


def interval(values, times=10_000):
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(times))
    return medians[int(times * 0.025)], medians[int(times * 0.975)]


def show(work, seconds, calls, costs):
    work_class, ranks, iterations = work
    print(f"\nclass {work_class}, {ranks} ranks, {iterations} iterations, {calls:.0f} regions in each")
    print("  " + ", ".join(f"{run} {statistics.median(values):.3f} s" for run, values in seconds.items()))
    for run, base in PAIRS:
        ratios = [one / other for one, other in zip(seconds[run], seconds[base])]
        low, high = interval(ratios)
        print(f"  {run} / {base}: {statistics.median(ratios):.4f} ({low:.4f} to {high:.4f}), {len(ratios)} pairs")
    both = costs["two reads of the clock"] + costs["begin and end"]
    later = costs["region after a publish"] - costs["publish"] - both
    publish = costs["publish"] + max(later, 0) * (len(TIMERS) + 1)
    total = statistics.median(seconds["published"]) * 1e9
    print(f"  own cost of a publish, with first writes after it: {publish:.0f} ns, of {iterations}: "
          f"{publish * iterations / total * 100:.5f} % of the run; of the regions: "
          f"{both * calls * iterations / total * 100:.3f} %", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("npb")
    arguments.add_argument("weigh")
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--minutes", type=float, default=22)
    arguments.add_argument("--works", default="W:2:300,W:4:300,A:2:25,A:4:25")
    asked = arguments.parse_args()
    end = time.monotonic() + asked.minutes * 60
    works = [(c, int(ranks), int(times)) for c, ranks, times in (text.split(":") for text in asked.works.split(","))]
    weigh = os.path.abspath(asked.weigh)
    with tempfile.TemporaryDirectory() as scratch:
        libweigh, folder = os.path.join(scratch, "libweigh"), os.path.join(scratch, "job")
        call("make", "-s", "-C", LIBWEIGH, "install", f"OUT={libweigh}/build", f"PREFIX={libweigh}")
        programs = {(kind, c): build(asked.npb, scratch, libweigh, kind, c) for kind in KINDS for c in {w[0] for w in works}}
        calls = {work: check(weigh, programs, work, folder) for work in works}
        costs = own_costs(scratch, libweigh)
        seconds = {work: {run: [] for run in RUNS} for work in works}
        chance, rounds = random.Random(22), 0
        while rounds < asked.rounds and time.monotonic() < end:
            for work in works:
                for run in chance.sample(list(RUNS), len(RUNS)):
                    seconds[work][run].append(once(weigh, programs, work, run, folder)[0])
            rounds += 1
            print(f"round {rounds}, {(end - time.monotonic()) / 60:.1f} minutes left", file=sys.stderr, flush=True)
        print({name: round(ns, 1) for name, ns in costs.items()})
        for work in works:
            show(work, seconds[work], calls[work], costs)


if __name__ == "__main__":
    main()
