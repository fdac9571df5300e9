//! Processes, threads and what they use: none missed, each with its own row, against the programs'
//! own word and against wait4(2).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::support::measured::{Measured, truths};
use crate::support::run::{Scratch, Weigh, bare, set_surroundings};
use crate::support::{
    amount, is_slow, patience, processes, slowness, wait_until, workload, worth_the_time,
};

/// Rows are true to the tree: one for each process, each parent known, times in order.
#[track_caller]
fn rows_are_whole(measured: &Measured, expected: u64) {
    measured.is("processes_total", expected);
    let rows = measured.processes();
    measured.check(rows.len() as u64 == expected, || {
        format!("{} rows in the table of processes, expected {expected}", rows.len())
    });
    let identities: BTreeSet<_> = rows.iter().map(|row| (row.pid, row.started_ns)).collect();
    measured.check(identities.len() == rows.len(), || "a process has two rows".to_string());
    let pids: BTreeSet<_> = rows.iter().map(|row| row.pid).collect();
    let roots = rows.iter().filter(|row| !pids.contains(&row.parent)).count();
    measured.check(roots == 1, || format!("{roots} processes have no parent in the job"));
    for row in &rows {
        let (start, end) = (row.started_ns, row.ended_ns);
        measured.check(end.is_some_and(|end| end >= start), || {
            format!("'{}' ({}) ran from {start} to {end:?}", row.command, row.pid)
        });
    }
    let lost: u64 = measured.summary().collectors.iter().map(|c| c.lost).sum();
    measured.check(lost == 0, || format!("{lost} events are lost"));
}

#[track_caller]
fn short_processes_are_seen(count: u64) {
    let measured =
        Weigh::bash(&format!("for ((i = 0; i < {count}; i++)); do /bin/true; done")).measure();
    rows_are_whole(&measured, count + 1);
    measured.is("processes_peak", 2);
    let rows = measured.processes();
    let of_true = rows.iter().filter(|row| row.command == "/bin/true");
    let good = of_true.filter(|row| row.name == "true" && row.exit_code == Some(0)).count();
    measured.check(good as u64 == count, || {
        format!("{good} rows are of /bin/true with exit code 0, expected {count}")
    });
}

#[test]
fn five_hundred_short_processes() {
    needs_root!();
    short_processes_are_seen(amount(500));
}

/// Of eight thousand their number is held by the hard cases.
#[test]
fn three_thousand_short_processes() {
    needs_root!();
    short_processes_are_seen(if is_slow() { 300 } else { 3_000 });
}

/// Runs `procs` in each of these ways, one after the other, in one job; processes and rows must be
/// what it says.
#[track_caller]
fn processes_made_by(hows: &[&str]) -> Measured {
    let procs = workload("procs");
    let commands =
        hows.iter().map(|how| format!("TRUTH_FILE=../{how} {procs} 23 {how} || exit 1\n"));
    let measured = Weigh::bash(&commands.collect::<String>()).measure();
    let told: Vec<_> = hows.iter().map(|how| truths(&measured.scratch.text(how))).collect();
    // The shell is one, and alive beside each of them.
    rows_are_whole(&measured, 1 + told.iter().map(|truth| truth["processes_total"]).sum::<u64>());
    let peaks: Option<Vec<u64>> =
        told.iter().map(|truth| truth.get("processes_peak").copied()).collect();
    if let Some(peak) = peaks.and_then(|peaks| peaks.into_iter().max()) {
        measured.is("processes_peak", 1 + peak);
    }
    measured
}

#[test]
fn made_by_fork() {
    needs_root!();
    processes_made_by(&["fork", "setsid", "thread-fork"]);
    processes_made_by(&["chain", "together"]);
}

#[test]
fn made_by_vfork_and_its_relatives() {
    needs_root!();
    processes_made_by(&["vfork", "posix_spawn", "clone3"]);
    processes_made_by(&["fastexit"]);
}

#[test]
fn made_behind_the_back_of_the_parent() {
    needs_root!();
    processes_made_by(&["nephew", "doublefork"]);
    // Siblings of the command itself: children of weigh, which must not take them for others.
    let measured = Weigh::workload("procs 23 clone_parent").measure();
    rows_are_whole(&measured, measured.truth("processes_total"));
}

