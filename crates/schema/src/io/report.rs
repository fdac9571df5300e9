//! What `weigh io` found: what other software builds on.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::called::Untold;
use super::file_state::FileStates;
use super::object::Object;
use super::provenance::{Price, Witness};
use super::transferred::{Transferred, Trust, Unseen};
use crate::byte_text;
use crate::quality::{Mechanism, Quality};
use crate::unit::Number;
use crate::zero::is_zero;

/// The schema of a report.
pub const REPORT: &str = "weigh.io/1";

/// Keys are texts in JSON, and stay so where a structure is flattened into another.
fn by_size<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u64, u64>, D::Error> {
    let texts = BTreeMap::<String, u64>::deserialize(from)?;
    let number =
        |(size, count): (String, u64)| Ok((size.parse().map_err(D::Error::custom)?, count));
    texts.into_iter().map(number).collect()
}

fn exact() -> Quality {
    Quality::Exact
}

fn is_exact(quality: &Quality) -> bool {
    *quality == Quality::Exact
}

fn is_false(is: &bool) -> bool {
    !*is
}

/// The report. Its files may be told one after the other, so that they need not all be in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoReport<Files = Vec<FileUse>> {
    /// [`REPORT`].
    pub schema: String,
    /// What was followed: the command, or nothing if it ran already.
    pub command: Vec<String>,
    /// Its words as Base64, where one of them is no UTF-8: there `command` has U+FFFD for what is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_base64: Vec<String>,
    /// The process that was followed from the time it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Where the file system is mounted that was followed, whatever process used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_base64: Option<String>,
    /// What was found of all files together.
    #[serde(flatten)]
    pub found: IoFound,
    /// Each file and process, those that took most time first; pipes, sockets and terminals behind the others.
    pub files: Files,
    /// The processes.
    pub processes: Vec<ProcessUse>,
}

/// What was found of all files together: the part of a report that the summary of a recording has, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoFound {
    /// How long it was followed.
    pub wall_seconds: f64,
    /// How calls were seen.
    pub mechanism: Mechanism,
    /// How far bytes and calls can be trusted, all together.
    #[serde(default = "exact", skip_serializing_if = "is_exact")]
    pub quality: Quality,
    /// The kernel's own count, where it is needed as a witness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
    /// What seeing cost the job, where that is known call by call: it is in the time of the calls, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Of all files together.
    pub totals: Totals,
    /// How many files and processes there are.
    pub uses_total: u64,
    /// Who wrote what others read; absent while the job runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
    /// What could be better, with the figures that say so.
    pub advice: Vec<Advice>,
    /// Files that have no row of their own, all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
    /// Calls that have no row of their own where each was wanted; they are in all sums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<Untold>,
    /// Kinds of transfer, and numbers, that are not exact for what the mechanism cannot see, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub qualities: BTreeMap<String, Trust>,
    /// What is not in the numbers, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Of files, not of what was done with them: no number.
const IS_DELETED: &str = "is_deleted";

impl IoFound {
    /// What is not in the numbers, or not exact in them, and why.
    pub fn not_seen(&self) -> Vec<String> {
        let beside = (self.quality != Quality::Exact)
            .then(|| format!("bytes and calls, all together, are {}", self.quality));
        let unseen = beside.into_iter().chain(self.less_than_exact());
        unseen.chain(self.notes.iter().cloned()).collect()
    }

    /// Numbers that are not exact: those that have the same reason together, what is not known first.
    fn less_than_exact(&self) -> Vec<String> {
        let mut reasons: BTreeMap<(Reverse<bool>, &str), Vec<&str>> = BTreeMap::new();
        for (key, trust) in self.qualities.iter().filter(|(key, _)| *key != IS_DELETED) {
            let is_unknown = trust.quality == Quality::Unavailable;
            reasons.entry((Reverse(is_unknown), &trust.reason)).or_default().push(key);
        }
        let line = |((Reverse(is_unknown), reason), keys): (&(Reverse<bool>, &str), &Vec<&str>)| {
            let quality = if *is_unknown { Quality::Unavailable } else { Quality::Estimated };
            format!("{} {quality}: {reason}", keys.join(", "))
        };
        reasons.iter().map(line).collect()
    }
}

