//! Memory: the peak of a job at one moment, against what the programs say of themselves.
//!
//! The programs walk their own page tables for the truth, so that it is right to the page.

use crate::support::measured::Measured;
use crate::support::run::Weigh;
use crate::support::worth_the_time;
use weigh_schema::Quality;
use weigh_schema::recording::ProcessRow;
use weigh_schema::summary::SenderKind;

/// What a process of its own may be off by.
const SINGLE: f64 = 0.005;
/// What several processes or threads together may be off by.
const TOGETHER: f64 = 0.01;
/// What memory that processes share may be off by.
const SHARED: f64 = 0.03;

#[track_caller]
fn a_filled_process_is_seen(line: &str) {
    let measured = Weigh::workload(line).end();
    let truth = measured.truth("peak_rss_bytes");
    for metric in
        ["memory_peak_bytes", "memory_peak_rss_sum_bytes", "memory_peak_process_rss_bytes"]
    {
        measured.is_near(metric, truth, SINGLE);
    }
    // Little else is mapped: half as much again would be a fault in the sum.
    measured.is_between("memory_peak_virtual_bytes", truth as f64 * 0.99, truth as f64 * 1.5);
    measured.is("memory_peak_swap_bytes", 0);
}

#[test]
fn fills_and_exits() {
    needs_root!();
    a_filled_process_is_seen("fill 257000000 exit");
}

#[test]
fn fills_and_exits_static() {
    needs_root!();
    a_filled_process_is_seen("fill-static 257000000 exit");
}

#[test]
fn fills_and_exits_without_ceremony() {
    needs_root!();
    for program in worth_the_time(&["fill", "fill-static"], 1) {
        a_filled_process_is_seen(&format!("{program} 257000000 _exit"));
    }
}

#[test]
fn fills_and_is_killed() {
    needs_root!();
    for program in worth_the_time(&["fill", "fill-static"], 1) {
        a_filled_process_is_seen(&format!("{program} 257000000 kill"));
    }
}

#[test]
fn fills_and_frees_before_it_exits() {
    needs_root!();
    for program in worth_the_time(&["fill", "fill-static"], 1) {
        a_filled_process_is_seen(&format!("{program} 257000000 free"));
    }
}

#[test]
fn a_spike_of_a_millisecond() {
    needs_root!();
    a_filled_process_is_seen("spike 300000001 1");
}

#[test]
fn threads_together() {
    needs_root!();
    let measured = Weigh::workload("threads 64 400000001").measure();
    let truth = measured.truth("peak_rss_bytes");
    for metric in
        ["memory_peak_bytes", "memory_peak_rss_sum_bytes", "memory_peak_process_rss_bytes"]
    {
        measured.is_near(metric, truth, TOGETHER);
    }
}

/// The sum over the tree, sharing counted per process and counted once.
#[track_caller]
fn children_are_seen(line: &str) -> Measured {
    let measured = Weigh::workload(line).measure();
    let rss = measured.truth("rss_sum_peak_bytes");
    measured.is_near("memory_peak_rss_sum_bytes", rss, TOGETHER);
    // Counted once lies between the proportional sum and the plain one.
    let pss = measured.truth("pss_sum_peak_bytes");
    measured.is_between(
        "memory_peak_bytes",
        pss as f64 * (1.0 - TOGETHER),
        rss as f64 * (1.0 + TOGETHER),
    );
    measured.is_near("memory_peak_bytes", measured.truth("filled_peak_bytes"), TOGETHER);
    measured
}

#[test]
fn two_children_together() {
    needs_root!();
    let measured = children_are_seen("children 2 300000000 together");
    measured.is_between("memory_peak_bytes", 600e6, 606e6);
    measured.is_between("memory_peak_process_rss_bytes", 300e6, 305e6);
    // Each child has its own size in its own row, the parent that holds nothing too.
    let sizes = sizes(&measured);
    measured.check(
        sizes.len() == 3
            && sizes[0] < 10_000_000
            && sizes[1..].iter().all(|size| (300_000_000..305_000_000).contains(size)),
        || format!("the rows say {sizes:?}, expected a small parent and two of 300 MB"),
    );
}

#[test]
fn two_children_in_turn() {
    needs_root!();
    let measured = children_are_seen("children 2 300000000 turn");
    measured.is_between("memory_peak_bytes", 300e6, 303e6);
}

