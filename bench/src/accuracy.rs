//! How right it is: programs that do exact, odd amounts and say so, against what weigh says; and
//! how far a program gets beyond its limit.

use anyhow::{Context, Result, ensure};

use crate::page::{Page, Table};
use crate::runs::{Bench, Measured};
use crate::spread::Verdict;

/// The worst case of several runs of each: by how many percent the peak is off.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    page.heading(2, "Accuracy");
    memory(bench, page)?;
    input_and_output(bench, page)?;
    processes(bench, page)
}

fn memory(bench: &Bench, page: &mut Page) -> Result<()> {
    const METRIC: &str = "memory_peak_bytes";
    let runs = bench.times(3);
    page.paragraph(&format!(
        "Memory: `{METRIC}` against the programs' own walk of their page tables \
         (`/proc/self/smaps_rollup`), the worst of {runs} runs."
    ));
    let mut table = Table::new(["program", "truth", "weigh", "error", "target", "verdict"]);
    for (name, line, truth, target) in [
        ("257 MB, exit", "fill 257000000 exit", "peak_rss_bytes", 0.5),
        ("257 MB, exit, static", "fill-static 257000000 exit", "peak_rss_bytes", 0.5),
        ("257 MB, `_exit`", "fill 257000000 _exit", "peak_rss_bytes", 0.5),
        ("257 MB, SIGKILL", "fill 257000000 kill", "peak_rss_bytes", 0.5),
        ("257 MB, freed before exit", "fill 257000000 free", "peak_rss_bytes", 0.5),
        ("2 × 300 MB together", "children 2 300000000 together", "rss_sum_peak_bytes", 1.0),
        ("2 × 300 MB in turn", "children 2 300000000 turn", "rss_sum_peak_bytes", 1.0),
        ("3 × 200 MB for 50 ms", "children 3 200000000 together 50", "rss_sum_peak_bytes", 1.0),
        ("400 MB by 64 threads", "threads 64 400000001", "peak_rss_bytes", 1.0),
    ] {
        eprintln!("accuracy: {name}");
        let mut worst: Option<(f64, u64, f64)> = None;
        for _ in 0..runs {
            let measured = bench.measure(&[], &bench.workload(line))?;
            let (seen, truth) = (measured.metric(METRIC)?, measured.truth(truth)?);
            let error = (seen / truth as f64 - 1.0) * 100.0;
            if worst.is_none_or(|(greatest, ..)| error.abs() > greatest.abs()) {
                worst = Some((error, truth, seen));
            }
        }
        let (error, truth, seen) = worst.context("no run")?;
        table.row([
            name.to_string(),
            truth.to_string(),
            seen.to_string(),
            format!("{error:+.3} %"),
            format!("≤ {target} %"),
            Verdict::exact(error.abs() <= target).to_string(),
        ]);
    }
    page.table(&table);
    Ok(())
}

fn input_and_output(bench: &Bench, page: &mut Page) -> Result<()> {
    page.paragraph(
        "I/O by calls: bytes beyond a run that moves none, against the sum of the calls' return \
         values. Each kind of call in a dynamic and a static program.",
    );
    let most = if bench.quick { 33_554_467 } else { 1 << 30 };
    let sizes = [(1_000_003, 1021), (33_554_467, 4099), (most, 65_537)];
    let mut table =
        Table::new(["calls", "bytes moved", "bytes off", "calls off", "target", "verdict"]);
    for kind in ["read", "pread", "readv", "write", "pwrite", "writev"] {
        eprintln!("accuracy: {kind}");
        let (mut moved, mut bytes_off, mut calls_off) = (0, 0, 0);
        for program in ["io", "io-static"] {
            let run = |bytes: u64, chunk: u64| {
                bench.measure(&[], &bench.workload(&format!("{program} {kind} {bytes} {chunk}")))
            };
            let none = run(0, 1021)?;
            for (bytes, chunk) in sizes {
                let some = run(bytes, chunk)?;
                moved += bytes;
                bytes_off += off(&some, &none, "bytes")?;
                calls_off += off(&some, &none, "calls")?;
            }
        }
        table.row([
            format!("`{kind}`"),
            moved.to_string(),
            bytes_off.to_string(),
            calls_off.to_string(),
            "0 bytes".to_string(),
            Verdict::exact(bytes_off == 0).to_string(),
        ]);
    }
    page.table(&table);
    Ok(())
}

