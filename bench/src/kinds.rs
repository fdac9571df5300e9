//! Each kind of call, and ten thousand processes, by the best way of weigh that works here.

use anyhow::{Context, Result};

use crate::page::{Page, Table};
use crate::runs::{Bench, Measured};
use crate::spread::Verdict;

/// Both.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    page.heading(2, "Kinds of calls");
    page.paragraph(
        "By the best way that works here: bytes beyond a run that moves none, against the sum of \
         the calls' return values. Each kind of call in a dynamic and a static program.",
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
    many_processes(bench, page)
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

fn many_processes(bench: &Bench, page: &mut Page) -> Result<()> {
    let count: u32 = if bench.quick { 500 } else { 10_000 };
    eprintln!("accuracy: {count} processes");
    let loops = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done");
    let measured = bench.measure(&[], &["sh", "-c", &loops].map(String::from))?;
    let seen = measured.metric("processes_total").context("processes")?;
    page.paragraph(&format!(
        "`/bin/true` {count} times from a shell, which is one more process: {seen} seen."
    ));
    Ok(())
}
