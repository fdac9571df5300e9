//! What containers and careful administrators take away: weigh works without it, or says what to
//! do. An ordinary user everywhere; `docs/without-root.md` has the table.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock};

use crate::support::measured::{Measured, is_exact_but_for_uncounted};
use crate::support::run::{Scratch, Weigh, bare_status, by, set_surroundings};
use crate::support::{
    WAYS, is_slow, patience, weigh_binary, weigh_for_everybody, workload, worth_the_time,
};
use weigh_schema::Quality;

/// Held to change what is the whole machine's; shared by tests that are not to notice.
static MACHINE: RwLock<()> = RwLock::new(());

/// What confines weigh, and still lets it trace.
const CONFINED: [&str; 5] =
    ["container", "container,profile", "user,profile", "hidepid,user", "user,no-rights"];

fn job(confinement: &str, options: &str) -> Weigh {
    Weigh::bash("\"$IO\" write 1000003 4099 a && \"$PROCS\" 23 fork && true")
        .env("IO", workload("io"))
        .env("PROCS", workload("procs"))
        .within(confinement)
        .options(options)
}

/// Processes, bytes and CPU time are exact.
#[track_caller]
fn is_right(measured: &Measured, knows_processes: bool) {
    assert!(measured.status.success(), "{}", measured.everything());
    // Besides what `procs` says: bash and `io`.
    let processes = measured.truth("processes_total") + 2;
    let told = measured.scratch.text("truth").len() as u64;
    let exact = |name: &str| is_exact_but_for_uncounted(measured.value(name));
    measured.is("io_written_bytes_total", 1_000_003 + told);
    for name in ["io_written_bytes_total", "cpu_seconds"] {
        measured.check(exact(name), || format!("{name}: {:?}", measured.value(name)));
    }
    if knows_processes {
        measured.is("processes_total", processes);
        measured.check(exact("processes_total"), || "processes_total".to_string());
    }
}

#[test]
fn in_containers_and_behind_their_profiles() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for confinement in worth_the_time(&CONFINED, 2) {
        for by in ["ptrace", "preload", "poll"] {
            let measured = job(confinement, &format!("--mechanism {by}")).end();
            is_right(&measured, by != "poll");
        }
        let measured = job(confinement, "").end();
        measured.said("by ptrace instead");
        is_right(&measured, true);
    }
    let measured = job("container", "--details").end();
    measured.said("user namespace, as in a rootless container");
}

/// Profiles of containers forbid kcmp(2), by which address spaces are compared.
#[test]
fn where_no_address_spaces_are_compared_the_call_that_made_them_tells() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let measured = Weigh::workload("shared 6 60000000 vm 100")
        .within("user,profile")
        .options("--mechanism ptrace")
        .end();
    assert!(measured.status.success(), "{}", measured.everything());
    measured.is_near("memory_peak_bytes", measured.truth("own_rss_bytes"), 0.01);
    let value = measured.value("memory_peak_bytes");
    measured.check(is_exact_but_for_uncounted(value), || format!("{value:?}"));
}

/// The bounds that a value's reason states, if it states any.
fn bounds(reason: &str, bytes: f64) -> Option<[f64; 2]> {
    if let Some((_, off_by)) = reason.split_once("off by up to ") {
        let off_by: f64 = off_by.split(' ').next()?.parse().ok()?;
        return Some([bytes - off_by, bytes + off_by]);
    }
    let stated = [("at least ", " and at most "), ("between ", " and ")];
    stated.into_iter().find_map(|(low, high)| {
        let (low, rest) = reason.split_once(low)?.1.split_once(high)?;
        Some([low.parse().ok()?, rest.split(' ').next()?.parse().ok()?])
    })
}

