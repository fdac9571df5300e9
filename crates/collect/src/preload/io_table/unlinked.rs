//! Files that have lost their last name by a call of the job.
//!
//! Reads what the library tells of them; emits those that the job has used. One for which there was no room is not told.

use std::sync::atomic::Ordering;

use weigh_schema::io::{Event, FileId};

use super::UsageTable;
use crate::preload::uses_layout::{UNLINKED, UNLINKED_AT, UNLINKED_FILE};

/// Looks after which one that is not told of whole is given up: its teller was killed.
const PATIENCE: u32 = 40;

impl UsageTable {
    /// Takes in what was told since the last look.
    pub(super) fn take_unlinked(&mut self) {
        let told = self.head("unlinked").load(Ordering::Acquire);
        let mut at = self.number("unlinked_read");
        // A program may write anything there.
        at = at.max(told.saturating_sub(UNLINKED as u64));
        while at < told {
            match self.unlinked(at) {
                Some(file) if self.named.contains_key(&file) => {
                    self.arrived.push(Event::Unlinked(file));
                }
                Some(_) => {}
                None if self.waited < PATIENCE => {
                    self.waited += 1;
                    break;
                }
                None => {}
            }
            self.waited = 0;
            at += 1;
        }
        self.head("unlinked_read").store(at, Ordering::Release);
    }

    fn unlinked(&self, number: u64) -> Option<FileId> {
        let words = UNLINKED_FILE.len();
        let from = UNLINKED_AT / 8 + words * (number as usize % UNLINKED);
        let at = |field: &str| UNLINKED_FILE.iter().position(|name| *name == field).unwrap_or(0);
        let told = &self.words()[from..from + words];
        let is_whole = told[at("complete")].load(Ordering::Acquire) == number + 1;
        let word = |field| told[at(field)].load(Ordering::Relaxed);
        is_whole.then(|| FileId {
            device: word("device") as u32,
            generation: word("born") as u32,
            inode: word("inode"),
        })
    }
}