#[test]
fn three_children_for_fifty_milliseconds() {
    needs_root!();
    for program in worth_the_time(&["children", "children-static"], 1) {
        children_are_seen(&format!("{program} 3 200000000 together 50"));
    }
}

/// The greatest resident size of each process, in ascending order.
fn sizes(measured: &Measured) -> Vec<u64> {
    let mut sizes: Vec<u64> = measured
        .processes()
        .iter()
        .map(|row| row.metrics["memory_peak_process_rss_bytes"].as_f64() as u64)
        .collect();
    sizes.sort();
    sizes
}

#[track_caller]
fn sharing_is_counted_once(kind: &str) {
    let hold = crate::support::patience(2.0).as_millis();
    let measured = Weigh::workload(&format!("shared 5 500000000 {kind} {hold}")).measure();
    measured.is_near("memory_peak_bytes", measured.truth("filled_bytes"), SHARED);
    let rss = measured.truth("rss_sum_peak_bytes");
    measured.is_near("memory_peak_rss_sum_bytes", rss, TOGETHER);
    measured.check(rss > 2_450_000_000, || format!("the workload shared {rss} bytes only"));
}

#[test]
fn five_processes_share_after_a_fork() {
    needs_root!();
    sharing_is_counted_once("cow");
}

#[test]
fn five_processes_share_a_mapping() {
    needs_root!();
    sharing_is_counted_once("shm");
}

#[test]
fn memory_held_before_an_exec_counts_and_goes_with_it() {
    needs_root!();
    // The shell holds 40 MB, then becomes a program that needs little, then runs one that fills.
    let script = format!(
        "printf -v x '%20000000s' ''; exec bash -c 'sleep 0.05; {} 100000000'",
        crate::support::workload("fill")
    );
    let measured = Weigh::bash(&script).measure();
    measured.is_near("memory_peak_process_rss_bytes", measured.truth("peak_rss_bytes"), SINGLE);
    // Had the exec not been noticed, the shell's memory would be added to the other's.
    measured.is_between("memory_peak_rss_sum_bytes", 100e6, 112e6);
}

/// The greatest resident size of each process as its row has it, in ascending order; 0 where it has none.
fn own_sizes(measured: &Measured) -> Vec<u64> {
    let of_row = |row: &ProcessRow| row.metrics.get("memory_peak_process_rss_bytes").copied();
    let rows = measured.processes();
    let mut sizes: Vec<u64> =
        rows.iter().map(|row| of_row(row).map_or(0, |size| size.as_f64() as u64)).collect();
    sizes.sort();
    sizes
}

#[test]
fn processes_of_one_address_space_hold_it_once() {
    needs_root!();
    let measured = Weigh::workload("shared 6 120000000 vm 300").measure();
    let truth = measured.truth("own_rss_bytes");
    for metric in ["memory_peak_bytes", "memory_peak_rss_sum_bytes"] {
        measured.is_near(metric, truth, SINGLE);
        measured.check(measured.value(metric).quality == Quality::Exact, || metric.to_owned());
    }
    // It is the memory of the one that began; the others have used it.
    let sizes = own_sizes(&measured);
    measured.check(sizes.len() == 6 && sizes[..5] == [0; 5] && sizes[5] >= 120_000_000, || {
        format!("the rows say {sizes:?}")
    });
}

/// A program that is started by a big one is charged with its own memory.
#[test]
fn what_a_big_program_starts_is_as_small_as_it_is() {
    needs_root!();
    for (how, by) in
        [("forkexec", "bpf"), ("spawn", "bpf"), ("forkexec", "ptrace"), ("spawn", "ptrace")]
    {
        let line = format!("shared 7 200000000 {how}");
        let measured = Weigh::workload(&line).options(&format!("--mechanism {by}")).end();
        let sizes = own_sizes(&measured);
        measured.check(
            sizes.len() == 7
                && sizes[..6].iter().all(|size| (100_000..20_000_000).contains(size))
                && sizes[6] >= 200_000_000,
            || format!("{how}, {by}: the rows say {sizes:?}"),
        );
        let virtual_sizes: Vec<u64> = measured
            .processes()
            .iter()
            .filter(|row| row.name == "true")
            .map(|row| row.metrics["memory_peak_virtual_bytes"].as_f64() as u64)
            .collect();
        measured.check(
            virtual_sizes.len() == 6 && virtual_sizes.iter().all(|size| *size < 100_000_000),
            || format!("{how}, {by}: virtual sizes {virtual_sizes:?}"),
        );
    }
}