/// Where neither kcmp(2) nor the call is there to tell, the truth and the value are in the stated interval, and nothing
/// is called exact that is not.
#[test]
fn where_no_address_spaces_are_compared_the_interval_holds_the_truth() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for by in ["preload", "poll"] {
        for job in ["vm 400", "forkexec", "spawn"] {
            let measured = Weigh::workload(&format!("shared 6 60000000 {job}"))
                .within("user,profile")
                .options(&format!("--mechanism {by} --interval 20ms"))
                .end();
            assert!(measured.status.success(), "{}", measured.everything());
            let truth = measured.truth("own_rss_bytes") as f64;
            for metric in ["memory_peak_bytes", "memory_peak_rss_sum_bytes"] {
                let (value, bytes) = (measured.value(metric), measured.number(metric));
                let told = || format!("{by}, {job}: {metric}: {value:?}, not {truth}");
                if value.quality == Quality::Exact {
                    measured.check((bytes / truth - 1.0).abs() < 0.05, told);
                    continue;
                }
                let Some([low, high]) = bounds(value.reason.as_deref().unwrap_or_default(), bytes)
                else {
                    measured.check(false, told);
                    continue;
                };
                // Of two metrics one may be the other's bound.
                measured.check(low <= bytes * 1.01 && bytes <= high * 1.01, told);
                measured.check(low <= truth * 1.02 && truth <= high * 1.02, told);
            }
        }
    }
    // The library knows by the call that made them who uses whose memory.
    let weigh = Weigh::workload("shared 6 60000000 vm 400").within("user,profile");
    let measured = weigh.options("--mechanism preload").end();
    measured.is_near("memory_peak_bytes", measured.truth("own_rss_bytes"), 0.05);
}

/// A limit ends no job on a sum in which a shared address space counts more than once, and ends one whose programs hold
/// too much together.
#[test]
fn where_no_address_spaces_are_compared_limits_hold_to_what_is_certain() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let job = |weigh: Weigh, by: &str, metric: &str, limit: &str| {
        let options = format!("--mechanism {by} --interval 20ms --limit {metric}={limit}");
        weigh.within("user,profile").options(&options).end()
    };
    for by in ["preload", "poll"] {
        for metric in ["memory_peak_bytes", "memory_peak_rss_sum_bytes"] {
            let shared = Weigh::workload("shared 6 60000000 vm 700");
            let measured = job(shared, by, metric, "150MB");
            assert!(measured.status.success(), "{by}, {metric}: {}", measured.everything());
            measured.said("limits on memory are held against lower bounds");
            let apart = "import os, sys, time; x = b'1' * 60_000_000; \
                sys.argv[1:] and os.posix_spawn(sys.executable, ['python3', '-c', sys.argv[1]], os.environ); \
                time.sleep(20)";
            let program =
                ["python3", "-c", apart, "x = b'1' * 60_000_000; import time; time.sleep(20)"];
            let measured = job(Weigh::run(program), by, metric, "100MB");
            assert_eq!(
                measured.status.code(),
                Some(124),
                "{by}, {metric}: {}",
                measured.everything()
            );
        }
    }
}

#[test]
fn where_ptrace_is_forbidden_the_library_stands_in() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let measured = job("user,no-ptrace", "--details").end();
    measured.said("not by ptrace either: cannot trace a process: Operation not permitted");
    measured.said("a seccomp filter is in force");
    measured.said("by preload instead");
    is_right(&measured, true);
    let refused = job("user,no-ptrace", "--mechanism ptrace").end();
    assert_eq!(refused.status.code(), Some(125), "{}", refused.everything());
    refused.said("a seccomp filter is in force");
    assert!(!refused.scratch.path("work/a").exists(), "the command was run");
}

#[test]
fn where_nothing_can_be_written_but_the_recording() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for by in ["ptrace", "preload", "poll"] {
        let weigh = Weigh::bash("/bin/true; [ ! -w /tmp ] && exit 3");
        let writable = weigh.scratch().path("").display().to_string();
        let measured = weigh
            .within(format!("read-only={writable},user"))
            .options(&format!("--mechanism {by}"));
        let measured = measured.end();
        assert_eq!(measured.status.code(), Some(3), "{}", measured.everything());
        measured.is("io_written_bytes_total", 0);
        assert!(measured.recording().is_complete());
        let left = fs::read_dir(measured.scratch.path("recording")).expect("the recording");
        let left: Vec<_> = left.flatten().map(|f| f.file_name()).collect();
        assert!(!left.iter().any(|f| f.to_string_lossy().starts_with("weigh-")), "{left:?}");
    }
}