/// Of one file and process, or of many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// By calls: all kinds but `mapped`.
    #[serde(flatten)]
    pub by_calls: Transferred,
    /// By kind of transfer; those that did not happen are absent.
    pub by_kind: BTreeMap<String, Transferred>,
    /// Reads by size: from how many bytes on, and how many; powers of two.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "by_size")]
    pub read_sizes: BTreeMap<u64, u64>,
    /// Writes by size.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "by_size")]
    pub write_sizes: BTreeMap<u64, u64>,
    /// The other numbers, by [`super::Field::key`]; those that are 0 are absent.
    pub numbers: BTreeMap<String, Number>,
}

impl FileUse {
    const OPENS: &str = "opens_total";

    /// A file of which nothing is known but how often a process opened it. The path is in the form that keeps its bytes.
    pub fn opened(pid: u32, path: &str, times: u64, quality: Quality) -> FileUse {
        let unseen = Unseen { reads: true, writes: true };
        let by_calls = Transferred { unseen, ..Transferred::default() };
        let mut used = FileUse {
            name: byte_text::shown(path),
            name_base64: byte_text::base64(path),
            pid,
            totals: Totals { by_calls, ..Totals::default() },
            opens_quality: Some(quality),
            ..FileUse::default()
        };
        used.set_opens(times);
        used
    }

    /// Of which all is known, and nothing was done yet.
    pub fn followed(pid: u32, name: String) -> FileUse {
        let (deleted_quality, moved_quality) = (Quality::Exact, Quality::Exact);
        FileUse { pid, name, deleted_quality, moved_quality, ..FileUse::default() }
    }

    /// Whether more is known of it than how often it was opened.
    pub fn is_followed(&self) -> bool {
        self.opens_quality.is_none()
    }

    /// How often the process opened it.
    pub fn opens(&self) -> u64 {
        match self.totals.numbers.get(FileUse::OPENS) {
            Some(Number::Whole(times)) => *times,
            _ => 0,
        }
    }

    /// Takes note of that.
    pub fn set_opens(&mut self, times: u64) {
        if times > 0 {
            self.totals.numbers.insert(FileUse::OPENS.to_string(), Number::Whole(times));
        }
    }

    /// Whether it is a file of which it is known that the process has written to it, by calls or mapped memory.
    pub fn is_output(&self) -> bool {
        let is_written = |moved: &Transferred| moved.written_bytes > 0;
        self.object == Object::Regular
            && (is_written(&self.totals.by_calls) || self.totals.by_kind.values().any(is_written))
    }

    /// Whether its bytes and calls are no more than a lower bound: where nobody can know that they are all, but nothing
    /// speaks against it, they are told as they are.
    pub fn is_bound(&self) -> bool {
        match self.moved_quality {
            Quality::Exact => false,
            Quality::Unavailable => true,
            _ => self.moves_unseen != Some(false),
        }
    }

    /// Those that took most time come first; behind all of them those where it was spent waiting for somebody else.
    pub fn by_time(&self, other: &FileUse) -> Ordering {
        let waits = |of: &FileUse| of.object.is_waited_at();
        let by_time = || other.totals.seconds().total_cmp(&self.totals.seconds());
        waits(self).cmp(&waits(other)).then_with(by_time)
    }
}

impl Totals {
    /// Time in all calls.
    pub fn seconds(&self) -> f64 {
        let keys = ["read_seconds", "write_seconds", "metadata_seconds", "sync_seconds"];
        keys.iter().filter_map(|key| self.numbers.get(*key)).map(|number| number.as_f64()).sum()
    }
}

/// A distance between accesses, and how often there was it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stride {
    /// From the beginning of one access to the beginning of the next.
    pub bytes: i64,
    /// How often.
    pub times: u64,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    /// Its name.
    pub call: String,
    /// How long it took.
    pub seconds: f64,
    /// When it ended, in seconds since the following began.
    pub at_seconds: f64,
}

