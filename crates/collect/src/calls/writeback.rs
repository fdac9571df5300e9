//! What a job has written to devices, and nothing else of its calls: the parts of the page cache and of block devices
//! alone, which split no time.
//!
//! Emits one account at the end. Where one of the two parts is not attached, none.

use std::os::fd::BorrowedFd;

use libbpf_rs::{MapCore as _, MapFlags};
use weigh_schema::call::{Grouping, Sharing, TimeHistogram, Written, WrittenFound};
use weigh_schema::subsystem::Subsystem;

use super::counting::Counters;
use super::functions::Functions;
use super::kernel_calls::KernelCalls;
use super::layout;
use super::request::{CallsRequest, Telling};
use super::selection::Chosen;
use crate::follow::{Attachment, MechanismError, PageWrites, RunningAttachment};
use crate::job::{JobError, bpf};
use crate::table::{READING, entries};

/// What tells whose pages reach a device.
const WRITES: [&str; 2] = ["pagecache", "block"];

impl Attachment for KernelCalls {
    fn arm(&mut self, _pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        Ok(KernelCalls::arm(self, pidfd)?)
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Ok(self)
    }
}

impl RunningAttachment for KernelCalls {
    fn join(&mut self, pid: u32) -> Result<(), MechanismError> {
        Ok(KernelCalls::join(self, pid)?)
    }
}

impl PageWrites for KernelCalls {
    fn found(&mut self) -> Result<WrittenFound, MechanismError> {
        self.detach();
        Ok(WrittenFound {
            written: self.written()?,
            lost: self.tally().lost,
            missing: self.attached().iter().flat_map(|part| part.missing.clone()).collect(),
        })
    }
}

impl KernelCalls {
    /// No calls, but what a job's threads have written to devices: see [`PageWrites`].
    pub fn open_for_writes() -> Result<KernelCalls, JobError> {
        let parts = WRITES.iter().filter_map(|name| Subsystem::named(name));
        let wanted = CallsRequest {
            subsystems: parts.collect(),
            grouping: Grouping::Call,
            sharing: Sharing::Bytes,
            every_call: false,
            counters: Counters::default(),
            by_part: false,
        };
        let mut chosen = Chosen::of(&wanted, Telling::PLAIN, &Functions::default());
        // No time is split.
        chosen.parts.retain(|part| WRITES.contains(&part.subsystem.as_str()));
        let functions = Functions::default();
        KernelCalls::load_chosen(chosen, &wanted, Telling::PLAIN, &functions)?
            .attach_all(&functions)
    }

    /// What was written to devices on behalf of the job; none if what tells it is not attached.
    pub fn written(&self) -> Result<Option<Written>, JobError> {
        let is_attached = |name: &&str| {
            let mut parts = self.attached.iter().filter(|part| part.subsystem == **name);
            parts.any(|part| part.probes > 0)
        };
        if !WRITES.iter().all(is_attached) {
            return Ok(None);
        }
        let maps = &self.skeleton.maps;
        let chunks = entries(&maps.chunks).map_err(bpf(READING))?;
        let cells = (0..layout::cells_taken(self.tally())).filter_map(|number| {
            let value = maps.cells.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??;
            layout::cell(&value, TimeHistogram::default())
        });
        Ok(Some(Written {
            done: cells.map(|cell| cell.account.written()).sum(),
            to_come: chunks.iter().map(|(_, chunk)| layout::to_come(chunk)).sum(),
        }))
    }
}
