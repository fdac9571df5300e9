//! What was read and written, in the shape that the page wants.

use serde::Serialize;
use weigh_schema::Quality;
use weigh_schema::io::{FileUse, Flow, IoFound, Object, Transfer, Trust};

use super::io_details::FileDetails;
use crate::io::{are_devices_unseen, device, flow, is_unavailable, mapped, pattern, rest, sums};

/// What was found of all files together.
#[derive(Clone, Debug, Serialize)]
pub struct IoPage {
    /// The sums, in a sentence.
    pub sums: String,
    /// What could be better.
    pub advice: Vec<AdviceRow>,
    /// Who wrote what others read, those of most bytes first.
    pub flows: Vec<FlowRow>,
    /// Whether mapped memory cannot be seen: its column would say of all files that nothing was done.
    pub is_mapped_unseen: bool,
    /// Whether calls that read cannot be seen.
    pub are_reads_unseen: bool,
    /// Whether calls that write cannot be seen.
    pub are_writes_unseen: bool,
    /// Whether what devices do cannot be seen.
    pub are_devices_unseen: bool,
    /// The slowest calls, in words, where each was wanted.
    pub slowest: Vec<String>,
    /// Files that have no row of their own, in words.
    pub rest: Option<String>,
    /// What is not in the numbers, or not exact in them, and why: as the terminal has it.
    pub notes: Vec<String>,
    /// The same of single numbers, by their keys.
    pub trust: Vec<TrustRow>,
}

/// How far a number can be trusted, of all files alike.
#[derive(Clone, Debug, Serialize)]
pub struct TrustRow {
    /// Its key, or the name of a kind of transfer.
    pub key: String,
    /// How far.
    pub quality: Quality,
    /// Why.
    pub reason: String,
}

/// A piece of advice.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceRow {
    /// The rule.
    pub rule: String,
    /// What it is about.
    pub file: String,
    /// What was seen, and what to do.
    pub text: String,
}

/// What one process wrote and another read.
#[derive(Clone, Debug, Serialize)]
pub struct FlowRow {
    /// Who wrote.
    pub writer: u32,
    /// The kernel's name for it.
    pub writer_name: String,
    /// Who read.
    pub reader: u32,
    /// The kernel's name for it.
    pub reader_name: String,
    /// The file, or what the kernel calls the pipe or socket.
    pub name: String,
    /// Whether it is a file, which others may have written or read, too.
    pub is_file: bool,
    /// How much, if that is known.
    pub bytes: Option<u64>,
    /// All of it in words.
    pub text: String,
}

/// What was done with files, by column: as many rows as the files have.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FilesUsed {
    /// Time in calls, in seconds.
    pub seconds: Vec<f64>,
    /// Bytes read by calls; none where they are not known.
    pub read: Vec<Option<u64>>,
    /// Calls that read.
    pub reads: Vec<Option<u64>>,
    /// Bytes written by calls.
    pub written: Vec<Option<u64>>,
    /// Calls that write.
    pub writes: Vec<Option<u64>>,
    /// Whether these are lower bounds.
    pub is_bound: Vec<bool>,
    /// Bytes moved by mapped memory.
    pub mapped: Vec<u64>,
    /// Bytes that devices read for it.
    pub from_device: Vec<u64>,
    /// Bytes of it that devices wrote.
    pub to_device: Vec<u64>,
    /// The thread; 0 where threads are not told apart.
    pub tid: Vec<u32>,
    /// The commonest way through the file, and its share.
    pub pattern: Vec<String>,
    /// What else is known of each.
    pub details: FileDetails,
}