#[test]
fn made_in_other_namespaces_and_by_other_users() {
    needs_root!();
    let measured = processes_made_by(&["pidns", "userns", "nobody"]);
    // PIDs are those of the initial name space, whatever the process itself sees.
    let ones = measured.processes().iter().filter(|row| row.pid == 1).count();
    measured.check(ones == 0, || format!("{ones} rows have PID 1"));
    let nobody = measured.processes().iter().filter(|row| row.uid == 65534).count();
    measured.check(nobody == 46, || format!("{nobody} rows of user 65534, expected 46"));
}

#[test]
fn an_exec_makes_no_process() {
    needs_root!();
    let measured = processes_made_by(&["exec", "thread-exec"]);
    let rows = measured.processes();
    let count = rows.iter().filter(|row| row.command == "true" && row.name == "true").count();
    measured.check(count == 46, || format!("{count} rows are of true, expected 46"));
    let measured = Weigh::workload("procs 23 reexec").measure();
    rows_are_whole(&measured, 1);
}

#[test]
fn how_each_process_ended() {
    needs_root!();
    let killed = processes_made_by(&["killed"]);
    let signals = killed.processes().iter().filter(|row| row.exit_signal == Some(9)).count();
    killed.check(signals == 23, || format!("{signals} rows ended by SIGKILL, expected 23"));

    let measured =
        Weigh::bash("(exit 3); (exit 200); (kill -TERM $BASHPID); (kill -SEGV $BASHPID); exit 7")
            .end();
    assert_eq!(measured.status.code(), Some(7), "{}", measured.everything());
    let mut ends: Vec<_> =
        measured.processes().iter().map(|row| (row.exit_code, row.exit_signal)).collect();
    ends.sort();
    let expected =
        [(None, Some(11)), (None, Some(15)), (Some(3), None), (Some(7), None), (Some(200), None)];
    measured.check(ends == expected, || format!("processes ended as {ends:?}"));
    let exit = measured.summary().exit.clone().expect("the job has ended");
    assert_eq!((exit.code, exit.signal), (Some(7), None));
}

#[test]
fn threads_are_counted_at_their_peak() {
    needs_root!();
    let measured = Weigh::workload("threads 64 6400000").measure();
    rows_are_whole(&measured, 1);
    measured.is("threads_peak", measured.truth("threads_peak"));
    measured.is("processes_peak", 1);
}

#[test]
fn a_daemon_that_outlives_its_parent() {
    needs_root!();
    let begun = Instant::now();
    let mut running = Weigh::workload("daemon 0 daemon-output enough").start();
    running.wait_for("waiting for 1 of its descendants: daemon");
    let lives_on = Duration::from_secs(1);
    std::thread::sleep(lives_on);
    std::fs::write(running.scratch.path("work/enough"), "").expect("a file");
    let measured = running.end();
    let most = begun.elapsed().as_secs_f64();
    measured.was_followed_by_the_kernel();
    rows_are_whole(&measured, measured.truth("processes_total"));
    measured.is_between("wall_seconds", lives_on.as_secs_f64(), most);
    // The truth, told by one write, and the PID that goes through a pipe.
    let told = measured.scratch.text("truth").len() as u64 + 4;
    measured.is("io_written_bytes_total", measured.truth("daemon_written_bytes") + told);
    measured.is("io_write_calls_total", measured.truth("daemon_write_calls") + 2);
    let least = measured.truth("daemon_cpu_ns_at_least") as f64 * 1e-9;
    measured.is_between("cpu_seconds", least, least * 5.0 * f64::from(slowness()));
    let size = measured.scratch.path("work/daemon-output").metadata().expect("a file").len();
    assert_eq!(size, 1_000_003);
}