/// Forked and not yet executed, a program is a copy that nobody has written to.
#[test]
fn a_fork_to_execute_does_not_double_the_peak() {
    needs_root!();
    for by in ["bpf", "ptrace"] {
        for how in ["forkexec", "spawn"] {
            let line = format!("shared 21 300000000 {how}");
            let measured = Weigh::workload(&line).options(&format!("--mechanism {by}")).end();
            let truth = measured.truth("own_rss_bytes");
            measured.is_near("memory_peak_bytes", truth, SHARED);
            lies_in_its_bounds(&measured, truth);
        }
    }
}

/// A value that is not exact states an interval that holds the truth, and lies in it.
#[track_caller]
fn lies_in_its_bounds(measured: &Measured, truth: u64) {
    let value = measured.value("memory_peak_bytes");
    let reason = value.reason.clone().unwrap_or_default();
    let Some((_, bounds)) = reason.split_once("between ") else { return };
    let mut numbers = bounds.split_ascii_whitespace().filter_map(|word| word.parse::<f64>().ok());
    let (low, high) = (numbers.next().expect("a bound"), numbers.next().expect("another"));
    let told = measured.number("memory_peak_bytes");
    measured.check(low <= told && told <= high, || format!("{told} is not {reason}"));
    measured.check(low <= truth as f64 * 1.005 && truth as f64 * 0.995 <= high, || {
        format!("the truth, {truth}, is not {reason}")
    });
}

#[test]
fn the_peak_is_told_by_what_it_is_made_of() {
    needs_root!();
    let measured = Weigh::workload("fill 160000000 parts file-to-map").measure();
    measured.is_near("memory_peak_bytes", measured.truth("peak_rss_bytes"), SINGLE);
    let parts = ["anonymous", "shared", "file"];
    for part in parts {
        let metric = format!("memory_peak_{part}_bytes");
        // To tell the truth takes some pages of the C library, too.
        measured.is_near(&metric, measured.truth(&format!("{part}_bytes")), TOGETHER);
        measured.check(measured.value(&metric).quality == Quality::Exact, || metric.clone());
    }
    let sum: f64 =
        parts.map(|part| measured.number(&format!("memory_peak_{part}_bytes"))).iter().sum();
    measured.check(sum == measured.number("memory_peak_bytes"), || format!("they add up to {sum}"));
}

/// Some huge pages, for as long as a test takes.
struct HugePages {
    before: String,
    pages: u64,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    /// So many, or as many as the kernel finds.
    fn set_aside(most: u64) -> Option<HugePages> {
        let read = || std::fs::read_to_string(HUGE_PAGES).ok();
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let mut found = HugePages { before: read()?, pages: 0 };
        let already = number(&found.before)?;
        std::fs::write(HUGE_PAGES, (already + most).to_string()).ok()?;
        found.pages = number(&read()?)?.saturating_sub(already);
        (found.pages > 0).then_some(found)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE_PAGES, &self.before);
    }
}

#[test]
fn huge_pages_are_counted_beside_the_peak() {
    needs_root!();
    let Some(huge) = HugePages::set_aside(8) else {
        crate::support::leave_out("no huge pages here");
        return;
    };
    // Of the usual size on this kind of machine.
    let bytes = huge.pages * (2 << 20);
    for by in ["bpf", "ptrace"] {
        let measured = Weigh::workload(&format!("fill {bytes} hugetlb"))
            .options(&format!("--mechanism {by}"))
            .end();
        if measured.status.code() == Some(3) {
            crate::support::leave_out("others have taken the huge pages");
            return;
        }
        measured.is("memory_peak_hugetlb_bytes", measured.truth("hugetlb_bytes"));
        let peak = measured.value("memory_peak_bytes");
        let why = peak.reason.clone().unwrap_or_default();
        measured.check(peak.quality != Quality::Exact && why.contains(&bytes.to_string()), || {
            format!("{by}: {peak:?}")
        });
    }
}

/// A control group of the memory controller with a limit, where one can be made.
pub struct SmallGroup(pub std::path::PathBuf);

impl SmallGroup {
    pub fn create(of: &str, bytes: u64) -> Option<SmallGroup> {
        let name = format!("weigh-test-{of}-{}", std::process::id());
        for (place, limit) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let path = std::path::Path::new(place).join(&name);
            if std::fs::create_dir(&path).is_ok() {
                let group = SmallGroup(path);
                if std::fs::write(group.0.join(limit), bytes.to_string()).is_ok() {
                    return Some(group);
                }
            }
        }
        None
    }

    /// What the kernel counts for it.
    fn kills(&self) -> u64 {
        let read = |name| std::fs::read_to_string(self.0.join(name)).ok();
        let text = read("memory.events").or_else(|| read("memory.oom_control")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
    }
}

