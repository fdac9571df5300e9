//! What each collector adds, by doing without it.

use anyhow::Result;

use crate::overhead::{percent, words, works};
use crate::page::{Page, Table};
use crate::rounds::{Length, alternate};
use crate::runs::{Arm, Bench};
use crate::spread::Spread;

/// A run without each of them.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    page.heading(2, "Collectors");
    page.paragraph(
        "What weigh takes without one collector, against all of them in the same round: less is \
         what that collector costs. Of a run of `true`, the time from start to end; of the others, \
         the CPU time of the command.",
    );
    let without = ["hardware", "network", "files", "footprint", "cgroup", "gpu", "pages", "bpf"];
    let arms: Vec<Arm> = std::iter::once(Arm::Weigh(Vec::new()))
        .chain(without.map(|name| Arm::Weigh(words(["--without", name]))))
        .collect();
    let works = works(bench);
    let (forking, filling) = (&works[2].command, &works[3].command);
    let mut columns = Vec::new();
    for command in [&words(["true"]), forking, filling] {
        eprintln!("collectors: {}", command.join(" "));
        let length = bench.length(Length { least: 3, most: 5, seconds: 20 });
        columns.push(alternate(bench, &arms, (command, 1), length)?);
    }
    let mut table = Table::new([
        "without",
        "`true`, wall",
        "`true`, CPU",
        "500 × /bin/true",
        "filling 1 GB",
        "rounds",
    ]);
    let failed = || "failed".to_string();
    for (arm, name) in without.iter().enumerate() {
        let arm = arm + 1;
        let milliseconds = |spread: Spread| format!("{:+.1} ms", spread.median * 1e3);
        let of_true =
            [columns[0].added(arm, |run| run.all.wall), columns[0].added(arm, |run| run.all.cpu)];
        let [wall, cpu] = of_true.map(|spread| spread.map_or_else(failed, milliseconds));
        let more = |column: usize| {
            let spread = columns[column].more(arm, |run| run.command.cpu);
            spread.map_or_else(failed, |spread| percent(&spread))
        };
        let count = columns[0].count().to_string();
        table.row([name.to_string(), wall, cpu, more(1), more(2), count]);
    }
    page.table(&table);
    Ok(())
}
