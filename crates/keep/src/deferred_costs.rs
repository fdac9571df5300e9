//! What came later of calls, while a file of calls is written: bit by bit, added up by call.
//!
//! Takes bits in any order, any number of calls of them, and gives back each call's sum; keeps so many calls
//! in memory, and the others in a file beside the table. That file has segments: the calls of a range of
//! [`RANGE`] numbers, as far as they were known when memory was full. Each says where the last one of its
//! range stands, so that memory has one number for a range, and a bit that comes hours after its call
//! finds its way: the segments of a range are added up when they are read. Refuses what cannot be written,
//! or is not what was.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use weigh_schema::subsystem::LaterNumbers;

use crate::atomic::AtomicFile;
use crate::error::KeepError;

/// So many calls are kept in memory, some 170 bytes each.
const HELD_MOST: usize = 32 * 1024;
/// So many calls, by their numbers, are read at once. A call's place in it has two bytes.
const RANGE: u64 = 16 * 1024;
/// No segment of its range stands before it.
const FIRST: u64 = u64::MAX;
/// Where the one before it stands, and how many bytes of calls follow.
const HEAD: usize = 16;
/// Of a call: its place in its range, and which of its numbers follow.
const CALL_HEAD: usize = 6;

/// One bit for each number.
const _: () = assert!(size_of::<LaterNumbers>() / size_of::<u64>() <= u32::BITS as usize);

type Numbers = HashMap<u64, LaterNumbers>;

/// What came later of calls.
pub(crate) struct LaterByCall {
    held: Numbers,
    spill: Option<Spill>,
}

/// The file of the calls that there was no room for.
struct Spill {
    file: AtomicFile,
    source: File,
    end: u64,
    last: HashMap<u64, u64>,
}

impl LaterByCall {
    pub(crate) fn new() -> LaterByCall {
        LaterByCall { held: HashMap::new(), spill: None }
    }

    /// Adds a bit of a call's; `path` is the table's.
    pub(crate) fn add(
        &mut self,
        path: &Path,
        sequence: u64,
        growth: &LaterNumbers,
    ) -> Result<(), KeepError> {
        add_up(self.held.entry(sequence).or_default(), growth);
        match self.held.len() < HELD_MOST {
            true => Ok(()),
            false => self.spill(path),
        }
    }

    fn spill(&mut self, path: &Path) -> Result<(), KeepError> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::create(path)?),
        };
        let mut calls: Vec<(u64, LaterNumbers)> = self.held.drain().collect();
        calls.sort_unstable_by_key(|(sequence, _)| *sequence);
        for calls in calls.chunk_by(|(one, _), (next, _)| one / RANGE == next / RANGE) {
            spill.write(calls)?;
        }
        Ok(())
    }

    /// What came later of these calls, in their order; none of one of which no bit came.
    pub(crate) fn of(&self, sequences: &[u64]) -> Result<Vec<Option<LaterNumbers>>, KeepError> {
        let mut found = vec![None; sequences.len()];
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.sort_unstable_by_key(|place| sequences[*place]);
        for places in order.chunk_by(|a, b| sequences[*a] / RANGE == sequences[*b] / RANGE) {
            let range = sequences[places[0]] / RANGE;
            let spilled = self.spill.as_ref().map(|spill| spill.read(range)).transpose()?;
            for &place in places {
                let sequence = sequences[place];
                found[place] = spilled.as_ref().and_then(|spilled| spilled.get(&sequence).copied());
                if let Some(held) = self.held.get(&sequence) {
                    add_up(found[place].get_or_insert_default(), held);
                }
            }
        }
        Ok(found)
    }
}

impl Spill {
    fn create(path: &Path) -> Result<Spill, KeepError> {
        let file = AtomicFile::create_at(path)?;
        let source = file.reopen()?;
        Ok(Spill { file, source, end: 0, last: HashMap::new() })
    }

    /// Writes calls of one range.
    fn write(&mut self, calls: &[(u64, LaterNumbers)]) -> Result<(), KeepError> {
        let range = calls[0].0 / RANGE;
        let mut segment = vec![0; HEAD];
        for (sequence, numbers) in calls {
            // Below RANGE, which has room in it.
            segment.extend(((sequence % RANGE) as u16).to_le_bytes());
            let given = (0..numbers.len()).filter(|place| numbers[*place] != 0);
            segment.extend(given.fold(0u32, |given, place| given | 1 << place).to_le_bytes());
            let numbers = numbers.iter().filter(|number| **number != 0);
            segment.extend(numbers.flat_map(|number| number.to_le_bytes()));
        }
        let before = self.last.insert(range, self.end).unwrap_or(FIRST);
        let length = (segment.len() - HEAD) as u64;
        segment[..8].copy_from_slice(&before.to_le_bytes());
        segment[8..HEAD].copy_from_slice(&length.to_le_bytes());
        let written = self.file.write_all(&segment);
        written.map_err(|e| KeepError::write(self.file.path(), e))?;
        self.end += segment.len() as u64;
        Ok(())
    }

