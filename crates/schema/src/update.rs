//! One thing that a source says: what sinks take, and what stands in a recording's journal, one JSON object a line.
//!
//! Names on disk do not change with the names here. A kind that this version does not know is read as
//! [`Update::Unknown`], and so are unknown fields passed over.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::call::CallsReport;
use crate::io::{FileUse, IoCall, IoFound, Moment, PlaceMoment};
use crate::quality::Quality;
use crate::recording::ProcessRow;
use crate::region::{PhaseRow, RegionRow};
use crate::summary::{Snapshot, Summary};

pub use crate::scope::Scope;

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
    FileUse(#[serde(deserialize_with = "file_use")] Box<FileUse>),
    /// The same as far as it is known; a later one of this file and process takes its place.
    #[serde(rename = "file_so_far")]
    FileUseSoFar(#[serde(deserialize_with = "file_use")] Box<FileUse>),
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
    /// What system calls cost so far, in each part of the kernel; a later one takes its place.
    #[serde(rename = "calls")]
    SyscallTotals(Box<CallsReport>),
    /// A region at one place in the call tree of one thread, as it was in the end.
    Region(Box<RegionRow>),
    /// The same as it is while its process runs; a later one of this place and thread takes its place.
    RegionSoFar(Box<RegionRow>),
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

/// A file as a line has it, or as lines had it before what is known of opened files and of followed ones was one type.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileLine {
    Now(Box<FileUse>),
    Followed {
        used: Box<FileUse>,
    },
    Opened {
        pid: u32,
        path: String,
        path_base64: Option<String>,
        opened_total: u64,
        quality: Quality,
    },
}

fn file_use<'de, D: Deserializer<'de>>(from: D) -> Result<Box<FileUse>, D::Error> {
    Ok(match FileLine::deserialize(from)? {
        FileLine::Now(used) | FileLine::Followed { used } => used,
        FileLine::Opened { pid, path, path_base64, opened_total, quality } => {
            let opened = FileUse::opened(pid, &path, opened_total, quality);
            Box::new(FileUse { name_base64: path_base64, ..opened })
        }
    })
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
        fn any_text_comes_back_as_it_was(text in "(job|process:|core:|gpu:|disk:|interface:|mount:|operation:|sensor:|power:|group:)?[-+:/0-9a-z]{0,12}") {
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

    #[test]
    fn files_of_an_older_journal_are_read() {
        let opened =
            r#"{"entry":"file","pid":7,"path":"/a","opened_total":3,"quality":"estimated"}"#;
        let expected = FileUse::opened(7, "/a", 3, Quality::Estimated);
        let read = serde_json::from_str::<Update>(opened).expect("reads");
        assert_eq!(read, Update::FileUse(Box::new(expected)));
        let used = FileUse { inode: 9, ..FileUse::followed(7, "/b".to_string()) };
        let text = serde_json::to_string(&used).expect("writes");
        let older = format!(
            r#"{{"entry":"file_so_far","pid":7,"path":"/b","opened_total":0,"quality":"exact","used":{text}}}"#
        );
        let read = serde_json::from_str::<Update>(&older).expect("reads");
        assert_eq!(read, Update::FileUseSoFar(Box::new(used)));
    }
}
