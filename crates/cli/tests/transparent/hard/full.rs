//! What was found at full size, case by case: `docs/hard-cases-full.json`, and the table made of it.
//!
//! A run with `WEIGH_HARD=full` holds itself to that file; with `WEIGH_BLESS` it writes there what
//! it found, and leaves what it did not run.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weigh_schema::summary::Summary;

use super::page::cell;
use super::{Case, How, Outcome};

/// Whether sizes are those of the table, not those of the tests.
pub fn is_full() -> bool {
    std::env::var_os("WEIGH_HARD").is_some_and(|size| size == "full")
}

/// What one mechanism gave in one case at full size.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Found {
    case: String,
    mechanism: String,
    size: u64,
    result: String,
    /// The greatest resident size of a weigh.
    weigh_bytes: u64,
    wall_seconds: f64,
    /// The same commands without weigh, right before the first mechanism.
    bare_seconds: f64,
    machine: String,
    measured: String,
}

/// How a run at full size went.
pub struct Course {
    pub size: u64,
    pub weigh_bytes: u64,
    pub took: Duration,
    pub bare: Duration,
}

/// Notes what was found, or holds it to what is noted.
pub fn note(
    case: &Case,
    how: &How,
    course: &Course,
    outcome: &Outcome,
    summary: &Summary,
) -> Result<(), String> {
    // Tests run beside each other, and the file is one.
    static FILE: Mutex<()> = Mutex::new(());
    let _alone = FILE.lock();
    let host = &summary.host;
    let inside = match host.virtualisation.as_deref() {
        None | Some("none") => String::new(),
        Some(inside) => format!(", {inside}"),
    };
    let found = Found {
        case: case.name.to_string(),
        mechanism: how.name.to_string(),
        size: course.size,
        result: cell(outcome),
        weigh_bytes: course.weigh_bytes,
        wall_seconds: tenths(course.took),
        bare_seconds: tenths(course.bare),
        machine: format!(
            "Linux {}, {} CPUs, {:.1} GiB{inside}",
            host.kernel,
            host.cpus,
            host.memory_bytes as f64 / f64::from(1 << 30)
        ),
        measured: summary.job.started.strftime("%F").to_string(),
    };
    let mut all = committed().unwrap_or_default();
    let place = all.iter().position(|f| f.case == found.case && f.mechanism == found.mechanism);
    if std::env::var_os("WEIGH_BLESS").is_some() {
        match place {
            Some(place) => all[place] = found,
            None => all.push(found),
        }
        let text = serde_json::to_string_pretty(&all).expect("JSON") + "\n";
        std::fs::write(path(), text).map_err(|error| error.to_string())?;
        return Ok(());
    }
    match place.map(|place| &all[place]) {
        Some(known) if known.size != found.size || known.result != found.result => Err(format!(
            "docs/hard-cases-full.json has {known:?}, and this is {found:?}; if that is meant: WEIGH_BLESS=1"
        )),
        _ => Ok(()),
    }
}

fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hard-cases-full.json"))
}

/// What is noted; nothing where there is no source.
fn committed() -> Option<Vec<Found>> {
    let text = std::fs::read_to_string(path()).ok()?;
    Some(serde_json::from_str(&text).expect("docs/hard-cases-full.json is what was written there"))
}

/// The part of the document about it.
pub fn section(cases: &[&str]) -> String {
    let mut all = committed().unwrap_or_default();
    let place = |found: &Found| {
        let case = cases.iter().position(|name| *name == found.case);
        (case, super::HOWS.iter().position(|how| how.name == found.mechanism))
    };
    all.sort_by_key(place);
    let mut text = "
## At full size

What `WEIGH_HARD=full` found when it was run last with `WEIGH_BLESS=1`: no part of the tests of each
day, for it takes half an hour. The figures stand in `docs/hard-cases-full.json`. Memory is the greatest
resident size of one weigh; seconds are from its start to its end. Beside them are those of the same
commands without weigh, run before; the machine had other work too, so they tell an order and no more
(docs/measurements/performance.md has what measuring costs). With `preload` a part of the memory is the file that it
shares with the programs of the job: 65,536 places, whatever their number.

| case | size | mechanism | result | memory of weigh | seconds | without weigh | measured |
|---|---|---|---|---|---|---|---|
"
    .to_string();
    let mut machines: Vec<&str> = Vec::new();
    for found in &all {
        let machine = match machines.iter().position(|known| *known == found.machine) {
            Some(place) => place,
            None => {
                machines.push(&found.machine);
                machines.len() - 1
            }
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.0} MB | {:.1} | {:.1} | {}, machine {} |",
            found.case,
            grouped(found.size),
            found.mechanism,
            found.result,
            found.weigh_bytes as f64 / 1e6,
            found.wall_seconds,
            found.bare_seconds,
            found.measured,
            machine + 1
        );
    }
    text.push('\n');
    for (place, machine) in machines.iter().enumerate() {
        let _ = writeln!(text, "Machine {}: {machine}.", place + 1);
    }
    text
}

/// A number with a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