/// Where the files are that programs share with weigh.
const SHM: [&str; 3] = ["1m", "64m", "64k"];

/// What keeps such files, as root and as an ordinary user.
const SHARING: [(&str, &str); 6] = [
    ("run -q --mechanism preload", ""),
    ("run -q --mechanism preload", ",user"),
    ("run -q --io", ",user"),
    ("io -q --mechanism preload", ""),
    ("io -q", ",user"),
    ("calls -q --mechanism preload", ""),
];

/// Fills the file system before the loop goes round for the `$WHEN`th time.
const FILLING: &str = "for ((i = 0; i < 10; i++)); do
        [ $i = $WHEN ] && dd if=/dev/zero of=/dev/shm/all bs=64k count=2000 2>dd
        /bin/true || echo $? >>harmed; cat dd >f$i 2>cat; [ $? -le 1 ] || echo $? >>harmed
    done; exit 7";

/// A page that is touched and finds no room is a SIGBUS, in every program of the job and in weigh.
#[test]
fn where_the_job_leaves_no_room_in_dev_shm() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let sizes = worth_the_time(&SHM, 1).iter();
    let ways = sizes.flat_map(|size| SHARING.iter().map(move |way| (size, way)));
    for (round, (size, (way, user))) in ways.enumerate() {
        let scratch = Scratch::new();
        let mut command = Command::new(workload("confine"));
        command.arg(format!("shm={size}{user}")).arg(weigh_for_everybody());
        command.args(way.split(' ')).args(["--", "bash", "-c", FILLING]);
        set_surroundings(&mut command, &scratch);
        let output = command.env("WHEN", (round * 7 % 10).to_string()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{way}{user}, {size}: {said}");
        let harmed = scratch.text("work/harmed");
        assert!(harmed.is_empty(), "{way}{user}, {size}: {harmed} {said}");
    }
}

/// What finds no room is counted, and said beside the values.
#[test]
fn processes_without_room_in_dev_shm_are_said_to_be_so() {
    needs_root!();
    if is_slow() {
        crate::support::leave_out("six hundred processes at once are too many for this machine");
        return;
    }
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let script = "dd if=/dev/zero of=/dev/shm/all bs=64k count=2000 2>dd
        mkfifo p; exec 3<>p
        for ((i = 0; i < 600; i++)); do read -r <&3 & done
        for ((i = 0; i < 600; i++)); do echo; done >&3; wait; exit 7";
    let measured = Weigh::bash(script).within("shm=8m,user").options("--mechanism preload").end();
    measured.check(measured.status.code() == Some(7), || "expected 7".to_string());
    let total = measured.value("processes_total");
    let reason = total.reason.as_deref().unwrap_or_default();
    measured.check(reason.contains("no place in the shared file"), || format!("{total:?}"));
    measured.check(total.quality != Quality::Exact, || format!("{total:?}"));
}

#[test]
fn without_ps_or_any_other_program() {
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for by in ["ptrace", "preload", "poll"] {
        let measured = Weigh::workload("procs 23 fork")
            .run_by(65534)
            .env("PATH", "/proc/self/nowhere")
            .options(&format!("--mechanism {by}"))
            .end();
        assert!(measured.status.success(), "{}", measured.everything());
        if by != "poll" {
            measured.is("processes_total", measured.truth("processes_total"));
        }
    }
}

