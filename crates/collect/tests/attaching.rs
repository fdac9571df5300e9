//! Parts of the kernel that come and go while others stay attached: held to the links that the kernel
//! itself shows for this process.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weigh_collect::calls::clients::Page;
use weigh_collect::calls::{ANYTHING, CallsRequest, Counters, Functions, KernelCalls, Telling};
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

/// The tracepoints that links of this process are at, each by the number of its link.
fn links() -> BTreeSet<(String, String)> {
    let mut links = BTreeSet::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let about = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| {
            let value = about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_string())
        };
        if let Some(id) = field("link_id") {
            links.insert((id, field("prog_id").unwrap()));
        }
    }
    links
}

/// The links of this process are those of all tests in it.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bit(name: &str) -> u64 {
    Subsystem::named(name).unwrap().bit()
}

fn load() -> KernelCalls {
    let wanted = CallsRequest {
        subsystems: SUBSYSTEMS.iter().collect(),
        grouping: Grouping::Call,
        sharing: Sharing::Bytes,
        every_call: false,
        counters: Counters::default(),
        by_part: false,
    };
    KernelCalls::load(&wanted, Telling::PLAIN, &Functions::default()).unwrap()
}

#[test]
fn parts_come_and_go_and_leave_the_others_as_they_are() {
    let _alone = alone();
    let mut calls = load();
    assert_eq!((links().len(), calls.attached_parts()), (0, 0));
    calls.attach_only(ANYTHING).unwrap();
    let base = links();
    // Forks, execs and ends; switches.
    assert!(base.len() >= 4, "{base:?}");
    assert_eq!(calls.attached_parts(), bit("sched"));
    calls.attach_only(bit("block")).unwrap();
    let with_block = links();
    assert!(with_block.is_superset(&base) && with_block.len() > base.len());
    // Interrupts have a part in what is seen of block devices.
    assert_eq!(calls.attached_parts(), bit("sched") | bit("irq") | bit("block"));
    calls.attach_only(bit("block") | bit("memory")).unwrap();
    assert!(links().is_superset(&with_block) && links().len() > with_block.len());
    calls.attach_only(bit("block")).unwrap();
    assert_eq!(links(), with_block);
    // What this side holds stays when nobody asks.
    calls.hold(ANYTHING);
    calls.attach_only(0).unwrap();
    assert_eq!(links(), base);
    calls.attach_only(u64::MAX).unwrap();
    assert_eq!(calls.attached_parts(), calls.available_parts());
    let all: usize = calls.attached().iter().map(|part| part.probes).sum();
    // Three are for followed threads; five are of two parts each, and two of three; one is on standby.
    assert_eq!(links().len(), all + 3 - 5 - 2 * 2 - 1, "{:?}", calls.attached());
    calls.detach();
    assert_eq!((links().len(), calls.attached_parts()), (0, 0));
}

/// `cargo test --release -p weigh-collect --test attaching -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn what_loading_and_attaching_cost() {
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let timed = |what: &str, doing: &mut dyn FnMut()| {
        let (before, began) = (cpu(), Instant::now());
        doing();
        let (after, wall) = (cpu(), began.elapsed());
        let used =
            (after.tv_sec - before.tv_sec) as f64 + (after.tv_nsec - before.tv_nsec) as f64 / 1e9;
        println!("{what}: {:.1} ms, {:.1} ms of CPU", wall.as_secs_f64() * 1e3, used * 1e3);
    };
    let mut calls = None;
    timed("load all", &mut || calls = Some(load()));
    let mut calls = calls.unwrap();
    for _ in 0..5 {
        timed("attach what is always needed", &mut || calls.attach_only(ANYTHING).unwrap());
        let before = links().len();
        timed("attach block beside it", &mut || calls.attach_only(bit("block")).unwrap());
        println!("{} links", links().len() - before);
        timed("let go of block", &mut || calls.attach_only(ANYTHING).unwrap());
        timed("attach all", &mut || calls.attach_only(u64::MAX).unwrap());
        println!("{} links", links().len());
        timed("let go of all", &mut || calls.attach_only(0).unwrap());
    }
}

/// A program waits for its page when it begins. The kernel holds a caller that changes the table of pages for ten
/// milliseconds and more, each time.
#[test]
fn programs_that_come_and_go_are_not_kept() {
    let _alone = alone();
    const AT_ONCE: usize = 100;
    let mut calls = load();
    let mut median = || {
        let mut took: Vec<Duration> = (0..21)
            .map(|_| {
                let page = Page::new().unwrap();
                let began = Instant::now();
                let serial = calls.admit(&page).unwrap().unwrap();
                calls.expel(serial);
                began.elapsed()
            })
            .collect();
        took.sort();
        took[took.len() / 2]
    };
    // Others may have the CPUs.
    let tries: Vec<Duration> = (0..5).map(|_| median()).collect();
    assert!(tries.iter().any(|took| *took < Duration::from_millis(5)), "{tries:?}");
    // More than there are threads for; and the places of those who have gone are given again.
    for _ in 0..2 {
        let pages: Vec<Page> = (0..AT_ONCE).map(|_| Page::new().unwrap()).collect();
        let serials: BTreeSet<_> =
            pages.iter().map(|page| calls.admit(page).unwrap().unwrap()).collect();
        assert_eq!(serials.len(), AT_ONCE);
        serials.into_iter().for_each(|serial| calls.expel(serial));
    }
}
