//! Hardware counters on real processes.

use weigh_collect::hardware::{HardwareCounters, HardwareError, HardwareEvent};
use weigh_schema::event::CollectorState;

/// A program that retires a known number of instructions: `loops` times three, and little else.
const LOOP: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long loops = atol(argv[1]);
    int children = atoi(argv[2]);
    for (int i = 0; i < children; i++)
        if (fork() == 0) goto work;
    while (wait(0) > 0) {}
    if (children) return 0;
work:
    __asm__ volatile("1: dec %0\n nop\n jnz 1b" : "+r"(loops));
    return 0;
}
"#;

fn count(script: &str) -> Option<u64> {
    let mut child = crate::common::stopped(script);
    let mut counters = HardwareCounters::attach(child.id(), &[HardwareEvent::Instructions]);
    crate::common::resume(child.id());
    assert!(child.wait().unwrap().success());
    if counters.status().status == CollectorState::Unavailable {
        crate::common::left_out::leave_out(&format!("{:?}", counters.status().reason));
        return None;
    }
    match counters.read().remove(0) {
        Ok(count) => Some(count.count),
        Err(error @ HardwareError::NeverRan { .. }) => panic!("{error}"),
        Err(error) => panic!("{error}"),
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn instructions_are_counted_through_forks() {
    let folder = tempfile::tempdir().unwrap();
    let program = crate::common::compile(folder.path(), "loop", LOOP, &["-static"]);
    let program = program.display();
    let (Some(none), Some(one), Some(three)) = (
        count(&format!("{program} 1 0")),
        count(&format!("{program} 10000000 0")),
        count(&format!("{program} 10000000 3")),
    ) else {
        return;
    };
    let off = |seen: u64, wanted: u64| (seen - none) as f64 / wanted as f64 - 1.0;
    assert!(off(one, 30_000_000).abs() < 0.05, "{one} - {none}");
    assert!(off(three, 90_000_000).abs() < 0.05, "{three} - {none}");
}

#[test]
fn no_events_asked_for_is_disabled_not_unavailable() {
    let counters = HardwareCounters::attach(std::process::id(), &[]);
    assert_eq!(counters.status().status, CollectorState::Disabled);
    assert_eq!(counters.status().reason, None);
}