    /// The calls of a range.
    fn read(&self, range: u64) -> Result<Numbers, KeepError> {
        let mut numbers = Numbers::new();
        let mut at = self.last.get(&range).copied().unwrap_or(FIRST);
        while at != FIRST {
            let mut head = [0; HEAD];
            self.fill(&mut head, at)?;
            let [before, length] = [&head[..8], &head[8..]].map(number);
            if length > self.end || before != FIRST && before >= at {
                return Err(KeepError::damaged(self.file.path(), "it is not what was written"));
            }
            let mut calls = vec![0; length as usize];
            self.fill(&mut calls, at + HEAD as u64)?;
            take_in(&calls, range, &mut numbers)
                .ok_or_else(|| KeepError::damaged(self.file.path(), "a segment ends too early"))?;
            at = before;
        }
        Ok(numbers)
    }

    fn fill(&self, bytes: &mut [u8], at: u64) -> Result<(), KeepError> {
        let read = self.source.read_exact_at(bytes, at);
        read.map_err(|e| KeepError::read(self.file.path(), e))
    }
}

/// Adds the calls of a segment; none if it is cut.
fn take_in(mut calls: &[u8], range: u64, numbers: &mut Numbers) -> Option<()> {
    while !calls.is_empty() {
        let (head, rest) = calls.split_at_checked(CALL_HEAD)?;
        let place = u16::from_le_bytes(head[..2].try_into().ok()?);
        let given = u32::from_le_bytes(head[2..].try_into().ok()?);
        let (given_numbers, rest) = rest.split_at_checked(given.count_ones() as usize * 8)?;
        let mut growth = LaterNumbers::default();
        let places = (0..growth.len()).filter(|place| given & 1 << place != 0);
        for (place, bytes) in places.zip(given_numbers.chunks_exact(8)) {
            growth[place] = number(bytes);
        }
        add_up(numbers.entry(range * RANGE + u64::from(place)).or_default(), &growth);
        calls = rest;
    }
    Some(())
}

/// Of eight bytes, as they are written.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What is pending may also become less.
fn add_up(numbers: &mut LaterNumbers, growth: &LaterNumbers) {
    for (number, more) in numbers.iter_mut().zip(growth) {
        *number = number.wrapping_add(*more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(change: i64, second: u64) -> LaterNumbers {
        let mut growth = LaterNumbers::default();
        (growth[0], growth[1]) = (change.cast_unsigned(), second);
        growth
    }

    #[test]
    fn bits_of_a_call_are_added_up_wherever_they_were_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.parquet");
        let mut later = LaterByCall::new();
        let calls = HELD_MOST as u64 * 3 + 7;
        // At once, and again when the first ones are in the file; the very last is of the first call.
        for sequence in 0..calls {
            later.add(&path, sequence, &pending(1, sequence)).unwrap();
        }
        for sequence in (0..calls).filter(|sequence| sequence % 3 == 0) {
            later.add(&path, sequence, &pending(-1, 5)).unwrap();
        }
        later.add(&path, 0, &pending(9, 0)).unwrap();
        assert!(later.held.len() < HELD_MOST && later.spill.is_some());
        let asked: Vec<u64> = (0..calls + 2).rev().collect();
        for (sequence, found) in asked.iter().zip(later.of(&asked).unwrap()) {
            let expected = match sequence {
                0 => Some(pending(9, 5)),
                _ if *sequence >= calls => None,
                _ if sequence % 3 == 0 => Some(pending(0, sequence + 5)),
                _ => Some(pending(1, *sequence)),
            };
            assert_eq!(found, expected, "{sequence}");
        }
        drop(later);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its file is gone");
    }

    #[test]
    fn a_segment_that_is_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.parquet");
        let mut later = LaterByCall::new();
        later.add(&path, 3, &pending(1, 2)).unwrap();
        later.spill(&path).unwrap();
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert!(matches!(later.of(&[3]), Err(KeepError::Read { .. })));
        let mut numbers = Numbers::new();
        assert!(take_in(&whole[HEAD..whole.len() - 1], 0, &mut numbers).is_none());
        assert!(take_in(&whole[HEAD..], 0, &mut numbers).is_some());
        assert_eq!(numbers[&3], pending(1, 2));
    }
}
