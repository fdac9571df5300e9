//! One thing that a source says: what sinks take, and what stands in a recording's journal, one JSON object a line.
//!
//! Names on disk do not change with the names here. A kind that this version does not know is read as
//! [`Update::Unknown`], and so are unknown fields passed over.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::io::{IoCall, IoFound, Moment, PlaceMoment};
use crate::recording::{FileRow, ProcessRow};
use crate::region::{PhaseRow, RegionRow};
use crate::snapshot::Snapshot;
use crate::summary::Summary;

/// One thing that a source says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Update {
    /// The job is about to be started: what is known before it runs.
    Started(Box<Summary>),
    /// Values of several series, taken at one time.
    Samples {
        /// Nanoseconds since the Unix epoch, UTC.
        time_ns: i64,
        /// What the values are about.
        scope: Scope,
        /// The values by the name of their series.
        values: BTreeMap<String, f64>,
    },
    /// A process that has ended, or was alive at the end of the session.
    Process(ProcessRow),
    /// What one process did with one file.
    #[serde(rename = "file")]
    FileUse(FileRow),
    /// The same as far as it is known; a later one of this file and process takes its place.
    #[serde(rename = "file_so_far")]
    FileUseSoFar(FileRow),
    /// What was read and written so far, by all files.
    #[serde(rename = "io")]
    IoTotals(Box<IoFound>),
    /// What was read and written since the last interval.
    #[serde(rename = "io_moment")]
    IoInterval(Moment),
    /// Where in the file that was.
    #[serde(rename = "io_place")]
    OffsetHistogram(PlaceMoment),
    /// One system call that was about a file.
    #[serde(rename = "io_call")]
    Syscall(Box<IoCall>),
    /// A region at one place in the call tree of one thread, as it was in the end.
    Region(Box<RegionRow>),
    /// A phase that has ended.
    Phase(Box<PhaseRow>),
    /// What was known when a watched file asked for it.
    Snapshot(Box<Snapshot>),
    /// The summary as far as it is known.
    Summary(Box<Summary>),
    /// A kind that this version does not know; it cannot be written.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// What a value is about, with its instance. As text: `job`, `process:12`, `core:3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Scope {
    /// The job as a whole.
    Job,
    /// One process, by its PID.
    Process(u32),
    /// The node as a whole.
    Node,
    /// One of the node's CPUs.
    Core(u32),
    /// A disk, by the kernel's name.
    Disk(String),
    /// A network interface.
    Interface(String),
    /// A mount of a network file system, by its mount point.
    Mount(String),
    /// One kind of operation on such a mount.
    Operation {
        /// As the file system names it: `READ`, `open`.
        name: String,
        /// The mount point, or the file system's name.
        mount: String,
    },
    /// A sensor: its chip and its input.
    Sensor(String),
    /// A power zone of the CPUs.
    PowerZone(String),
    /// A GPU, by its number.
    Gpu(u32),
    /// A scope of another version, as its text.
    Other(String),
}

impl From<String> for Scope {
    fn from(text: String) -> Scope {
        let number = |prefix: &str| {
            let digits = text.strip_prefix(prefix)?;
            // What is written again is the same: no sign, no leading zeros.
            digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
        };
        let named = |prefix: &str| text.strip_prefix(prefix).map(str::to_string);
        match text.as_str() {
            "job" => Scope::Job,
            "node" => Scope::Node,
            _ => (number("process:").map(Scope::Process))
                .or_else(|| number("core:").map(Scope::Core))
                .or_else(|| number("gpu:").map(Scope::Gpu))
                .or_else(|| named("disk:").map(Scope::Disk))
                .or_else(|| named("interface:").map(Scope::Interface))
                .or_else(|| named("mount:").map(Scope::Mount))
                .or_else(|| operation(&text))
                .or_else(|| named("sensor:").map(Scope::Sensor))
                .or_else(|| named("power:").map(Scope::PowerZone))
                .unwrap_or(Scope::Other(text)),
        }
    }
}

/// `operation:READ:/scratch`: a mount point may hold colons, a name does not.
fn operation(text: &str) -> Option<Scope> {
    let (name, mount) = text.strip_prefix("operation:")?.split_once(':')?;
    Some(Scope::Operation { name: name.to_string(), mount: mount.to_string() })
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.to_string()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Job => f.write_str("job"),
            Scope::Node => f.write_str("node"),
            Scope::Process(pid) => write!(f, "process:{pid}"),
            Scope::Core(core) => write!(f, "core:{core}"),
            Scope::Gpu(number) => write!(f, "gpu:{number}"),
            Scope::Disk(name) => write!(f, "disk:{name}"),
            Scope::Interface(name) => write!(f, "interface:{name}"),
            Scope::Mount(point) => write!(f, "mount:{point}"),
            Scope::Operation { name, mount } => write!(f, "operation:{name}:{mount}"),
            Scope::Sensor(name) => write!(f, "sensor:{name}"),
            Scope::PowerZone(name) => write!(f, "power:{name}"),
            Scope::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_scope_has_its_instance() {
        let scopes = [Scope::Job, Scope::Node, Scope::Process(12), Scope::Core(3)];
        let texts = ["job", "node", "process:12", "core:3"];
        assert_eq!(scopes.each_ref().map(ToString::to_string), texts);
        assert_eq!(texts.map(|text| Scope::from(text.to_string())), scopes);
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_it_was(text in "(job|process:|core:|gpu:|disk:|interface:|mount:|operation:|sensor:|power:)?[-+:/0-9a-z]{0,12}") {
            prop_assert_eq!(Scope::from(text.clone()).to_string(), text);
        }
    }

    #[test]
    fn names_on_disk_stay() {
        let line = r#"{"entry":"samples","time_ns":7,"scope":"job","values":{"x":1.5}}"#;
        let update: Update = serde_json::from_str(line).expect("reads");
        assert_eq!(serde_json::to_string(&update).expect("writes"), line);
        let newer = r#"{"entry":"weather","name":"rain"}"#;
        assert_eq!(serde_json::from_str::<Update>(newer).expect("reads"), Update::Unknown);
    }
}
