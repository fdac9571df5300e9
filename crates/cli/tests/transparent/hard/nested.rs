//! `weigh run` in `weigh run`: the inner one measures a workload, the outer one both. Columns are
//! the outer mechanism.

use weigh_schema::event::CollectorStatus;

use super::judge::{Truth, is_whole, judge};
use super::{Case, HOWS, How, Outcome, followed};
use crate::support::measured::{Measured, is_exact_but_for_uncounted};
use crate::support::run::{Scratch, Weigh};
use crate::support::{weigh_for_everybody, workload};

/// The cases: one for each inner mechanism.
pub fn cases() -> Vec<Case> {
    let inner = HOWS.iter().map(|how| (how.name, how.needs_root)).chain([("auto", false)]);
    inner
        .map(|(name, needs_root)| Case {
            name: match name {
                "bpf" => "bpf inside",
                "ptrace" => "ptrace inside",
                "preload" => "preload inside",
                "poll" => "poll inside",
                _ => "auto inside",
            },
            does: format!("`weigh run --mechanism {name}` in the job"),
            needs_root,
            run: Box::new(move |case, how| both(case, how, name)),
        })
        .collect()
}

fn both(case: &Case, how: &How, inner: &str) -> Result<Outcome, String> {
    let weigh = weigh_for_everybody().display().to_string();
    let hide = workload("hide");
    let command =
        [&weigh, "run", "-q", "-o", "inner", "--mechanism", inner, "--", &hide, "environment"];
    let outer = followed(Weigh::run(command), how, case.user(how)).end();
    let failed = |what: String| format!("{what}\n{}", outer.everything());
    if !outer.status.success() {
        return Err(failed("harmed".to_string()));
    }
    let of_inner = inside(&outer).map_err(&failed)?;
    let of_outer = at_least(&outer, &Truth::told(&outer)).map_err(&failed)?;
    Ok(match (of_inner, of_outer) {
        (Outcome::Exact, Outcome::Exact) => Outcome::Exact,
        (of_inner, of_outer) => {
            Outcome::Told(format!("inner {}; outer {}", words(&of_inner), words(&of_outer)))
        }
    })
}

fn words(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Exact => "exact",
        Outcome::Told(what) => what,
        Outcome::Fails(what) => what,
    }
}

/// The inner run, held to the whole truth.
fn inside(outer: &Measured) -> Result<Outcome, String> {
    let scratch = Scratch::new();
    let from = outer.scratch.path("work/inner");
    std::os::unix::fs::symlink(&from, scratch.path("recording")).expect("a link");
    std::fs::copy(outer.scratch.path("truth"), scratch.path("truth")).expect("the truth");
    let inner = Measured::new(scratch, outer.status, outer.took);
    judge(&inner).map_err(|error| format!("inner: {error}\n{}", inner.everything()))
}

/// The outer run, whose job is the inner weigh too: no less than the truth.
fn at_least(outer: &Measured, truth: &Truth) -> Result<Outcome, String> {
    is_whole(outer)?;
    let demands = [
        ("processes", "processes_total", (truth.processes + 1) as f64),
        ("CPU", "cpu_seconds", truth.cpu_ns as f64 * 1e-9),
        ("bytes", "io_written_bytes_total", truth.written_bytes as f64),
        ("memory", "memory_peak_process_rss_bytes", truth.memory_bytes as f64),
    ];
    let mut told = Vec::new();
    for (word, metric, low) in demands {
        let value = outer.value(metric);
        if !is_exact_but_for_uncounted(value) {
            told.push(word);
        } else if value.number().is_none_or(|number| number < low) {
            return Err(format!("{metric} of the outer run is {value:?}, expected {low} or more"));
        }
    }
    // What a look finds out in time is chance.
    let by_looks = |c: &CollectorStatus| ["poll", "preload"].contains(&c.name.as_str());
    Ok(match told.is_empty() {
        _ if outer.summary().collectors.iter().any(by_looks) => {
            Outcome::Told("says what is not exact".to_string())
        }
        true => Outcome::Exact,
        false => Outcome::Told(format!("{} not exact", told.join(", "))),
    })
}