#[test]
fn a_daemon_that_is_not_waited_for() {
    needs_root!();
    let run = Weigh::workload("daemon 0 daemon-output enough").options("--wait-for main");
    let measured = run.measure();
    measured.is("processes_total", 3);
    let rows = measured.processes();
    let alive: Vec<_> = rows.iter().filter(|row| row.ended_ns.is_none()).collect();
    measured.check(rows.len() == 3 && alive.len() == 1, || format!("rows: {rows:#?}"));
    measured.check(processes::is_alive(alive[0].pid), || "the daemon was ended".to_string());
    // It goes on as if nothing had been.
    std::fs::write(measured.scratch.path("work/enough"), "").expect("a file");
    let output = measured.scratch.path("work/daemon-output");
    wait_until("the daemon has written", 10.0, || {
        output.metadata().is_ok_and(|file| file.len() == 1_000_003)
    });
}

#[test]
fn wait_for_ends_when_interrupted() {
    needs_root!();
    let mut running = Weigh::workload("daemon 0 daemon-output never").start();
    running.wait_for("waiting for");
    assert!(processes::signal(running.pid(), 2));
    let measured = running.end();
    let alive = measured.processes().iter().filter(|row| row.ended_ns.is_none()).count();
    measured.check(alive == 1, || format!("{alive} processes are alive, expected the daemon"));
}

/// Of nanosecond clocks: 1 %, or 2 ms; on a slow machine what a process does after its last look
/// at the clock takes longer.
fn cpu_slack(seconds: f64) -> f64 {
    let end = if is_slow() { 0.005 * f64::from(slowness()) } else { 0.002 };
    (seconds * 0.01).max(end)
}

#[test]
fn cpu_time_is_what_the_program_says() {
    needs_root!();
    for line in worth_the_time(&["spin 100 4", "spin 300", "spin-static 300"], 1) {
        let measured = Weigh::workload(line).measure();
        let truth = measured.truth("cpu_ns") as f64 * 1e-9;
        // The program does not see its end; what its clock shows from before its exec is weigh's.
        let slack = cpu_slack(truth);
        measured.is_between("cpu_seconds", truth - slack, truth + slack);
        let sum = measured.number("cpu_user_seconds") + measured.number("cpu_system_seconds");
        measured.check((sum - measured.number("cpu_seconds")).abs() < 1e-6, || {
            "user and system time are not the whole".to_string()
        });
        let wall = measured.number("wall_seconds");
        let least = measured.truth("wall_ns") as f64 * 1e-9;
        measured.check(wall >= least, || format!("wall_seconds is less than {least}"));
    }
}

#[test]
fn one_thread_keeps_no_more_than_one_cpu_busy() {
    needs_root!();
    // Freeing 400 MB at its end takes a process a while, on the CPU.
    for line in ["spin 200", "fill 400000000"] {
        let measured = Weigh::workload(line).measure();
        measured.is_between("cpu_cores_average", 0.0, 1.001);
    }
}

/// wait4 knows the last switches of a process only if those were made before its parent waited; weigh knows all.
fn is_as_wait4_says(found: f64, expected: f64, slack: f64, last_switches: f64) -> bool {
    found >= expected - slack && found <= expected + slack + last_switches
}

#[test]
fn a_process_agrees_with_wait4() {
    needs_root!();
    let spin = format!("{} 300", workload("spin"));
    let words: Vec<&str> = spin.split(' ').collect();
    let witness = workload("witness");
    let measured = Weigh::run([witness.as_str()].iter().chain(&words)).measure();
    let seen = truths(&String::from_utf8_lossy(&measured.stdout));
    let row = measured.process(&spin);
    // Which of the two it was is known by the tick only (4 ms where there are 250 a second), and
    // wait4 lets neither of them ever go back.
    let split = cpu_slack(0.3) + 0.004;
    let sum = row.metrics["cpu_user_seconds"].as_f64() + row.metrics["cpu_system_seconds"].as_f64();
    let expected = (seen["user_us"] + seen["system_us"]) as f64 * 1e-6;
    measured.check((sum - expected).abs() <= cpu_slack(0.3), || {
        format!("CPU time of spin is {sum}, wait4 says {expected}")
    });
    for (metric, field, slack, more) in [
        ("cpu_user_seconds", "user_us", split, 0.0),
        ("cpu_system_seconds", "system_us", split, 0.0),
        ("context_switches_voluntary_total", "voluntary_switches", 0.0, 1.0),
        ("context_switches_involuntary_total", "involuntary_switches", 0.0, 1.0),
        ("page_faults_minor_total", "minor_faults", 0.0, 0.0),
        ("page_faults_major_total", "major_faults", 0.0, 0.0),
    ] {
        let factor = if field.ends_with("_us") { 1e-6 } else { 1.0 };
        let expected = seen[field] as f64 * factor;
        let found = row.metrics[metric].as_f64();
        measured.check(is_as_wait4_says(found, expected, slack, more), || {
            format!("{metric} of spin is {found}, wait4 says {expected}, {slack} is allowed")
        });
    }
}

