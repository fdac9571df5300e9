//! What is promised of each mechanism. Pure.

use weigh_schema::following::Level;

use crate::ways::Way;

/// The promises of one mechanism.
struct Targets {
    mechanism: &'static str,
    /// Percent that the memory peak of one process may be off.
    memory: f64,
    /// The same of static programs, if that is promised.
    memory_static: Option<f64>,
    /// Percent of CPU more, computing.
    computing: f64,
    /// Percent of CPU more, reading and writing by 4 KiB, up to the level of notifications.
    copying: f64,
    /// The same where calls are seen; absent where the figure is only published.
    copying_calls: Option<f64>,
    /// Percent of CPU more, starting short processes.
    forking: f64,
    /// The most bytes that a program may hold under a limit of 100 MB, taking 1 MB every ms.
    limit: f64,
    /// Whether every process is promised to be seen.
    processes: bool,
}

const TARGETS: &[Targets] = &[
    Targets {
        mechanism: "bpf",
        memory: 0.5,
        memory_static: Some(0.5),
        computing: 0.5,
        copying: 1.0,
        copying_calls: None,
        forking: 5.0,
        limit: 100.5e6,
        processes: true,
    },
    Targets {
        mechanism: "ptrace",
        memory: 0.5,
        memory_static: Some(0.5),
        computing: 0.5,
        copying: 2.0,
        copying_calls: None,
        forking: 30.0,
        limit: 120e6,
        processes: true,
    },
    Targets {
        mechanism: "preload",
        memory: 0.5,
        memory_static: None,
        computing: 0.5,
        copying: 1.0,
        copying_calls: Some(5.0),
        forking: 20.0,
        limit: 120e6,
        processes: true,
    },
    Targets {
        mechanism: "poll",
        memory: 5.0,
        memory_static: Some(5.0),
        computing: 0.5,
        copying: 1.0,
        copying_calls: None,
        forking: 5.0,
        limit: 150e6,
        processes: false,
    },
];

fn of(way: Way) -> Option<&'static Targets> {
    TARGETS.iter().find(|targets| targets.mechanism == way.following.name)
}

/// Percent that the memory peak of one process may be off.
pub fn memory(way: Way, static_program: bool) -> Option<f64> {
    let targets = of(way)?;
    if static_program { targets.memory_static } else { Some(targets.memory) }
}

/// Whether a memory peak that is not exact has to come with bounds.
pub fn memory_bounded(way: Way) -> bool {
    way.level == Level::Query
}

/// Bytes that I/O by calls may be off.
pub fn bytes(way: Way, static_program: bool) -> Option<u64> {
    (way.following.name != "preload" || !static_program).then_some(0)
}

/// Whether none of the processes of a dynamic program may be missed.
pub fn all_processes(way: Way) -> bool {
    of(way).is_some_and(|targets| targets.processes)
}

/// Percent of CPU more, computing.
pub fn computing(way: Way) -> Option<f64> {
    Some(of(way)?.computing)
}

/// Percent of CPU more, reading and writing by 4 KiB.
pub fn copying(way: Way) -> Option<f64> {
    let targets = of(way)?;
    if way.level == Level::Interposition { targets.copying_calls } else { Some(targets.copying) }
}

/// Percent of CPU more, starting short processes.
pub fn forking(way: Way) -> Option<f64> {
    Some(of(way)?.forking)
}

/// Percent of CPU more, touching memory: promised of BPF, which is told of each step.
pub fn filling(way: Way) -> Option<f64> {
    (way.following.name == "bpf").then_some(5.0)
}

/// The most bytes that a program may hold under a limit of 100 MB.
pub fn limit(way: Way) -> Option<f64> {
    Some(of(way)?.limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_promised_of_every_way() {
        for way in Way::all() {
            assert!(memory(way, false).is_some(), "{way}");
            assert!(limit(way).is_some_and(|bytes| bytes > 100e6), "{way}");
        }
    }
}
