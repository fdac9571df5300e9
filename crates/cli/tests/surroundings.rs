//! What containers and careful administrators take away: weigh works without it, or says what to
//! do. An ordinary user everywhere; `docs/without-root.md` has the table.

mod support;

use std::fs;
use std::process::Command;
use std::sync::{PoisonError, RwLock};

use support::measured::Measured;
use support::run::{Scratch, Weigh, set_surroundings};
use support::{is_slow, weigh_for_everybody, workload, worth_the_time};
use weigh_schema::Quality;

/// Held to change what is the whole machine's; shared by whoever is not to notice.
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
    let exact = |name: &str| measured.value(name).quality == Quality::Exact;
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
    let measured = job("container", "").end();
    measured.said("user namespace, as in a rootless container");
}

#[test]
fn where_ptrace_is_forbidden_the_library_stands_in() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let measured = job("user,no-ptrace", "").end();
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
        eprintln!("six hundred processes at once are too many for this machine");
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
fn without_proc_the_command_is_not_run() {
    needs_root!();
    let _as_it_is = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let refused = job("no-proc,user", "").end();
    assert_eq!(refused.status.code(), Some(125), "{}", refused.everything());
    refused.said("/proc is not there");
    assert!(!refused.scratch.path("work/a").exists(), "the command was run");
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
