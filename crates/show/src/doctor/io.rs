//! What it costs to see what is read and written, as a table.

use weigh_schema::Unit;
use weigh_schema::amount::show_amount;
use weigh_schema::doctor::IoOverhead;

/// The report as text, with a line end after the last line.
pub fn render(report: &IoOverhead) -> String {
    let (block, rounds) = (report.block_bytes, report.rounds);
    let mut text = match report.without {
        Some(without) => format!(
            "A read of {block} bytes from the page cache takes {} here, a write there {}. Seen by weigh it takes more:\n\n",
            time(without.read_seconds),
            time(without.write_seconds)
        ),
        None => "Nothing can be tried here.\n\n".to_string(),
    };
    text +=
        &line("level", "mechanism", ["read", "write", "others' read", "write"].map(String::from));
    for way in &report.ways {
        if let (Some(followed), Some(others)) = (way.followed, way.others) {
            let times = [followed, others].map(|took| [took.read_seconds, took.write_seconds]);
            let times = [times[0][0], times[0][1], times[1][0], times[1][1]];
            text += &line(way.level, &way.availability.name, times.map(time));
        }
    }
    let failed =
        report.ways.iter().filter_map(|way| Some((way, way.availability.reason.as_ref()?)));
    for (way, reason) in failed {
        text += &format!("{:<11}{:<14}not here: {reason}\n", way.level, way.availability.name);
    }
    text + &format!(
        "\nMeasured now, each by a weigh of its own: the least of {rounds} rounds, less what was the least before\n\
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
