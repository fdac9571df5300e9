//! What regions of libweigh cost a program: `bench/regions.c`, with a listener and with none.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::page::{Page, Table};
use crate::runs::Bench;
use crate::spread::Spread;

/// What is measured, with a listener, and the nanoseconds that are promised.
const LISTENER: &[(&str, &str, Option<f64>)] = &[
    ("two reads of the clock", "two reads of the clock", None),
    ("begin and end", "begin and end, beyond two reads of the clock", Some(15.0)),
    ("eight nested, each", "the same of each of eight nested regions", Some(15.0)),
    ("counter add", "a counter", Some(5.0)),
    ("poll", "`weigh_poll_control`, nothing there", Some(2.0)),
    ("publish", "`weigh_publish`", Some(100.0)),
    ("region after a publish", "`weigh_publish`, begin and end: in all", None),
];
/// The same with none.
const NOBODY: &[(&str, &str, Option<f64>)] = &[
    ("begin and end, by macro", "begin and end, by `WEIGH_REGION`", Some(3.0)),
    ("begin and end", "begin and end, by calls of the library", None),
    ("poll", "`weigh_poll_control`", Some(2.0)),
];

/// The table.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    eprintln!("regions");
    let program = compile(bench)?;
    page.heading(2, "Regions");
    page.paragraph(
        "What a program pays that tells its regions by libweigh (`bench/regions.c`): medians over rounds, in each of \
         which each thing is done 1,600 times, in nanoseconds. The clock is the CPU's counter where it runs evenly and \
         the kernel itself keeps time by it.",
    );
    let mut table =
        Table::new(["who is there", "what", "median", "95 % interval", "target", "verdict"]);
    for (who, rows) in [("listener", LISTENER), ("nobody", NOBODY)] {
        let figures = measure(&program, who, bench.times(1001))?;
        for row in rows {
            table.row(cells(who, row, &figures)?);
        }
    }
    page.table(&table);
    Ok(())
}

/// libweigh as a user installs it, and the program that uses it.
fn compile(bench: &Bench) -> Result<std::path::PathBuf> {
    let (prefix, to) = (bench.path("libweigh"), bench.path("regions"));
    let mut make = Command::new("make");
    make.args(["-s", "-C", "libweigh", "install"]);
    make.arg(format!("OUT={}", prefix.join("build").display()));
    succeeds(make.arg(format!("PREFIX={}", prefix.display())))?;
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-pthread", "bench/regions.c", "-o"]).arg(&to);
    cc.arg("-I").arg(prefix.join("include")).arg("-L").arg(prefix.join("lib")).arg("-lweigh");
    succeeds(cc.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display())))?;
    Ok(to)
}

fn succeeds(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(output.stdout)
}

/// Nanoseconds of each round, by what was done.
fn measure(program: &Path, who: &str, rounds: usize) -> Result<BTreeMap<String, Vec<f64>>> {
    let said = succeeds(Command::new(program).arg(who).arg(rounds.to_string()))?;
    let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&said).lines() {
        let (name, ns) = line.split_once('\t').context("a name and a figure")?;
        figures.entry(name.to_string()).or_default().push(ns.parse()?);
    }
    Ok(figures)
}

fn cells(
    who: &str,
    (name, what, target): &(&str, &str, Option<f64>),
    figures: &BTreeMap<String, Vec<f64>>,
) -> Result<Vec<String>> {
    let figures = figures.get(*name).with_context(|| format!("no figure of {name}"))?;
    let spread = Spread::of(figures.iter().copied());
    let interval = spread.interval.map(|(low, high)| format!("{low:.1} to {high:.1}"));
    let none = || "–".to_string();
    Ok(vec![
        who.to_string(),
        what.to_string(),
        format!("{:.1}", spread.median),
        interval.unwrap_or_else(none),
        target.map_or_else(none, |target| format!("≤ {target}")),
        target.map_or_else(none, |target| spread.against(target).to_string()),
    ])
}
