//! The lines about programs that publish their regions to the agent.

use weigh_schema::Quality;
use weigh_schema::amount::show_seconds;
use weigh_schema::printable::printable;
use weigh_schema::program_profile::ProgramState;
use weigh_schema::region::FlatRegion;
use weigh_schema::top::{TopProfile, TopReport};

use super::view::UNKNOWN;
use crate::text::cut;

/// The head of the list.
fn title() -> String {
    format!("{:<29} {:>12} {:>12} {:>12}", "REGION", "EXCLUSIVE", "INCLUSIVE", "CALLS")
}

/// All of them: a line for each program, and below it its regions.
pub(super) fn list(report: &TopReport, columns: usize) -> Vec<String> {
    if report.profiles.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![title()];
    for program in &report.profiles {
        lines.push(cut(&head(program), columns));
        lines.extend(program.regions.iter().map(|region| cut(&line(region), columns)));
        if program.regions_left_out > 0 {
            lines.push(format!(
                "  and {} more (weigh agent read profiles)",
                program.regions_left_out
            ));
        }
    }
    if report.profiles_left_out > 0 {
        let more = report.profiles_left_out;
        lines.push(format!("and {more} more programs that a report has no room for"));
    }
    lines
}

/// How many there are, for one line.
pub(super) fn count(report: &TopReport) -> Option<String> {
    let count = report.profiles.len() as u64 + report.profiles_left_out;
    (count > 0).then(|| format!("programs with regions: {count}"))
}

fn head(program: &TopProfile) -> String {
    let state = match program.state {
        ProgramState::Running => "",
        ProgramState::Ended => ", has ended",
        ProgramState::CutShort => ", was cut short",
        ProgramState::Left => ", not followed any more",
    };
    let pid =
        program.pid.or(program.told_pid).map_or_else(|| UNKNOWN.to_string(), |pid| pid.to_string());
    format!("{} {pid} of {}{state}", printable(&program.name), printable(&program.user))
}

/// An estimate is marked.
fn line(region: &FlatRegion) -> String {
    let mark = if region.quality == Quality::Exact { "" } else { "~" };
    let seconds = |seconds: f64| format!("{mark}{}", show_seconds(seconds));
    let open = match region.open_calls {
        0 => String::new(),
        open => format!("  {open} open"),
    };
    format!(
        "  {:<27} {:>12} {:>12} {:>12}{open}",
        cut(&printable(&region.name), 27),
        seconds(region.exclusive_seconds),
        seconds(region.inclusive_seconds),
        region.calls,
    )
}
