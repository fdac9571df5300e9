//! How often weigh wakes beside a job, by the kernel's count of its threads' voluntary switches: whatever the machine does
//! meanwhile, a timer fires no sooner.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::mortal::Mortal;
use crate::support::{processes, wait_until, weigh_binary};

/// Wake-ups of a second at most, two seconds after the start: 25 samples by BPF, else 20 looks at `/proc` and 5 samples; 10 scans of the
/// current folder, 4 looks at free space, one end of a window. The rest is for locks, and for what the disk takes.
const MOST: f64 = 60.0;

/// Two seconds after the job's start, for a second or so: wake-ups of weigh in a second.
fn wakeups(mechanism: &str, script: &str) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let weigh = Command::new(weigh_binary())
        .args(["run", "-q", "--mechanism", mechanism, "-o", "recording", "--", "sh", "-c", script])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .spawn();
    let mut weigh = Mortal::of(weigh);
    let pid = weigh.id();
    wait_until("the job runs", 20.0, || {
        processes::children(pid)
            .iter()
            .any(|child| processes::command_line(*child).starts_with("sh"))
    });
    std::thread::sleep(Duration::from_secs(2));
    // The time is never less than that of the switches.
    let (begun, before) = (Instant::now(), processes::voluntary_switches(pid));
    std::thread::sleep(Duration::from_secs(1));
    let switches = processes::voluntary_switches(pid) - before;
    let seconds = begun.elapsed().as_secs_f64();
    assert!(processes::is_alive(pid) && switches > 0, "{mechanism}: it was followed");
    assert!(weigh.wait().expect("its status").success());
    switches as f64 / seconds
}

#[test]
fn in_a_quiet_second_weigh_wakes_for_its_looks_alone() {
    needs_root!();
    for mechanism in ["bpf", "poll", "preload"] {
        let wakeups = wakeups(mechanism, "sleep 5");
        assert!(wakeups <= MOST, "{mechanism}: {wakeups:.0} in a second");
    }
}

/// Hundreds of processes a second begin and end.
#[test]
fn processes_of_the_job_do_not_wake_weigh() {
    needs_root!();
    let script =
        "end=$(($(date +%s) + 5)); while [ $(date +%s) -lt $end ]; do /bin/true; /bin/true; done";
    let wakeups = wakeups("bpf", script);
    assert!(wakeups <= MOST, "{wakeups:.0} in a second");
}
