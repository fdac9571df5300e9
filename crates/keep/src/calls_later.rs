//! The last columns of the file of `weigh calls --per-call`: what came later of calls.
//!
//! Takes what came, and when some of it was lost; emits the numbers of each call, or none where they are not
//! known: a call of which no bit came has caused nothing, unless one of its bits may be among the lost ones.

use weigh_schema::call_row::{CallRow, LATER_COLUMNS, pending};
use weigh_schema::subsystem::LaterNumbers;

use crate::calls_note::{CallsNote, notes};
use crate::deferred_costs::LaterByCall;
use crate::error::KeepError;
use crate::late_columns::Completion;

/// So many times of losses are told apart; what lies between later ones counts as one of them.
const LOSSES_MOST: usize = 4096;

/// Times in which bits were lost: from and to, in their order.
#[derive(Default)]
pub(crate) struct Losses(Vec<(i64, i64)>);

impl Losses {
    /// Not before the one that was added last.
    pub(crate) fn add(&mut self, from_ns: i64, to_ns: i64) {
        let is_full = self.0.len() >= LOSSES_MOST;
        match self.0.last_mut() {
            Some(last) if is_full || last.1 >= from_ns => last.1 = last.1.max(to_ns),
            _ => self.0.push((from_ns, to_ns)),
        }
    }

    fn touch(&self, began_ns: i64, ended_ns: i64) -> bool {
        let next = self.0.partition_point(|(_, to)| *to < began_ns);
        self.0.get(next).is_some_and(|(from, _)| *from <= ended_ns)
    }
}

/// What is known when the calls are.
pub(crate) struct LaterOfCalls<'a> {
    pub(crate) later: &'a LaterByCall,
    pub(crate) losses: &'a Losses,
    /// The parts of the kernel that were looked into.
    pub(crate) measured: u64,
    pub(crate) note: &'a CallsNote,
    /// Calls of which what came later is not known.
    pub(crate) unknown: u64,
}

/// A call, and when it began and ended.
pub(crate) struct Key {
    sequence: u64,
    began_ns: i64,
    ended_ns: i64,
}

/// The numbers of a call, if they are known, and the parts of the kernel that were looked into.
pub(crate) struct LateEntry(Option<LaterNumbers>, u64);

impl LaterOfCalls<'_> {
    /// A bit that comes is of something that was pending, and what is begun while a call lasts is told then:
    /// so of a call without any bit nothing was lost unless it was while the call lasted. (But for datagrams that
    /// found no room: those of an earlier call that may be missing are among the bits that are counted.)
    fn known(&self, call: &Key, told: Option<LaterNumbers>) -> Option<LaterNumbers> {
        let Some(numbers) = told else {
            let is_known = !self.losses.touch(call.began_ns, call.ended_ns);
            return is_known.then(LaterNumbers::default);
        };
        // More has ended than was begun: the beginning was lost, or more.
        let mut row = CallRow::default();
        LateEntry(Some(numbers), 0).put(&mut row);
        (pending(&row).unwrap_or(0).cast_signed() >= 0).then_some(numbers)
    }
}

impl LateEntry {
    fn put(&self, row: &mut CallRow) {
        let Some(numbers) = &self.0 else { return };
        let seen = LATER_COLUMNS.iter().filter(|column| column.is_seen(self.1));
        seen.for_each(|column| column.set_raw(row, column.of(numbers)));
    }
}

impl Completion<CallRow> for LaterOfCalls<'_> {
    type Key = Key;
    type Entry = LateEntry;
    const KEYS: &'static [&'static str] = &["time", "sequence", "time_seconds"];

    fn columns() -> usize {
        LATER_COLUMNS.len()
    }

    fn key(row: &CallRow) -> Key {
        let ended_ns = row.time_ns.saturating_add_unsigned(row.account.time_ns());
        Key { sequence: row.sequence, began_ns: row.time_ns, ended_ns }
    }

    fn find(&mut self, calls: &[Key]) -> Result<Vec<LateEntry>, KeepError> {
        let sequences: Vec<u64> = calls.iter().map(|call| call.sequence).collect();
        let told = self.later.of(&sequences)?;
        let known = calls.iter().zip(told).map(|(call, told)| self.known(call, told));
        let found: Vec<LateEntry> =
            known.map(|numbers| LateEntry(numbers, self.measured)).collect();
        self.unknown += found.iter().filter(|found| found.0.is_none()).count() as u64;
        Ok(found)
    }

    fn put(row: &mut CallRow, found: &LateEntry) {
        found.put(row);
    }

    fn notes(&self) -> Vec<(String, String)> {
        notes(&CallsNote { unknown_later: self.unknown, ..self.note.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_touch_are_one_and_of_too_many_the_last_goes_on() {
        let mut losses = Losses::default();
        losses.add(100, 200);
        losses.add(200, 300);
        losses.add(400, 500);
        assert_eq!(losses.0, [(100, 300), (400, 500)]);
        let touched =
            [(0, 99), (0, 100), (250, 260), (300, 900), (301, 399), (350, 400), (501, 900)];
        let touched = touched.map(|(began, ended)| losses.touch(began, ended));
        assert_eq!(touched, [false, true, true, true, false, true, false]);
        (1..5_000).for_each(|time| losses.add(time * 1000, time * 1000 + 1));
        assert_eq!((losses.0.len(), losses.0.last().unwrap().1), (LOSSES_MOST, 4_999_001));
        assert!(losses.touch(4_998_500, 4_998_501), "between two that are one now");
    }
}
