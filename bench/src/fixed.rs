//! What it costs to measure a command that does nothing: weigh in each of its ways, and peers.

use std::time::Instant;

use anyhow::Result;

use crate::page::{Page, Table};
use crate::runs::{Arm, Bench};
use crate::spread::Spread;
use crate::tools::{Tool, Tools};
use crate::witness::Times;

const TARGET_MS: f64 = 150.0;
const SECONDS: u64 = 40;

/// Row 3 of what is promised: what `weigh run -- true` takes; and the same of the others.
pub fn write(bench: &Bench, tools: &Tools, page: &mut Page) -> Result<()> {
    eprintln!("fixed cost");
    let mut arms = vec![("`true` alone".to_string(), Arm::Bare)];
    arms.push(("weigh".to_string(), Arm::Weigh(Vec::new())));
    arms.extend(tools.all().iter().map(|tool: &Tool| (tool.name(), tool.arm())));
    let mut times: Vec<Vec<Times>> = vec![Vec::new(); arms.len()];
    let command = ["true".to_string()];
    let begin = Instant::now();
    for round in 0..bench.times(31) {
        if round >= 7 && begin.elapsed().as_secs() > SECONDS {
            break;
        }
        for ((_, arm), times) in arms.iter().zip(&mut times) {
            times.push(bench.run_plain(arm, &command)?);
        }
    }
    page.heading(2, "Fixed cost");
    page.paragraph(
        "`true` alone, and under each tool, from start to end, one after the other in rounds. \
         “weigh” is `weigh run --quiet -o DIR -- true`: the best way that works.",
    );
    let mut table = Table::new([
        "",
        "wall",
        "95 % interval",
        "least … greatest",
        "CPU",
        "95 % interval",
        "runs",
        "target, wall",
        "verdict",
    ]);
    for ((name, arm), times) in arms.iter().zip(&times) {
        let wall = Spread::of(times.iter().map(|times| times.wall * 1e3));
        let cpu = Spread::of(times.iter().map(|times| times.cpu * 1e3));
        let target = matches!(arm, Arm::Weigh(_)).then_some(TARGET_MS);
        let inside = |spread: &Spread| {
            let text = |(low, high)| format!("{low:.1} … {high:.1}");
            spread.interval.map_or_else(|| "–".to_string(), text)
        };
        table.row([
            name.clone(),
            format!("{:.1} ms", wall.median),
            inside(&wall),
            format!("{:.1} … {:.1}", wall.least, wall.greatest),
            format!("{:.1} ms", cpu.median),
            inside(&cpu),
            wall.count.to_string(),
            target.map_or_else(|| "–".to_string(), |target| format!("≤ {target} ms")),
            target.map_or_else(|| "–".to_string(), |target| wall.against(target).to_string()),
        ]);
    }
    page.table(&table);
    Ok(())
}
