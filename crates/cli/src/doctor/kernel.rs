//! `weigh doctor kernel`: where calls cross from one part of the kernel to another, and which probes
//! see that.
//!
//! Emits the analysis as a table or as JSON. Refuses what [`weigh_session::kernel_map`] does.

use std::process::ExitCode;

use weigh_collect::notice;
use weigh_kernel::{Allowed, Analysis, Evidence, Placed, Probe, SMALL, Source, SubsystemBorder};

use serde::Serialize;
use weigh_schema::Unit;
use weigh_schema::amount::{show_amount, show_count};
use weigh_schema::call::ProbeCost;
use weigh_session::kernel_map::{KernelMap, MapQuery, map_image, map_running};

use crate::show::{print, print_json};
use weigh_arguments::KernelArguments;

/// Makes the analysis, or takes the one that is kept, and prints it.
pub fn doctor(arguments: &KernelArguments) -> anyhow::Result<ExitCode> {
    let question = MapQuery { calls: arguments.calls.clone(), parts: arguments.parts.clone() };
    let found = match &arguments.image {
        Some(image) => map_image(image, arguments.symbols.as_deref(), &question),
        None => map_running(&question, arguments.fresh),
    }?;
    found.notes.iter().for_each(|note| notice!("{note}"));
    let cost = match arguments.image {
        Some(_) => Err("an image is not a kernel that runs".to_string()),
        None => weigh_collect::calls::probe_cost(),
    };
    if arguments.json {
        let (probe_cost, why) = (cost.as_ref().ok().copied(), cost.err());
        let told =
            KernelReport { analysis: &found.analysis, probe_cost, probe_cost_unavailable: why };
        print_json(&(serde_json::to_string_pretty(&told)? + "\n"))?;
    } else {
        print(&page(&found, arguments.probes, &cost))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The analysis, and what only the machine can tell.
#[derive(Serialize)]
struct KernelReport<'a> {
    #[serde(flatten)]
    analysis: &'a Analysis,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_cost: Option<ProbeCost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_cost_unavailable: Option<String>,
}

/// What a probe costs here, or why that is not known.
type Cost = Result<ProbeCost, String>;

fn page(found: &KernelMap, with_probes: bool, cost: &Cost) -> String {
    let analysis = &found.analysis;
    let mut text = head(found);
    text.push_str(&table(&analysis.subsystems));
    text.push_str(&legend(analysis));
    text.push_str(&price(cost));
    if with_probes {
        for border in &analysis.subsystems {
            text.push_str(&format!("\n{}: {}\n", border.name, border.what));
            border.probes.iter().for_each(|probe| text.push_str(&probe_line(probe)));
        }
    }
    text
}

fn head(found: &KernelMap) -> String {
    let Analysis { kernel, build_id, code, .. } = &found.analysis;
    let kept = if found.was_kept { "kept in" } else { "image" };
    let release = kernel.split(' ').next().unwrap_or(kernel);
    let from = match &found.analysis.wanted[..] {
        [] => format!("{} system calls", number(found.analysis.entries as u64)),
        calls => format!("{} ({} functions)", calls.join(", "), found.analysis.entries),
    };
    let lines = [
        ("kernel", format!("{release}, build id {}", build_id.as_deref().unwrap_or("unknown"))),
        (kept, found.from.display().to_string()),
        ("symbols", symbols(found.analysis.symbols).to_string()),
        (
            "functions",
            format!("{}: {}", number(code.functions as u64), placed(&found.analysis.placed)),
        ),
        (
            "code",
            format!(
                "{} instructions, {} calls, {} tail jumps, {} calls by pointer",
                number(code.instructions),
                number(code.calls),
                number(code.tail_jumps),
                number(code.by_pointer),
            ),
        ),
        (
            "reached",
            format!(
                "{} functions, from {from} and {} tables of operations",
                number(found.analysis.reached as u64),
                found.analysis.tables
            ),
        ),
    ];
    lines.iter().map(|(name, value)| format!("{name:<11}{value}\n")).collect()
}

fn symbols(source: Source) -> &'static str {
    match source {
        Source::List => "/proc/kallsyms, or a list of that form",
        Source::Elf => "the image's ELF symbols",
        Source::Embedded => "what the image holds for its own /proc/kallsyms",
    }
}

fn placed(placed: &Placed) -> String {
    let counts = [
        (placed.by_debug, "placed by debugging information"),
        (placed.by_name, "placed by name"),
        (placed.by_choice, "by name and neighbours"),
        (placed.by_neighbours, "by neighbours"),
        (placed.not, "not"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0);
    said.map(|(count, how)| format!("{} {how}", number(*count as u64)))
        .collect::<Vec<_>>()
        .join(", ")
}

const COLUMNS: [&str; 8] =
    ["reached", "sites", "callees", "by table", "small", "merged", "probes", "fentry"];

fn table(borders: &[SubsystemBorder]) -> String {
    let row = |name: &str, cells: [String; 8]| {
        cells
            .iter()
            .fold(format!("{name:<15}"), |line, cell| line + &format!("{cell:>8} "))
            .trim_end()
            .to_string()
            + "\n"
    };
    let mut sums = [0; 8];
    let mut text = "\n".to_string() + &row("", COLUMNS.map(str::to_string));
    for border in borders {
        let values = [
            border.reached,
            border.sites,
            border.callees,
            border.by_table_only,
            border.small,
            border.wrappers,
            border.probes.len(),
            border.allowed(Allowed::Fentry),
        ];
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        text.push_str(&row(&border.name, values.map(|value| number(value as u64))));
    }
    text + &row("all", sums.map(|sum| number(sum as u64)))
}

fn legend(analysis: &Analysis) -> String {
    let probes = || analysis.subsystems.iter().flat_map(|border| &border.probes);
    let count = |how| probes().filter(|probe| probe.allowed == how).count() as u64;
    let said: Vec<&str> = analysis
        .allowed_by
        .iter()
        .map(|evidence| match evidence {
            Evidence::Code => "how functions begin",
            Evidence::Btf => "BTF",
            Evidence::Tracefs => "tracefs",
        })
        .collect();
    format!(
        "\nsites: places in other parts that call it; callees: the functions called; by table: of these,\n\
         those that only tables of operations name; small: over within {SMALL} instructions, their time\n\
         is left with the caller; merged: left to the probe of a function that they call.\n\
         \n{} probes, each at a function's entry and return: {} by fentry, {} by kprobe only, {} not\n\
         allowed, by {}.\n",
        number(probes().count() as u64),
        number(count(Allowed::Fentry)),
        number(count(Allowed::Kprobe)),
        number(count(Allowed::No)),
        said.join(", "),
    )
}

fn price(cost: &Cost) -> String {
    let time = |seconds| show_amount(seconds, Unit::Seconds);
    match cost {
        Ok(cost) => format!(
            "Each costs {} a thread that weigh follows, entry and return together, and {} any other;\n\
             measured now, by one probe on this machine.\n",
            time(cost.followed_seconds),
            time(cost.others_seconds),
        ),
        Err(why) => format!("What one costs cannot be measured: {why}.\n"),
    }
}

fn probe_line(probe: &Probe) -> String {
    let how = match probe.allowed {
        Allowed::Fentry => "fentry",
        Allowed::Kprobe => "kprobe",
        Allowed::No => "no",
    };
    let mut from = probe.callers.clone();
    from.extend(probe.by_table.then(|| "a table".to_string()));
    format!(
        "  {:<40} {how:<7} {:>4} sites, from {}\n",
        probe.function,
        probe.sites,
        from.join(", ")
    )
}

fn number(value: u64) -> String {
    show_count(value as f64)
}
