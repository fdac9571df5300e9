//! What was read and written, in the shape that the page wants.

use serde::Serialize;
use weigh_schema::Quality;
use weigh_schema::io::{Flow, IoFound, Object, Transfer, Trust};

use crate::io::{are_devices_unseen, flow, is_unavailable, rest, sums};

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
}