#[test]
fn a_tree_of_short_processes_agrees_with_wait4() {
    needs_root!();
    let script = format!("for ((i = 0; i < {}; i++)); do /bin/true; done", amount(300));
    let measured =
        Weigh::run([workload("witness").as_str(), "bash", "-c", script.as_str()]).measure();
    let seen = truths(&String::from_utf8_lossy(&measured.stdout));
    let rows = measured.processes();
    let below = rows.iter().filter(|row| !row.command.contains("witness"));
    let sum = |metric: &str| -> f64 {
        below.clone().filter_map(|row| row.metrics.get(metric)).map(|n| n.as_f64()).sum()
    };
    let kernel = (seen["user_us"] + seen["system_us"]) as f64 * 1e-6;
    let slack = kernel * 0.01 + 0.002;
    measured.check((sum("cpu_seconds") - kernel).abs() <= slack, || {
        format!("the rows add up to {} CPU seconds, wait4 says {kernel}", sum("cpu_seconds"))
    });
    let last_switches = below.clone().count() as f64;
    for (metric, field, more) in [
        ("context_switches_voluntary_total", "voluntary_switches", last_switches),
        ("page_faults_minor_total", "minor_faults", 0.0),
    ] {
        let (found, expected) = (sum(metric), seen[field] as f64);
        measured.check(is_as_wait4_says(found, expected, expected * 0.01, more), || {
            format!("the rows add up to {found} {metric}, wait4 says {expected}")
        });
    }
}

#[test]
fn switches_and_faults_are_what_the_program_says() {
    needs_root!();
    let measured = Weigh::workload("switches 137").measure();
    // What the kernel told the program of itself; not in it is its end, and in it is that it waited
    // to be let go. Others are waits for the program itself, read from disk. A few that were asked
    // for may find nothing to wait for.
    let told = measured.truth("voluntary_switches") as f64;
    let asked = measured.truth("asked_switches") as f64;
    let waits = f64::from(8 * slowness());
    measured.check((told - asked).abs() <= waits, || format!("{told} of {asked} switches"));
    measured.is_between("context_switches_voluntary_total", told - 3.0, told + 1.0 + waits);

    // A program's start and end cost faults of their own, the same each time but for a few.
    let empty = bare(
        &crate::support::run::Scratch::new(),
        &[&workload("witness"), &workload("faults"), "0"],
    );
    let empty = truths(&String::from_utf8_lossy(&empty))["minor_faults"] as f64;
    let measured = Weigh::workload("faults 2237").measure();
    let expected = measured.truth("asked_faults") as f64 + empty;
    // weigh's child has some until it executes the program.
    measured.is_between("page_faults_minor_total", expected - 40.0, expected + 80.0);
}

/// A control group with a CPU quota, where one can be made.
pub struct QuotaGroup {
    pub path: std::path::PathBuf,
}

impl QuotaGroup {
    pub fn create(percent: u64) -> Option<QuotaGroup> {
        let name = format!("weigh-quota-{}", std::process::id());
        let quota = (percent * 1000).to_string();
        for (place, file, text) in [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", quota.clone()),
            ("/sys/fs/cgroup", "cpu.max", format!("{quota} 100000")),
        ] {
            let path = std::path::Path::new(place).join(&name);
            if std::fs::create_dir(&path).is_ok() {
                let group = QuotaGroup { path };
                if std::fs::write(group.path.join(file), text).is_ok() {
                    return Some(group);
                }
            }
        }
        None
    }

