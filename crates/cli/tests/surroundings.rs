//! What containers and careful administrators take away: weigh works without it, or says what to
//! do. An ordinary user everywhere; `docs/without-root.md` has the table.

mod support;

use std::fs;
use std::process::Command;
use std::sync::{PoisonError, RwLock};

use support::measured::Measured;
use support::run::Weigh;
use support::{is_slow, workload, worth_the_time};
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
    measured.check(value.quality == Quality::Exact, || format!("{value:?}"));
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
