//! `weigh doctor io`: what it costs here to see what is read and written, by each mechanism and at each level.
//!
//! Tries each way with a weigh of its own; emits what a small read and a small write take more, those of the job and
//! those of everybody else, as a table or as JSON. Refuses nothing: of a way that does not work it says why.

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum as _;
use serde::Serialize;
use weigh_schema::Unit;
use weigh_schema::amount::show_amount;

use super::calls_trial::{BLOCK, ROUNDS, Seen, Took, seen_by};
use super::trial::Scratch;
use crate::arguments::{DoctorIoArguments, IoMechanism};
use crate::show::{print, print_json};

/// A level of detail, by one mechanism.
struct Way {
    level: &'static str,
    mechanism: String,
    options: Vec<String>,
}

/// What is told of it.
#[derive(Serialize)]
struct Tried {
    level: &'static str,
    mechanism: String,
    /// What a call of the job takes more.
    #[serde(skip_serializing_if = "Option::is_none")]
    followed: Option<Took>,
    /// What a call of a process takes more that nobody follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<Took>,
    /// Why it does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct Findings {
    block_bytes: usize,
    rounds: usize,
    /// What a call takes that nobody sees: the least that was found before a trial.
    without: Option<Took>,
    ways: Vec<Tried>,
}

/// Tries them all.
pub fn doctor(arguments: &DoctorIoArguments) -> anyhow::Result<ExitCode> {
    let place = Scratch::new()?;
    let mut without = Vec::new();
    let mut tried = Vec::new();
    for way in ways(&place.path) {
        let seen = seen_by(&way.options, &place.path);
        without.extend(seen.iter().map(|seen| seen.without));
        tried.push(told(way, seen));
    }
    let findings =
        Findings { block_bytes: BLOCK, rounds: ROUNDS, without: least(&without), ways: tried };
    match arguments.json {
        true => print_json(&(serde_json::to_string_pretty(&findings)? + "\n"))?,
        false => print(&page(&findings))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Each level, by each mechanism that has it.
fn ways(place: &Path) -> Vec<Way> {
    let file = |name: &str| place.join(name).display().to_string();
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut ways = vec![Way {
        level: "totals",
        mechanism: "weigh run".to_string(),
        options: words(&["run", "-q", "-o", &file("recording")]),
    }];
    let by = |level, mechanism: IoMechanism, more: &[&str]| {
        let name = mechanism.to_possible_value()?.get_name().to_string();
        let options = words(&[&["io", "-q", "--mechanism", &name], more].concat());
        Some(Way { level, mechanism: name, options })
    };
    let all = IoMechanism::value_variants().iter().copied();
    let (calls, each) = (file("calls.parquet"), "each call");
    for mechanism in all {
        match mechanism {
            // One of the others.
            IoMechanism::Auto | IoMechanism::PreloadBpf => {}
            IoMechanism::Preload | IoMechanism::PreloadPtrace => {
                ways.extend(by("per file", mechanism, &[]));
            }
            IoMechanism::Bpf => {
                ways.extend(by("per file", mechanism, &[]));
                ways.extend(by(each, mechanism, &["--calls", &calls]));
            }
            // A tracer lets go of programs that trace others, and the one that makes the calls is a weigh. Under a
            // filter it does not; a read and a write stop as often as without one.
            IoMechanism::Ptrace => {
                ways.extend(by("per file", mechanism, &["--seccomp"]));
                ways.extend(by(each, mechanism, &["--seccomp", "--calls", &calls]));
            }
        }
    }
    ways.sort_by_key(|way| way.level == each);
    ways
}

fn told(way: Way, seen: anyhow::Result<Seen>) -> Tried {
    let (took, reason) = match seen {
        Ok(seen) => (Some(seen), None),
        Err(error) => (None, Some(crate::in_full(&error))),
    };
    let more = |of: fn(&Seen) -> &Took| took.as_ref().map(|seen| of(seen).more_than(&seen.without));
    let (followed, others) = (more(|seen| &seen.followed), more(|seen| &seen.others));
    Tried { level: way.level, mechanism: way.mechanism, followed, others, reason }
}

fn least(all: &[Took]) -> Option<Took> {
    let of = |part: fn(&Took) -> f64| all.iter().map(part).min_by(f64::total_cmp);
    let (read_seconds, write_seconds) =
        (of(|took| took.read_seconds)?, of(|took| took.write_seconds)?);
    Some(Took { read_seconds, write_seconds })
}

fn page(findings: &Findings) -> String {
    let mut text = match findings.without {
        Some(without) => format!(
            "A read of {BLOCK} bytes from the page cache takes {} here, a write there {}. Seen by weigh it takes more:\n\n",
            time(without.read_seconds),
            time(without.write_seconds)
        ),
        None => "Nothing can be tried here.\n\n".to_string(),
    };
    text +=
        &line("level", "mechanism", ["read", "write", "others' read", "write"].map(String::from));
    for way in &findings.ways {
        if let (Some(followed), Some(others)) = (way.followed, way.others) {
            let times = [followed, others].map(|took| [took.read_seconds, took.write_seconds]);
            let times = [times[0][0], times[0][1], times[1][0], times[1][1]];
            text += &line(way.level, &way.mechanism, times.map(time));
        }
    }
    let failed = findings.ways.iter().filter_map(|way| Some((way, way.reason.as_ref()?)));
    for (way, reason) in failed {
        text += &format!("{:<11}{:<14}not here: {reason}\n", way.level, way.mechanism);
    }
    text + &format!(
        "\nMeasured now, each by a weigh of its own: the least of {ROUNDS} rounds, less what was the least before\n\
         weigh came; 0 is too little to be told. A call that moves more takes as much more, or a little less. By ptrace all\n\
         other calls take it, too, but with --seccomp. docs/io.md has whole programs.\n"
    )
}

/// One call's time is a matter of nanoseconds.
fn time(seconds: f64) -> String {
    if seconds < 10e-6 {
        return format!("{:.0} ns", seconds * 1e9);
    }
    show_amount(seconds, Unit::Seconds)
}

fn line(level: &str, mechanism: &str, cells: [String; 4]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>13}")).collect();
    format!("{level:<11}{mechanism:<14}{cells}\n")
}