/// Debian's kernel in the virtual machine has Yama; the scope is the whole machine's.
#[test]
fn with_every_scope_of_yama_but_the_last() {
    needs_root!();
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    let scope = "/proc/sys/kernel/yama/ptrace_scope";
    let Ok(before) = fs::read_to_string(scope) else {
        assert!(!is_slow(), "the guest's kernel has Yama");
        return;
    };
    let outcome = std::panic::catch_unwind(|| {
        fs::write(scope, "1").expect("Yama's scope");
        is_right(&job("user", "--mechanism ptrace").end(), true);
        fs::write(scope, "2").expect("Yama's scope");
        let refused = job("user", "--mechanism ptrace").end();
        assert_eq!(refused.status.code(), Some(125), "{}", refused.everything());
        refused.said("kernel.yama.ptrace_scope is 2");
        let measured = job("user", "").end();
        measured.said("by preload instead");
        is_right(&measured, true);
    });
    fs::write(scope, before.trim()).expect("Yama's scope");
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// The guest has version 2 with the memory controller, as most machines of users do.
#[test]
fn in_a_delegated_group_the_peak_is_the_controllers() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let root = std::path::Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if !controllers.split_whitespace().any(|c| c == "memory") {
        assert!(!is_slow(), "the guest has the memory controller in version 2");
        return;
    }
    fs::write(root.join("cgroup.subtree_control"), "+memory").expect("the controller");
    let group = root.join(format!("delegated-{}", std::process::id()));
    fs::create_dir(&group).expect("a group");
    let chowned = Command::new("chown").arg("-R").arg("65534").arg(&group).status();
    assert!(chowned.expect("chown").success());
    for by in ["ptrace", "preload", "poll"] {
        let procs = group.join("cgroup.procs").display().to_string();
        let weigh = Weigh::workload("fill 57000000 exit").options(&format!("--mechanism {by}"));
        let measured = weigh.within(format!("group={procs},user")).end();
        assert!(measured.status.success(), "{}", measured.everything());
        let truth = measured.truth("filled_bytes") as f64;
        measured.is_between("memory_peak_cgroup_bytes", truth, truth * 1.05);
        let value = measured.value("memory_peak_cgroup_bytes");
        assert_eq!(value.quality, Quality::Exact);
        let control = fs::read_to_string(group.join("cgroup.subtree_control")).expect("readable");
        assert_eq!(control.trim(), "", "{by}: not as it was before");
        let children = fs::read_dir(&group).expect("readable").flatten();
        let children: Vec<_> = children.filter(|c| c.path().is_dir()).collect();
        assert!(children.is_empty(), "{by}: {children:?}");
    }
    fs::remove_dir(&group).expect("nobody is in it");
}

/// What launchers leave to those whom they start. The last: limits that weigh itself needs more than.
const LEFT_BEHIND: [&[&str]; 5] = [
    &[
        "subreaper",
        "parent-death=10",
        "hard=9:300000000",
        "hard=2:200000000",
        "hard=11:0",
        "hard=8:0",
    ],
    &["ignore=1,2,3,13,17,24,25,34,64", "block=10,15,17,40", "timers=1000"],
    &["ignore=all", "block=all", "soft=7:30", "soft=1:8192", "soft=3:131072", "soft=0:500"],
    &["close=0,1,2", "hard=7:300", "hard=0:500", "hard=4:0"],
    &["close=1", "hard=3:131072", "soft=6:400", "hard=5:4000000000"],
];

const TRACER: &str = "/proc/self/status TracerPid";