/// Read and written, beyond a run that moves nothing: how far weigh and the program differ.
fn off(some: &Measured, none: &Measured, what: &str) -> Result<u64> {
    let mut off = 0;
    for (direction, calls) in [("read", "read"), ("written", "write")] {
        let direction = if what == "calls" { calls } else { direction };
        let (metric, truth) =
            (format!("io_{direction}_{what}_total"), format!("io_{direction}_{what}"));
        let seen = (some.metric(&metric)? - none.metric(&metric)?) as i64;
        let truth = some.truth(&truth)? as i64 - none.truth(&truth)? as i64;
        off += seen.abs_diff(truth);
    }
    Ok(off)
}

fn processes(bench: &Bench, page: &mut Page) -> Result<()> {
    page.paragraph("Processes: `/bin/true` that many times from a shell, which is one more.");
    let mut table = Table::new(["runs", "processes", "weigh", "target", "verdict"]);
    for count in if bench.quick { [50, 500] } else { [500, 10_000] } {
        eprintln!("accuracy: {count} processes");
        let loops = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done");
        let measured = bench.measure(&[], &["sh", "-c", &loops].map(String::from))?;
        let seen = measured.metric("processes_total")?;
        let truth = count + 1;
        table.row([
            count.to_string(),
            truth.to_string(),
            seen.to_string(),
            "none missed".to_string(),
            Verdict::exact(seen == f64::from(truth)).to_string(),
        ]);
    }
    page.table(&table);
    Ok(())
}

/// How far a program gets beyond its limit.
pub fn write_limits(bench: &Bench, page: &mut Page) -> Result<()> {
    const TARGET: f64 = 100.5e6;
    let runs = bench.times(7);
    page.heading(2, "Limits");
    page.paragraph(&format!(
        "A limit of `memory_peak_bytes=100MB`: the most that the job held when it was ended, in \
         bytes, the worst of {runs} runs. “Touched” is what the programs themselves had counted, \
         step by step (the program that takes 2 GB at once counts only when it has all of it: it \
         never came to that); “weigh” includes the program and its libraries."
    ));
    let mut table = Table::new(["program", "touched", "weigh", "offender", "target", "verdict"]);
    for (name, line) in [
        ("1 MB every ms", "grow step 1000000 1000 2000000000"),
        ("2 GB at once", "grow once 2000000000"),
        ("four processes, each 1 MB every ms", "grow children 4 1000000 1000 1000000000"),
    ] {
        eprintln!("limits: {name}");
        let (mut touched, mut seen, mut named) = (0, 0.0_f64, 0);
        for _ in 0..runs {
            let command = bench.workload(line);
            let measured = bench.measure(&["--limit", "memory_peak_bytes=100MB"], &command)?;
            ensure!(measured.status.code() == Some(124), "{line}: {}", measured.status);
            touched = touched.max(touched_bytes(&measured)?);
            seen = seen.max(measured.metric("memory_peak_bytes")?);
            named += usize::from(measured.summary.limits.iter().any(|l| l.offender.is_some()));
        }
        let met = seen <= TARGET && touched as f64 <= TARGET && named == runs;
        table.row([
            name.to_string(),
            touched.to_string(),
            seen.to_string(),
            format!("named in {named} of {runs}"),
            "≤ 100500000".to_string(),
            Verdict::exact(met).to_string(),
        ]);
    }
    page.table(&table);
    Ok(())
}

/// What the processes of `grow` had touched, in all.
fn touched_bytes(measured: &Measured) -> Result<u64> {
    let bytes = measured.progress.as_ref().context("grow did not tell how far it was")?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number)).sum())
}