/// What one process, or one thread of it, did with one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileUse {
    /// Path when it was first seen, or addresses.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// The last path by which it was known, if that is another: it was renamed, or opened by another link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_name: Option<String>,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_name_base64: Option<String>,
    /// What it is.
    pub object: Object,
    /// The process.
    pub pid: u32,
    /// The thread, where threads are told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// The kernel's name for the process.
    pub process: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_base64: Option<String>,
    /// The file system's device: major * 2^20 + minor.
    pub device: u32,
    /// The inode.
    pub inode: u64,
    /// What tells it from other files that have had this inode: its generation, or a mark of its birth. None in
    /// recordings that were made before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Whether it had no name any more in the end, as far as that is known.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_deleted: bool,
    /// How far that is known: unavailable where nobody could look for the file in the end.
    #[serde(default = "exact", skip_serializing_if = "is_exact")]
    pub deleted_quality: Quality,
    /// Size, mode and time before the job and after it, of regular files that were looked for in the end.
    #[serde(default, skip_serializing_if = "FileStates::is_empty")]
    pub states: FileStates,
    /// The mechanisms that counted what is in this row, where several count in one job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Mechanism>,
    /// The numbers.
    #[serde(flatten)]
    pub totals: Totals,
    /// The commonest strides of reads that do not begin where the last one ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_strides: Vec<Stride>,
    /// The same of writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_strides: Vec<Stride>,
    /// How far bytes and calls can be trusted: a lower bound where the process moved others unseen, or may have.
    #[serde(default = "exact", skip_serializing_if = "is_exact")]
    pub moved_quality: Quality,
    /// Whether it is known that the process moved others unseen; none where that quality is exact, and in recordings
    /// of before 2026-11-29, where it was known if the quality was not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_unseen: Option<bool>,
    /// How far the numbers of bytes read or written again can be trusted.
    pub again_quality: Quality,
    /// How far it can be trusted what was read ahead in vain.
    #[serde(default = "exact", skip_serializing_if = "is_exact")]
    pub readahead_quality: Quality,
    /// The slowest call on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest: Option<Slowest>,
    /// Where nothing is known but how often it was opened: whether every open is counted. Absent where all was followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_quality: Option<Quality>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// In the initial PID namespace.
    pub pid: u32,
    /// Who started it.
    pub parent: u32,
    /// The kernel's name for it.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Since the following began.
    pub started_seconds: f64,
    /// Absent while it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_seconds: Option<f64>,
    /// Bytes and calls, of all its files.
    #[serde(flatten)]
    pub by_calls: Transferred,
    /// How far these can be trusted: a lower bound where others were moved unseen.
    #[serde(default = "exact", skip_serializing_if = "is_exact")]
    pub moved_quality: Quality,
    /// Time in calls on files.
    pub io_seconds: f64,
    /// Calls that name a file by its path and open nothing: stat, unlink, rename and their like.
    pub path_calls_total: u64,
    /// Time in them.
    pub path_seconds: f64,
    /// Opens that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_opens_total: u64,
}

/// A file that one process wrote and another read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The file.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// What it is.
    pub object: Object,
    /// Who wrote.
    pub writer: u32,
    /// The kernel's name for it.
    pub writer_name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_name_base64: Option<String>,
    /// Who read.
    pub reader: u32,
    /// The kernel's name for it.
    pub reader_name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_name_base64: Option<String>,
    /// Bytes that the one wrote and the other read: of files, those at the same place; of pipes and
    /// sockets absent, for what was read may be another's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Whether `bytes` are the most that it can be, for it is not known at which places something was moved (mapped
    /// memory, io_uring).
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_upper_bound: bool,
}

/// What could be better.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The rule, as `docs/io.md` has it.
    pub rule: String,
    /// What it is about.
    pub file: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_base64: Option<String>,
    /// What was seen, and what to do.
    pub text: String,
    /// The time of the calls that it is about.
    pub seconds: f64,
    /// The figures that it follows from.
    pub figures: BTreeMap<String, Number>,
}

/// Files that have no row of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// How many files and processes, if that is known: those that the kernel had no room for are not
    /// told apart.
    pub uses_total: u64,
    /// Calls that the kernel had no room to keep by file.
    pub unkept_calls_total: u64,
    /// Their numbers.
    #[serde(flatten)]
    pub totals: Totals,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_absent_and_stays_so() {
        let unseen = Unseen { reads: true, writes: false };
        let known =
            Transferred { written_bytes: 7, write_calls: 1, unseen, ..Transferred::default() };
        let text = serde_json::to_string(&known).expect("JSON");
        assert_eq!(text, r#"{"written_bytes":7,"write_calls":1}"#);
        let again: Transferred = serde_json::from_str(&text).expect("reads");
        assert_eq!(again, known);
    }
}