impl Drop for SmallGroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// The job goes on, and ends well.
#[test]
fn a_child_that_is_killed_for_want_of_memory_is_told_of() {
    needs_root!();
    let Some(group) = SmallGroup::create("child", 40 << 20) else {
        crate::support::leave_out("no memory controller here");
        return;
    };
    let procs = group.0.join("cgroup.procs");
    let script = format!(
        "(echo $BASHPID >{}; exec {} 400000000); (exec {} 1000 kill); exit 0",
        procs.display(),
        crate::support::workload("fill"),
        crate::support::workload("fill")
    );
    let measured = Weigh::bash(&script).end();
    measured.check(measured.status.code() == Some(0), || "expected 0".to_string());
    measured.is("oom_kills_total", group.kills());
    measured.is("oom_kills_total", 1);
    let victim = measured
        .processes()
        .into_iter()
        .find(|row| row.command.ends_with("fill 400000000"))
        .expect("its row");
    let reason = measured.value("oom_kills_total").reason.clone().unwrap_or_default();
    measured.check(reason.contains(&format!("fill (PID {})", victim.pid)), || reason.clone());
    // Without BPF nothing is known of it, once another has been killed.
    let measured = Weigh::bash(&script).options("--mechanism ptrace").end();
    let value = measured.value("oom_kills_total");
    measured.check(value.quality == Quality::Unavailable, || format!("{value:?}"));
}

#[test]
fn who_is_killed_for_want_of_memory_is_killed_by_the_kernel() {
    needs_root!();
    let Some(group) = SmallGroup::create("command", 40 << 20) else {
        crate::support::leave_out("no memory controller here");
        return;
    };
    let procs = group.0.join("cgroup.procs");
    let fill = crate::support::workload("fill");
    let script = format!("echo $$ >{}; exec {fill} 400000000", procs.display());
    let measured = Weigh::bash(&script).end();
    let exit = measured.summary().exit.clone().expect("an end");
    let by = exit.sender.as_ref().map(|sender| (sender.kind, sender.pid));
    measured.check((exit.signal, by) == (Some(9), Some((SenderKind::Kernel, None))), || {
        format!("{exit:?}")
    });
    measured.is("oom_kills_total", group.kills());
    measured.said("SIGKILL (9) from the kernel");
}

/// A file in memory that is only written and read is in no resident size; the job's own group has it.
#[test]
fn files_in_memory_that_nobody_maps_are_named_beside_the_peak() {
    needs_root!();
    let hold = crate::support::patience(0.5).as_millis();
    let line = format!("fill 50000000 memfd {hold}");
    let measured = Weigh::workload(&line).options("--cgroup --interval 50ms").measure();
    if measured.value("memory_peak_cgroup_bytes").quality == Quality::Unavailable {
        crate::support::leave_out("no memory controller here");
        return;
    }
    measured.is_between("memory_peak_bytes", 0.0, 10e6);
    let filled = measured.truth("filled_bytes");
    let reason = measured.value("memory_peak_bytes").reason.clone().unwrap_or_default();
    let mut numbers = reason.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let held = numbers.next_back();
    measured.check(held.is_some_and(|held| held.abs_diff(filled) < filled / 50), || {
        format!("{filled} bytes were written; {reason}")
    });
}

/// What a process holds in another group is not in the peak of the job's own.
#[test]
fn a_control_group_that_a_process_has_left_is_not_exact() {
    needs_root!();
    let script = "for group in /sys/fs/cgroup/memory /sys/fs/cgroup; do \
        [ -e $group/cgroup.procs ] && echo $$ >$group/cgroup.procs; done; exec sleep 0.6";
    let measured = Weigh::bash(script).options("--cgroup --interval 20ms").measure();
    let value = measured.value("memory_peak_cgroup_bytes");
    if value.quality == Quality::Unavailable {
        crate::support::leave_out("no control group of its own here");
        return;
    }
    let is_told = value.reason.as_ref().is_some_and(|why| why.contains("other control groups"));
    measured.check(value.quality == Quality::Estimated && is_told, || format!("{value:?}"));
}