/// Runs `tty` with what a launcher leaves, bare or below weigh: what it found, and how it ended.
#[track_caller]
fn found(left: &[&str], weigh: Option<Command>, scratch: &Scratch) -> (String, Option<i32>) {
    let mut launched = Command::new(workload("launch"));
    launched.args(left).arg("--");
    if let Some(weigh) = weigh {
        launched.arg(weigh.get_program()).args(weigh.get_args()).arg("--");
    }
    launched.arg(workload("tty")).env("TTY_STATUS", "7").env("TTY_FILE", scratch.path("found"));
    set_surroundings(&mut launched, scratch);
    let null = || Stdio::null();
    let mut child = launched.stdin(null()).stdout(null()).stderr(null()).spawn().expect("launch");
    let end = std::time::Instant::now() + patience(60.0);
    let status = loop {
        if let Some(status) = child.try_wait().expect("our child") {
            break status;
        }
        if std::time::Instant::now() > end {
            child.kill().expect("our child");
            panic!("it has not ended: {launched:?}");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    // docs/transparent.md names the last three.
    let differing = ["pid=", "parent=", "cwd=", "variable=WEIGH_", "variable=LD_PRELOAD\n", TRACER];
    let differs = |line: &&str| differing.iter().any(|key| line.starts_with(key));
    let found = scratch.text("found");
    assert!(!found.is_empty(), "{launched:?} found nothing: {status}");
    (found.split_inclusive('\n').filter(|line| !differs(line)).collect(), status.code())
}

#[test]
fn what_a_launcher_leaves_is_the_commands_as_it_was() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for left in LEFT_BEHIND {
        let scratch = Scratch::new();
        let bare = found(left, None, &scratch);
        assert_eq!(bare.1, Some(7));
        for way in worth_the_time(&WAYS, 3) {
            let scratch = Scratch::new();
            let mut below = found(left, Some(by(way, &scratch)), &scratch);
            if way == &["calls", "--mechanism", "preload"] {
                // libweigh's connection to who serves it, out of the program's way.
                let is_own = |line: &&str| line.starts_with("fd") && line.contains("=socket:");
                below.0 = below.0.split_inclusive('\n').filter(|line| !is_own(line)).collect();
            }
            assert_eq!(below, bare, "left: below weigh, right: bare; {left:?} {way:?}");
        }
    }
}

/// The same as an ordinary user, who cannot raise a hard limit.
#[test]
fn what_a_launcher_leaves_to_an_ordinary_user() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for left in worth_the_time(&LEFT_BEHIND, 1) {
        let left = [left, &["user"][..]].concat();
        let bare = found(&left, None, &Scratch::new());
        for way in [&["run"][..], &["run", "--mechanism", "preload"], &["io"]] {
            let scratch = Scratch::new();
            let mut weigh = Command::new(weigh_for_everybody());
            weigh.args(by(way, &scratch).get_args());
            let below = found(&left, Some(weigh), &scratch);
            assert_eq!(below, bare, "left: below weigh, right: bare; {left:?} {way:?}");
        }
    }
}

/// A limit on the size of files is met as a full disk is: the job goes on to its end, and its status is weigh's.
#[test]
fn a_small_limit_of_files_is_a_failed_write() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let script = "for ((i = 0; i < 200; i++)); do /bin/true; done; ulimit -f; exit 7";
    for way in worth_the_time(&WAYS, 2) {
        let scratch = Scratch::new();
        let weigh = by(way, &scratch);
        let mut launched = Command::new(workload("launch"));
        launched.args(["hard=1:8192", "--"]).arg(weigh_binary()).args(weigh.get_args());
        set_surroundings(&mut launched, &scratch);
        let output = launched.args(["--", "bash", "-c", script]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{way:?}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "8\n", "{way:?}");
        if way[0] != "trace" {
            assert!(said.contains("File too large"), "{way:?}: {said}");
        }
    }
}

/// Where the library cannot share its file an ordinary user's job is followed in another way, and runs.
#[test]
fn a_small_limit_of_files_takes_the_library_not_the_job() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for way in [
        &["io"][..],
        &["io", "--mechanism", "preload"],
        &["io", "--mechanism", "preload+ptrace"],
        &["run", "--mechanism", "preload"],
        &["run", "--mechanism", "preload", "--level", "3"],
        &["run", "--mechanism", "preload", "--io"],
        &["run", "--io", "--io-mechanism", "preload+ptrace"],
    ] {
        let scratch = Scratch::new();
        let mut launched = Command::new(workload("launch"));
        launched.args(["hard=1:8192", "user", "--"]).arg(weigh_for_everybody());
        set_surroundings(&mut launched, &scratch);
        launched.args(way).args(["--", "sh", "-c", "ulimit -f; exit 7"]);
        let output = launched.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{way:?}: {said}");
        assert_eq!(output.stdout, b"16\n", "{way:?}: {said}");
        let word =
            if way.len() > 1 { "larger than 8.0 KiB here (ulimit -f); by" } else { "weigh doctor" };
        assert!(said.contains(word), "{way:?}: {said}");
    }
}

