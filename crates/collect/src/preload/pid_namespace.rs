//! Processes that do not know which PID they have for weigh: they are in a PID namespace, and the
//! `/proc` that they see is its own.
//!
//! Their slots have a number instead that is made of the namespace and the PID there. Reads both of
//! processes that have no slot, emits who is who. Refuses to guess as long as the kernel can be
//! asked; a process that is gone before that is identified by when it began.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::Ordering;

use weigh_schema::event::ProcessEnd;

use super::layout::{
    HIDDEN, HIDDEN_NAMESPACES, HIDDEN_PIDS, Life, STATE_ENDED, STATE_REAPED, Shared, Slot,
};
use super::process;
use crate::procfs;

/// Names are forgotten beyond so many.
const REMEMBERED: usize = 65_536;

/// So much later than the kernel does a slot may say that its process began: it has to run for that.
const LATE_NS: u64 = 1_000_000_000;

/// A slot whose process is not known.
struct UnknownSlot {
    number: u32,
    started_ns: u64,
    has_ended: bool,
}

impl UnknownSlot {
    fn of(slot: &Slot, number: u32) -> UnknownSlot {
        let state = Life::of(slot.life.load(Ordering::Acquire)).state;
        UnknownSlot {
            number,
            started_ns: slot.started_ns.load(Ordering::Relaxed),
            has_ended: matches!(state, STATE_ENDED | STATE_REAPED),
        }
    }
}

/// Who is who.
#[derive(Clone, Default)]
pub struct NamespacePids {
    /// By number: the PID, and when the slot says that it began.
    found: HashMap<u32, (u32, u64)>,
}

impl NamespacePids {
    /// Finds who the slots with such numbers are, among the rows of a look that are not known by
    /// another look. `made_ns` says when a row's process was made at the earliest.
    pub fn look<'a>(
        &mut self,
        shared: &Shared,
        rows: impl Iterator<Item = &'a ProcessEnd>,
        made_ns: impl Fn(&ProcessEnd) -> u64,
    ) {
        let numbers = shared.pids[..process::used(shared)].iter().enumerate();
        let slots = numbers.map(|(index, pid)| (index, pid.load(Ordering::Relaxed) as u32));
        let (hidden, open): (Vec<_>, Vec<_>) =
            slots.filter(|(_, pid)| *pid != 0).partition(|(_, number)| number & HIDDEN != 0);
        if hidden.is_empty() {
            return;
        }
        let mut wanted: Vec<UnknownSlot> = hidden
            .iter()
            .map(|(index, number)| UnknownSlot::of(&shared.slots[*index], *number))
            .collect();
        let mut taken: HashSet<u32> = open.iter().map(|(_, pid)| *pid).collect();
        wanted.retain(|slot| match self.found.get(&slot.number) {
            Some((pid, at_ns)) if *at_ns == slot.started_ns => {
                taken.insert(*pid);
                false
            }
            _ => true,
        });
        if self.found.len() > REMEMBERED {
            self.found.clear();
        }
        let mut gone = Vec::new();
        for row in rows.filter(|row| !taken.contains(&row.pid)) {
            let Some(inside) = Inside::of(row.pid) else {
                gone.push(row);
                continue;
            };
            if let Some(at) = wanted.iter().position(|slot| inside.is(slot.number)) {
                self.is_found(row, wanted.swap_remove(at));
            }
        }
        // Nobody can be asked any more: the first that began since and has ended, too.
        wanted.retain(|slot| slot.has_ended);
        wanted.sort_by_key(|slot| slot.started_ns);
        for row in gone {
            let since = made_ns(row)..made_ns(row) + LATE_NS;
            if let Some(at) = wanted.iter().position(|slot| since.contains(&slot.started_ns)) {
                self.is_found(row, wanted.remove(at));
            }
        }
    }

    fn is_found(&mut self, row: &ProcessEnd, slot: UnknownSlot) {
        self.found.insert(slot.number, (row.pid, slot.started_ns));
    }

    /// The PID for weigh; the number itself where that is not known, or is none of these.
    pub fn pid(&self, number: u32) -> u32 {
        self.found.get(&number).map_or(number, |(pid, _)| *pid)
    }

    /// The same of the slot of a process that began then.
    pub fn pid_since(&self, number: u32, started_ns: u64) -> u32 {
        let found = self.found.get(&number).filter(|(_, from_ns)| *from_ns == started_ns);
        found.map_or(number, |(pid, _)| *pid)
    }
}

/// Whether it is known of a process by its number only.
pub fn is_hidden(pid: u32) -> bool {
    pid & HIDDEN != 0
}

/// For people: of a process that is known by its number only, the PID that it sees itself.
pub fn shown(pid: u32) -> u32 {
    if is_hidden(pid) { pid % HIDDEN_PIDS } else { pid }
}

/// A process as its own namespace has it.
struct Inside {
    pid: u32,
    /// Not of one that has ended and was not waited for.
    namespace: Option<u32>,
}

impl Inside {
    fn of(pid: u32) -> Option<Inside> {
        let namespace = std::fs::metadata(format!("/proc/{pid}/ns/pid")).ok();
        let status = procfs::read_of(pid, "status").ok()?;
        Some(Inside {
            pid: innermost(&status)?,
            namespace: namespace.map(|about| (about.ino() % u64::from(HIDDEN_NAMESPACES)) as u32),
        })
    }

    fn is(&self, number: u32) -> bool {
        let namespace = (number & !HIDDEN) / HIDDEN_PIDS;
        // 0 is said by who could not see it.
        self.pid == number % HIDDEN_PIDS
            && (namespace == 0 || self.namespace.is_none_or(|own| own == namespace))
    }
}

/// The last PID of a status's `NSpid`.
fn innermost(status: &[u8]) -> Option<u32> {
    let line = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pid_is_that_of_the_own_namespace() {
        assert_eq!(innermost(b"Name:\tx\nNSpid:\t4711\t17\t2\nNSpgid:\t1\n"), Some(2));
        assert_eq!(innermost(b"NSpid:\t4711\n"), Some(4711));
        assert_eq!(innermost(b"Name:\tx\n"), None);
    }

    #[test]
    fn a_number_is_a_namespace_and_a_pid() {
        let number = HIDDEN | (3 * HIDDEN_PIDS) | 17;
        assert!(Inside { pid: 17, namespace: Some(3) }.is(number));
        assert!(Inside { pid: 17, namespace: None }.is(number));
        assert!(!Inside { pid: 17, namespace: Some(4) }.is(number));
        assert!(!Inside { pid: 16, namespace: Some(3) }.is(number));
        assert!(Inside { pid: 17, namespace: Some(4) }.is(HIDDEN | 17));
        assert_eq!((shown(number), shown(17)), (17, 17));
    }
}
