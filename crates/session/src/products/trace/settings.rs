//! What a stream of events is to be: what is followed, where it goes, and what several events say together.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use weigh_schema::trace::is_page;

/// A stream, as it was asked for.
#[derive(Clone, Debug, Default)]
pub struct TraceSettings {
    /// The command and its arguments; empty: what runs already is followed.
    pub command: Vec<OsString>,
    /// Events, in the language of events.
    pub events: Vec<String>,
    /// Filters that hold for all events.
    pub filters: Vec<String>,
    /// The sampling of each event that has none of its own.
    pub sampling: Option<String>,
    /// The file that records go to, `-` for lines of JSON on standard output; none: the terminal.
    pub output: Option<PathBuf>,
    /// A process that runs.
    pub pid: Option<u32>,
    /// Everybody is followed.
    pub system: bool,
    /// Until when.
    pub duration: Option<Duration>,
    /// Bytes of each ring.
    pub ring_bytes: Option<usize>,
    /// A ring for each CPU.
    pub per_cpu: bool,
    /// One ring for all CPUs.
    pub total_order: bool,
    /// Wake when a CPU has written so much.
    pub wake_bytes: Option<u64>,
    /// Buffers beside or instead of the one of `output`.
    pub buffers: Vec<String>,
    /// Whether commands are run for events.
    pub has_triggers: bool,
    /// Changes that are in force while a condition holds.
    pub adaptations: Vec<String>,
    /// What several events say together.
    pub synthesis: SynthesisSettings,
}

/// What is wanted of several events together.
#[derive(Clone, Debug, Default)]
pub struct SynthesisSettings {
    /// Times between two events.
    pub latency: Vec<String>,
    /// Pairs that are passed on, or events that nothing follows.
    pub sequence: Vec<String>,
    /// Events in a second.
    pub rate: Vec<String>,
    /// Keys with most events.
    pub top: Vec<String>,
    /// How values of a field are spread.
    pub histogram: Vec<String>,
    /// So many keys are kept of each.
    pub keys: usize,
    /// Drawn while it runs.
    pub live: bool,
    /// Where the report goes as JSON; `-` is standard output.
    pub json: Option<String>,
    /// How often it goes there while the stream runs; none: in the end alone.
    pub every: Option<Duration>,
    /// Whether programs collect it, or it is published.
    pub has_readers: bool,
}

impl TraceSettings {
    /// Whether the file draws pairs of events, also where none are asked for.
    pub(super) fn draws_pairs(&self) -> bool {
        self.output.as_deref().is_some_and(is_page)
    }

    /// Whether neither a command nor a process is named.
    pub(super) fn names_nobody(&self) -> bool {
        self.command.is_empty() && self.pid.is_none()
    }

    /// Whether only some threads are followed.
    pub(super) fn follows_some(&self) -> bool {
        !self.names_nobody() && !self.system
    }

    /// Whether all records that are written go to standard output.
    pub fn writes_to_output(&self) -> bool {
        let is_output = |path: &PathBuf| path.as_os_str() == "-";
        self.output.as_ref().is_none_or(is_output) && self.buffers.is_empty()
    }

    /// Whether standard output is all that has something of it.
    pub fn goes_to_output_alone(&self) -> bool {
        let synthesis = &self.synthesis;
        self.writes_to_output()
            && !synthesis.live
            && synthesis.json.as_deref().is_none_or(|json| json == "-")
            && !synthesis.has_readers
            && !self.has_triggers
    }
}