/// weigh uses CPU time of its own; where the hard limit has no room for that it lets go of the job in time, and waits.
#[test]
fn a_small_limit_of_cpu_time_ends_the_measuring_not_the_job() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    // Each process takes weigh time. There are no more once weigh, which is the shell's parent, has taken none for 300 of
    // them; the shell itself needs a second and a half for all of them where the machine is busy.
    let script = "for ((i = 0, same = 0; i < 7000 && same < 3; i++)); do /bin/true & wait $!; \
                  ((i % 100)) && continue; was=$now; read -ra of < /proc/$PPID/stat; \
                  now=$((of[13] + of[14])); ((same = now == was ? same + 1 : 0)); \
                  done; ulimit -Ht; exit 7";
    let user = ["hard=0:2", "user"];
    for (left, way) in [
        (&user[..], &["run", "--mechanism", "ptrace", "--interval", "10ms"][..]),
        (&user, &["run", "--mechanism", "poll", "--interval", "10ms"]),
        (&user, &["io", "--mechanism", "ptrace"]),
    ] {
        let scratch = Scratch::new();
        let mut launched = Command::new(workload("launch"));
        launched.args(left).arg("--").arg(weigh_for_everybody());
        launched.args(by(way, &scratch).get_args()).args(["--", "bash", "-c", script]);
        set_surroundings(&mut launched, &scratch);
        let output = launched.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{way:?}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n", "{way:?}");
        if is_slow() || !said.contains("measuring stopped") {
            assert!(way.contains(&"poll") || way[0] == "io", "{way:?} was never short: {said}");
            continue;
        }
        if way[0] == "run" && !said.contains("used up") {
            let recording = weigh_keep::Recording::open(&scratch.path("recording"));
            let recording = recording.expect("a recording");
            let cpu = &recording.summary().metrics["cpu_seconds"];
            let reason = cpu.reason.as_deref().unwrap_or_default();
            assert!(cpu.quality != Quality::Exact && reason.contains("ulimit -t 2"), "{cpu:?}");
        }
    }
}

/// Out of memory a tracer is aborted, whichever of its threads that meets: the job goes on, and its status is weigh's.
#[test]
fn a_tracer_without_memory_waits_for_the_job() {
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let script = "prlimit --pid $PPID --as=4096 --data=4096; \
                  for ((i = 1; i < 3000; i++)); do /bin/true \"$i\"; \
                  ((i % 50)) || ! grep -q '^TracerPid:.0$' /proc/$$/status || break; done; exit 7";
    for way in [
        &["run", "--mechanism", "ptrace"][..],
        &["run", "--mechanism", "ptrace", "--level", "3"],
        &["io", "--mechanism", "ptrace"],
    ] {
        let scratch = Scratch::new();
        let mut weigh = by(way, &scratch);
        set_surroundings(&mut weigh, &scratch);
        let output = weigh.args(["--", "bash", "-c", script]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{way:?}: {said}");
        assert!(said.contains("weigh was aborted; the command goes on"), "{way:?}: {said}");
    }
}

#[test]
fn json_for_a_closed_output_is_refused_before_the_command_runs() {
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    for verb in ["run", "io"] {
        let scratch = Scratch::new();
        let mut launched = Command::new(workload("launch"));
        launched.args(["close=1", "--"]).arg(weigh_binary()).args([verb, "--json", "-", "--"]);
        set_surroundings(&mut launched, &scratch);
        let output = launched.args(["touch", "ran"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{verb}: {said}");
        assert!(said.contains("standard output: it is closed"), "{verb}: {said}");
        assert!(!scratch.path("work/ran").exists(), "{verb}: the command was run");
    }
}

/// The library of `weigh calls` looked for its file by functions that it wraps itself: a megabyte of stack, and all
/// descriptors, in each child of fork(2).
#[test]
fn a_forked_child_needs_little_stack() {
    needs_root!();
    let scratch = Scratch::new();
    let weigh = weigh_binary().display().to_string();
    let careful = workload("careful");
    for verb in ["calls", "io"] {
        let script = format!(
            "ulimit -s 128; exec {weigh} {verb} -q --mechanism preload --json told.json -- {careful} 1 data"
        );
        let (said, status) = bare_status(&scratch, &["timeout", "60", "bash", "-c", &script]);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(status, Some(7), "{verb}: {said}");
        assert!(said.ends_with("whole 1\n"), "{verb}: {said}");
    }
}