    /// What the kernel counts for it, in seconds.
    fn throttled(&self) -> f64 {
        let text = std::fs::read_to_string(self.path.join("cpu.stat")).unwrap_or_default();
        let number = |key: &str| -> Option<f64> {
            text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
        };
        let seconds = number("throttled_usec ").map(|us| us * 1e-6);
        seconds.or(number("throttled_time ").map(|ns| ns * 1e-9)).unwrap_or_default()
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        let end = Instant::now() + patience(5.0);
        while std::fs::remove_dir(&self.path).is_err() && Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// A job that waits because its quota is used up does not wait for others.
#[test]
fn waiting_because_of_a_quota_is_told_apart() {
    needs_root!();
    // Little enough to be used up beside others, too.
    let Some(group) = QuotaGroup::create(10) else {
        crate::support::leave_out("no CPU controller here");
        return;
    };
    let procs = group.path.join("cgroup.procs");
    for (line, threads) in [("spin 100 1", 1.0), ("spin 20 5", 5.0)] {
        let before = group.throttled();
        let confinement = format!("group={}", procs.display());
        let measured = Weigh::workload(line).options("--delays").within(confinement).end();
        measured.check(measured.status.success(), || "expected 0".to_string());
        // One thread never waits for itself; of five on fewer CPUs some do for each other.
        let own = measured.number("delay_cpu_own_seconds");
        measured.check((own > 0.0) == (threads > 1.0), || format!("{own} s behind its own"));
        // A thread may be kept for periods that nobody followed, the more the busier the machine is; it is told.
        let by_the_group = group.throttled() - before;
        adds_up_but_for(&measured, threads * by_the_group.max(0.2));
        let all = measured.number("delay_cpu_seconds");
        let told = measured.number("delay_cpu_throttled_seconds");
        measured.check(told <= all, || format!("{told} s of {all} s"));
        measured.check(told <= by_the_group * threads + 0.001, || {
            format!("{told} s, the group was throttled for {by_the_group} s")
        });
        // 0.1 s at a tenth of a CPU take 0.9 s more, but for the first and the last period; how much of that
        // others on the same CPUs take is theirs.
        measured.check(told >= 0.2, || format!("{told} s of {all} s, {by_the_group} s"));
        let value = measured.value("delay_cpu_throttled_seconds");
        let reason = value.reason.clone().unwrap_or_default();
        let bounds: Vec<f64> =
            reason.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        measured.check(bounds[0] <= told && told <= bounds[1], || format!("{told}: {reason}"));
    }
}

/// Who had the CPU is known of all that the kernel has counted as waiting.
#[track_caller]
fn adds_up(measured: &Measured) {
    adds_up_but_for(measured, 0.0);
}

/// So many seconds may be missing, if the reason says so.
#[track_caller]
fn adds_up_but_for(measured: &Measured, missing: f64) {
    let seconds = |part: &str| measured.number(&format!("delay_cpu_{part}seconds"));
    let all = seconds("");
    let (own, others) = (seconds("own_"), seconds("others_"));
    let reason = measured.value("delay_cpu_own_seconds").reason.clone().unwrap_or_default();
    let nobody: f64 = reason.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
    let sum = own + others + nobody;
    let is_told = reason.contains(" s were followed, the kernel has counted ");
    let allowed = all * 0.02 + 0.002 + if is_told { missing } else { 0.0 };
    measured.check(sum <= all * 1.02 + 0.002 && all - sum <= allowed, || {
        format!("{own} own, {others} of others, {nobody} of nobody, {all} s in all")
    });
}

/// All of them on one CPU.
const PINNED: [&str; 3] = ["taskset", "-c", "0"];

fn pinned(line: &str) -> Weigh {
    let words = line.split(' ').map(String::from);
    let spin = std::iter::once(workload("spin")).chain(words);
    Weigh::run(PINNED.map(String::from).into_iter().chain(spin)).options("--delays")
}

/// The kernel itself counts some of them wrongly.
#[test]
fn waits_for_storage_are_not_exact() {
    needs_root!();
    let measured = Weigh::workload("spin 20").options("--delays").end();
    let value = measured.value("delay_block_seconds");
    let is_doubted = matches!(
        value.quality,
        weigh_schema::Quality::Estimated | weigh_schema::Quality::Unavailable
    ) && value.reason.as_deref().is_some_and(|why| why.contains("the kernel"));
    measured.check(is_doubted, || format!("{value:?}"));
}

#[test]
fn of_two_jobs_on_one_cpu_each_waits_for_the_other() {
    needs_root!();
    let mut beside = pinned("600000").start();
    let spinner = beside.process("spin 600000");
    let measured = pinned("200").measure();
    let one = nix::unistd::Pid::from_raw(spinner.cast_signed());
    nix::sys::signal::kill(one, nix::sys::signal::Signal::SIGTERM).expect("it is there");
    let beside = beside.end();
    for job in [&measured, &beside] {
        adds_up(job);
        job.check(job.number("delay_cpu_own_seconds") == 0.0, || "it waits for itself".to_string());
    }
    // While one has the CPU the other waits for it: for 0.2 s at least, which the first one has used.
    let others = beside.number("delay_cpu_others_seconds");
    beside.check(others >= 0.199, || format!("{others} s"));
    let others = measured.number("delay_cpu_others_seconds");
    let all = measured.number("delay_cpu_seconds");
    measured.check(others > 0.05 && others >= all * 0.9, || format!("{others} of {all} s"));
}

#[test]
fn threads_of_one_job_on_one_cpu_wait_for_each_other() {
    needs_root!();
    let measured = pinned("200 2").measure();
    adds_up(&measured);
    // When one of them has used its 0.2 s, the other has waited for that, but for the start.
    let own = measured.number("delay_cpu_own_seconds");
    measured.check(own >= 0.1, || format!("{own} s"));
}

#[test]
fn without_a_quota_no_wait_is_of_one() {
    needs_root!();
    let measured = Weigh::workload("spin 100 2").measure();
    let told = measured.number("delay_cpu_throttled_seconds");
    // The surroundings of the test may have one.
    measured.check(told <= measured.number("delay_cpu_seconds"), || told.to_string());
    measured.check(measured.number("delay_cpu_stolen_seconds") >= 0.0, || "stolen".to_string());
    for metric in ["delay_cpu_own_seconds", "delay_cpu_others_seconds"] {
        let value = measured.value(metric);
        measured.check(value.number().is_none() && value.reason.is_some(), || format!("{value:?}"));
    }
}

/// What the kernel tells is by the machine's own clocks, which are others there.
#[test]
fn times_are_right_in_a_time_namespace() {
    needs_root!();
    let scratch = Scratch::new();
    let apart = |words: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        set_surroundings(&mut command, &scratch);
        command.args(["--time", "--monotonic", "100000", "--boottime", "100000"]);
        command.arg(crate::support::weigh_binary()).args(words);
        let output = command.args(["--", "sh", "-c", "sleep 0.3; echo line > file"]).output();
        let output = output.expect("unshare");
        assert!(output.status.success(), "{output:?}");
    };
    let began = std::time::SystemTime::now();
    apart(&["run", "-q", "--mechanism", "bpf", "-o", "../recording"]);
    let recording = weigh_keep::Recording::open(&scratch.path("recording")).expect("a recording");
    let began = began.duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs_f64();
    for process in recording.processes(None).expect("processes").rows {
        let at = process.started_ns as f64 / 1e9 - began;
        assert!((-1.0..60.0).contains(&at), "{at} s after the test began");
    }
    apart(&["io", "-q", "--mechanism", "bpf", "--json", "../io.json"]);
    let report: serde_json::Value = serde_json::from_str(&scratch.text("io.json")).expect("JSON");
    let files = report["files"].as_array().expect("files");
    let file =
        files.iter().find(|file| file["name"].as_str().is_some_and(|n| n.ends_with("/file")));
    let first = file.expect("the file")["numbers"]["first_seconds"].as_f64().expect("a time");
    assert!((0.3..60.0).contains(&first), "{first} s after the command began");
}