/// What the page says of all files.
pub(super) fn io_page(found: &IoFound) -> IoPage {
    let advice = found.advice.iter().map(|advice| AdviceRow {
        rule: advice.rule.clone(),
        file: advice.file.clone(),
        text: advice.text.clone(),
    });
    IoPage {
        sums: sums(found),
        advice: advice.collect(),
        flows: found.flows.iter().map(flow_row).collect(),
        is_mapped_unseen: is_unavailable(found, Transfer::Mapped.name()),
        are_reads_unseen: found.totals.by_calls.unseen.reads,
        are_writes_unseen: found.totals.by_calls.unseen.writes,
        are_devices_unseen: are_devices_unseen(found),
        slowest: Vec::new(),
        rest: found.rest.as_ref().map(rest),
        notes: found.not_seen(),
        trust: found.qualities.iter().map(trust).collect(),
    }
}

fn trust((key, trust): (&String, &Trust)) -> TrustRow {
    TrustRow { key: key.clone(), quality: trust.quality, reason: trust.reason.clone() }
}

fn flow_row(found: &Flow) -> FlowRow {
    FlowRow {
        writer: found.writer,
        writer_name: found.writer_name.clone(),
        reader: found.reader,
        reader_name: found.reader_name.clone(),
        name: found.name.clone(),
        is_file: matches!(found.object, Object::Regular | Object::Disk),
        bytes: found.bytes,
        text: flow(found, None),
    }
}

impl FilesUsed {
    pub(super) fn push(&mut self, used: Option<&FileUse>) {
        let totals = used.map(|used| used.totals.clone()).unwrap_or_default();
        let [from_device, to_device] = device(&totals);
        self.from_device.push(from_device);
        self.to_device.push(to_device);
        self.tid.push(used.and_then(|used| used.tid).unwrap_or(0));
        let by = totals.by_calls;
        self.seconds.push((totals.seconds() * 1e6).round() / 1e6);
        let (reads, writes) = (!by.unseen.reads, !by.unseen.writes);
        self.read.push(reads.then_some(by.read_bytes));
        self.reads.push(reads.then_some(by.read_calls));
        self.written.push(writes.then_some(by.written_bytes));
        self.writes.push(writes.then_some(by.write_calls));
        self.is_bound.push(used.is_some_and(|used| used.moved_quality != Quality::Exact));
        self.mapped.push(mapped(&totals));
        self.pattern.push(pattern(&totals));
        self.details.push(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The page and the terminal give the same reasons.
    #[test]
    fn what_was_not_seen_is_on_the_page_with_its_reason() {
        let found = json!({
            "wall_seconds": 1.0, "mechanism": "preload", "quality": "estimated", "uses_total": 0, "advice": [],
            "totals": { "by_kind": {}, "numbers": {} }, "notes": ["a note"],
            "qualities": { "uring": { "quality": "unavailable", "reason": "requests of the ring" } },
        });
        let found: IoFound = serde_json::from_value(found).expect("what was found");
        let page = io_page(&found);
        for words in ["all together, are estimated", "uring unavailable: requests of", "a note"] {
            assert!(page.notes.iter().any(|note| note.contains(words)), "{:?}", page.notes);
        }
        let screen = crate::Screen { columns: 400, is_terminal: true, is_cut: true, color: false };
        let files = &crate::io::Selection::new(crate::io::Extent::All(0));
        let shown = crate::io::Shown { files, details: false, folder: None };
        let terminal = crate::io::render(&found, shown, screen);
        for note in &page.notes {
            assert!(terminal.contains(note.as_str()), "{note}: {terminal}");
        }
    }

    /// What is not known of a file is no zero on the page.
    #[test]
    fn what_is_not_known_of_a_file_is_none() {
        let used = json!({
            "name": "/a", "object": "regular", "pid": 7, "process": "cat", "device": 1, "inode": 2,
            "written_bytes": 5, "write_calls": 1, "by_kind": {}, "numbers": {},
            "moved_quality": "estimated", "again_quality": "estimated",
        });
        let used: FileUse = serde_json::from_value(used).expect("a row");
        let mut files = FilesUsed::default();
        files.push(Some(&used));
        assert_eq!((files.read, files.written), (vec![None], vec![Some(5)]));
        assert_eq!(files.is_bound, [true]);
    }
}
