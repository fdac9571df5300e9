//! What it costs here to see what is read and written, by each mechanism and at each level.
//!
//! Tries each with a weigh of its own; emits what a small read and a small write take more, those of the job and
//! those of every other process. Refuses nothing: where a mechanism does not work, the report says why.

use std::path::Path;

use weigh_schema::availability::Availability;
use weigh_schema::doctor::{CallTimes, IoOverhead, IoTrial};

use super::call_trial::{self, BLOCK, ROUNDS, TrialTimes};
use super::trial::Scratch;
use crate::error::in_full;

/// How a mechanism of `weigh io` is tried.
pub struct IoMechanismTrials {
    /// Its name.
    pub name: &'static str,
    /// The options that it takes here.
    options: &'static [&'static str],
    /// Whether it reports each call, too.
    has_calls: bool,
}

/// All of them, the best first.
pub const IO_MECHANISMS: &[IoMechanismTrials] = &[
    IoMechanismTrials { name: "bpf", options: &[], has_calls: true },
    IoMechanismTrials { name: "preload", options: &[], has_calls: false },
    IoMechanismTrials { name: "preload+ptrace", options: &[], has_calls: false },
    // A tracer lets go of programs that trace others, and the one that makes the calls is a weigh. Under a
    // filter it does not; a read and a write stop as often as without one.
    IoMechanismTrials { name: "ptrace", options: &["--seccomp"], has_calls: true },
];

/// A level of detail, by one mechanism.
struct TrialSpec {
    level: &'static str,
    mechanism: &'static str,
    options: Vec<String>,
}

/// Tries them all.
pub fn io_overhead() -> anyhow::Result<IoOverhead> {
    let place = Scratch::new()?;
    let mut without = Vec::new();
    let mut trials = Vec::new();
    for spec in specs(&place.path) {
        let times = call_trial::run(&spec.options, &place.path);
        without.extend(times.iter().map(|times| times.without));
        trials.push(finding(&spec, times));
    }
    let without = CallTimes::least(&without);
    Ok(IoOverhead { block_bytes: BLOCK, rounds: ROUNDS, without, ways: trials })
}

/// Each level, by each mechanism that has it.
fn specs(place: &Path) -> Vec<TrialSpec> {
    let file = |name: &str| place.join(name).display().to_string();
    let (recording, calls) = (file("recording"), file("calls.parquet"));
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let options = words(&["run", "-q", "-o", &recording]);
    let mut specs = vec![TrialSpec { level: "totals", mechanism: "weigh run", options }];
    let spec = |level, mechanism: &IoMechanismTrials, more: &[&str]| {
        let IoMechanismTrials { name, options, .. } = *mechanism;
        let options = words(&[&["io", "-q", "--mechanism", name][..], options, more].concat());
        TrialSpec { level, mechanism: name, options }
    };
    specs.extend(IO_MECHANISMS.iter().map(|mechanism| spec("per file", mechanism, &[])));
    let with_calls = IO_MECHANISMS.iter().filter(|mechanism| mechanism.has_calls);
    specs.extend(with_calls.map(|mechanism| spec("each call", mechanism, &["--calls", &calls])));
    specs
}

fn finding(spec: &TrialSpec, times: anyhow::Result<TrialTimes>) -> IoTrial {
    let TrialSpec { level, mechanism, .. } = *spec;
    match times {
        Ok(TrialTimes { without, followed, others }) => IoTrial {
            level,
            availability: Availability::active(mechanism),
            followed: Some(followed.more_than(&without)),
            others: Some(others.more_than(&without)),
        },
        Err(error) => IoTrial {
            level,
            availability: Availability::unavailable(mechanism, in_full(&error)),
            followed: None,
            others: None,
        },
    }
}
