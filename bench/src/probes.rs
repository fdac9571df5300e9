//! What each BPF program takes, by the kernel's own count (`kernel.bpf_stats_enabled`), read with
//! bpftool. Free of the noise of times: it says what a difference of times can be due to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::neighbour::Neighbour;
use crate::overhead::{Work, works};
use crate::page::{Page, Table};
use crate::runs::{Arm, Bench};

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// How often a program ran and how long, by its name.
type Costs = BTreeMap<String, (u64, u64)>;

/// The kernel counts for as long as this lives.
struct Counting(String);

impl Counting {
    fn begin() -> Result<Counting> {
        let before = fs::read_to_string(SWITCH).context(SWITCH)?;
        fs::write(SWITCH, "1").context(SWITCH)?;
        Ok(Counting(before))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // There is nobody to tell if it fails, and nothing depends on it.
        let _ = fs::write(SWITCH, &self.0);
    }
}

/// All loaded programs, as bpftool shows them; none if there is no bpftool.
fn programs() -> Result<Option<Vec<Value>>> {
    let mut found = None;
    for place in ["bpftool", "/usr/sbin/bpftool", "/sbin/bpftool"] {
        if let Ok(output) = Command::new(place).args(["prog", "show", "--json"]).output() {
            found = Some(output);
            break;
        }
    }
    let Some(output) = found else { return Ok(None) };
    if !output.status.success() {
        bail!("bpftool: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Some(serde_json::from_slice(&output.stdout).context("bpftool")?))
}

/// What the programs loaded since then have taken.
fn costs_since(before: &BTreeSet<u64>) -> Result<Costs> {
    let mut costs = Costs::new();
    for program in programs()?.unwrap_or_default() {
        let number = |key: &str| program[key].as_u64().unwrap_or_default();
        if before.contains(&number("id")) || number("run_cnt") == 0 {
            continue;
        }
        let name = program["name"].as_str().unwrap_or("unnamed").to_string();
        let cost = costs.entry(name).or_default();
        *cost = (cost.0 + number("run_cnt"), cost.1 + number("run_time_ns"));
    }
    Ok(costs)
}

/// What the programs take of some work: measured, and beside a measured job.
fn costs(bench: &Bench, work: &Work, before: &BTreeSet<u64>) -> Result<[Costs; 2]> {
    let mut neighbour = Neighbour::start(bench, &work.command)?;
    let counting = Counting::begin()?;
    neighbour.work()?;
    let measured = costs_since(before)?;
    drop(counting);
    neighbour.end(bench)?;

    let neighbour = Neighbour::start(bench, &[])?;
    let counting = Counting::begin()?;
    bench.run(&Arm::Bare, 1, &work.command)?;
    let beside = costs_since(before)?;
    drop(counting);
    neighbour.end(bench)?;
    Ok([measured, beside])
}

/// A table of all work, and one of all programs.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    page.heading(2, "BPF programs");
    let Some(before) = programs()? else {
        page.paragraph("bpftool is not installed here: left out.");
        return Ok(());
    };
    let before = before.iter().filter_map(|program| program["id"].as_u64()).collect();
    page.paragraph(
        "What weigh's BPF programs take, by the kernel's own count (`kernel.bpf_stats_enabled`), \
         while each work is done once: of all processes of the machine, whatever else runs on it \
         too. The two clock readings that counting adds to every run are partly in it; what it \
         costs to get into the program is not.",
    );
    let mut table = Table::new(["work", "measured", "of its CPU", "beside", "of its CPU"]);
    let mut each =
        Table::new(["work", "program", "measured: runs", "each", "beside: runs", "each"]);
    for work in works(bench) {
        eprintln!("programs: {}", work.name);
        let bare = bench.run(&Arm::Bare, 1, &work.command)?.command.cpu;
        let both = costs(bench, &work, &before)?;
        let total = |costs: &Costs| costs.values().map(|cost| cost.1).sum::<u64>() as f64 / 1e9;
        let [measured, beside] = both.each_ref().map(total);
        table.row([
            work.name.to_string(),
            format!("{:.1} ms", measured * 1e3),
            format!("{:.2} %", measured / bare * 100.0),
            format!("{:.1} ms", beside * 1e3),
            format!("{:.2} %", beside / bare * 100.0),
        ]);
        let names: BTreeSet<&String> = both.iter().flat_map(BTreeMap::keys).collect();
        for name in names {
            let [measured, beside] = both.each_ref().map(|costs| costs.get(name).copied());
            let runs = |cost: Option<(u64, u64)>| cost.map_or(0, |cost| cost.0).to_string();
            let mean = |cost: Option<(u64, u64)>| {
                cost.map_or("–".to_string(), |(runs, time)| format!("{} ns", time / runs))
            };
            each.row([
                work.name.to_string(),
                format!("`{name}`"),
                runs(measured),
                mean(measured),
                runs(beside),
                mean(beside),
            ]);
        }
    }
    page.table(&table);
    page.table(&each);
    Ok(())
}
