//! What each way of following costs, for the reference of mechanisms: `docs/measurements/costs.json`.
//!
//! Reads the figures of the overhead; emits JSON that `weigh generate` takes its table from.

use anyhow::Result;
use serde_json::{Value, json};

use crate::calls::Calls;
use crate::machine;
use crate::plot::{Bar, Panel};
use crate::tools::Tools;

/// The file.
pub fn text(panels: &[Panel], calls: &Calls, tools: &Tools) -> Result<String> {
    let slow: Vec<Value> = tools
        .ways
        .iter()
        .filter_map(|way| Some(json!({ "way": way.name(), "us_a_call": calls.slow(way)? })))
        .collect();
    let file = json!({
        "measured": jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        "machine": machine::describe()?,
        "works": panels.iter().map(panel).collect::<Vec<_>>(),
        "calls": slow,
    });
    Ok(serde_json::to_string_pretty(&file)? + "\n")
}

fn panel(panel: &Panel) -> Value {
    let bar = |bar: &Bar| {
        json!({
            "way": bar.name,
            "cpu_more_percent": rounded(bar.median),
            "low": rounded(bar.low),
            "high": rounded(bar.high),
        })
    };
    json!({ "work": panel.title, "ways": panel.bars.iter().map(bar).collect::<Vec<_>>() })
}

/// To what is shown of it.
fn rounded(percent: f64) -> f64 {
    (percent * 100.0).round() / 100.0
}
