//! Regions for speedscope.app: one profile for each thread, whose stacks are the places in its call tree and whose weights
//! are exclusive times.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weigh_schema::region::{RegionKind, RegionRow};

use super::{Piece, RecordingFormat, RecordingPart, RecordingRows, TextKind};

/// The form.
pub const FORMAT: RecordingFormat = RecordingFormat {
    name: "speedscope",
    help: "Times of regions as flame graphs, one for each thread, for speedscope.app",
    text: TextKind::Json,
    part: RecordingPart::Regions,
    write,
};

/// What lies outside of all regions.
const OUTSIDE: &str = "(outside of regions)";

#[derive(Default)]
struct Frames {
    numbers: BTreeMap<String, usize>,
    names: Vec<Value>,
}

impl Frames {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.names.push(json!({ "name": name }));
        self.numbers.insert(name.to_string(), self.names.len() - 1);
        self.names.len() - 1
    }
}

#[derive(Default)]
struct Thread {
    name: String,
    stacks: Vec<Vec<usize>>,
    weights: Vec<f64>,
}

impl Thread {
    fn add(&mut self, row: &RegionRow, frames: &mut Frames) {
        if row.exclusive_seconds > 0.0 {
            let outside = [OUTSIDE.to_string()];
            let path = if row.kind == RegionKind::Thread { &outside[..] } else { &row.path };
            self.stacks.push(path.iter().map(|name| frames.number(name)).collect());
            self.weights.push(row.exclusive_seconds);
        }
    }

    fn profile(&self) -> Value {
        json!({
            "type": "sampled",
            "name": self.name,
            "unit": "seconds",
            "startValue": 0,
            "endValue": self.weights.iter().sum::<f64>(),
            "samples": self.stacks,
            "weights": self.weights,
        })
    }
}

fn write(recording: &dyn RecordingRows, piece: Piece<'_>) -> anyhow::Result<bool> {
    let (mut frames, mut threads) = (Frames::default(), BTreeMap::<(u32, u32), Thread>::new());
    recording.each_region(&mut |row| {
        // Ranges overlap: there is no stack that they are in.
        if row.kind == RegionKind::Range {
            return;
        }
        let thread = threads.entry((row.process, row.thread)).or_default();
        if thread.name.is_empty() {
            let rank = row.rank.map_or(String::new(), |rank| format!("rank {rank}, "));
            thread.name = format!("{rank}process {}, thread {}", row.process, row.thread);
        }
        thread.add(&row, &mut frames);
    })?;
    threads.retain(|_, thread| !thread.weights.is_empty());
    if threads.is_empty() {
        return Ok(false);
    }
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "weigh",
        "name": recording.summary().job.command.join(" "),
        "shared": { "frames": frames.names },
        "profiles": threads.values().map(Thread::profile).collect::<Vec<_>>(),
    });
    piece(&(file.to_string() + "\n"))?;
    Ok(true)
}
