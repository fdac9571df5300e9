//! What was counted of a stream, for people and for files.

use serde::{Deserialize, Serialize};
use weigh_schema::synthesis::SynthesisReport;

/// What the buffer is called that no `--into` names.
pub const MAIN: &str = "main";

/// What was counted of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Its event.
    #[serde(skip)]
    pub event: String,
    /// Records that were written.
    pub sent: u64,
    /// Records for which the ring had no room.
    pub lost: u64,
    /// Events that met their own program at work.
    pub missed: u64,
    /// Events that the filter let through, where there is sampling after it.
    pub matched: Option<u64>,
}

/// What was counted of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// What it is called.
    #[serde(skip)]
    pub name: String,
    /// Records that were taken in.
    pub taken: u64,
    /// Events that its predicate did not let in.
    pub passed_over: u64,
    /// Events for which it had no room.
    pub lost: u64,
}

/// What was counted of all.
pub struct Totals {
    /// Of each probe.
    pub probes: Vec<Counted>,
    /// Of each buffer.
    pub buffers: Vec<Taken>,
    /// Records that were taken in.
    pub taken: u64,
    /// Threads that could not be followed.
    pub lost_threads: u64,
    /// How long it was.
    pub seconds: f64,
    /// What several events said together, if that was asked for.
    pub synthesis: Option<SynthesisReport>,
}

impl Totals {
    /// Events of which there is no record.
    pub fn lost(&self) -> u64 {
        self.probes.iter().map(|counted| counted.lost + counted.missed).sum()
    }

    /// In a few lines.
    pub fn told(&self) -> String {
        let (taken, seconds, lost) = (self.taken, self.seconds, self.lost());
        let mut told = format!("weigh: {taken} events in {seconds:.3} s, {lost} lost\n");
        for counted in &self.probes {
            told += &format!("       {:>12}  {}", counted.sent, counted.event);
            if let Some(matched) = counted.matched {
                told += &format!("  of {matched}");
            }
            if counted.lost + counted.missed > 0 {
                told += &format!("  {} lost", counted.lost + counted.missed);
            }
            told += "\n";
        }
        if self.buffers.len() > 1 || self.buffers.iter().any(|buffer| buffer.name != MAIN) {
            for Taken { name, taken, passed_over, lost } in &self.buffers {
                told += &format!(
                    "       {taken:>12}  into {name}, {passed_over} passed over, {lost} lost\n"
                );
            }
        }
        if self.lost_threads > 0 {
            told += &format!("weigh: {} threads could not be followed\n", self.lost_threads);
        }
        told
    }
}
