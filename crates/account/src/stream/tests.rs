use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn numbers<R: Clone>(batch: &StreamBatch<R>) -> Vec<u64> {
    batch.records.iter().map(|(sequence, _)| *sequence).collect()
}

/// A record per second for a minute; the reader that reads them all has position 1, the one that stopped 2.
fn after_an_outage(policy: StreamPolicy) -> (StreamBuffer<u64>, Vec<u64>) {
    let mut buffer = StreamBuffer::new(policy, 1000);
    buffer.write(1, 10, 0);
    assert_eq!(numbers(&buffer.read(2, 0, 1000, false)), [1]);
    let (mut next, mut had) = (0, Vec::new());
    for second in 1..=60 {
        buffer.write(second + 1, 10, second * SECOND);
        let batch = buffer.read(1, next, 1000, false);
        assert_eq!(batch.lost, 0, "{policy} {second}");
        had.extend(numbers(&batch));
        next = batch.next;
    }
    (buffer, had)
}

/// What each policy leaves to a reader that stopped for a minute, and how many it is told to have lost.
#[test]
fn a_reader_that_stops_for_a_minute_finds_what_the_policy_says() {
    let cases = [
        (StreamPolicy::ReplaceRead, vec![61], 59),
        (StreamPolicy::ReplaceDrain, vec![61], 59),
        (StreamPolicy::FillDrain, (2..=61).collect(), 0),
        (StreamPolicy::FillRead(100), (2..=61).collect(), 0),
        (StreamPolicy::FillRead(17), (45..=61).collect(), 43),
    ];
    for (policy, left, lost) in cases {
        let (mut buffer, had) = after_an_outage(policy);
        // The one that kept up has had every record, at the first read what was there.
        let first = if policy.capacity() == 1 { 2 } else { had[0] };
        assert_eq!(had, (first..=61).collect::<Vec<_>>(), "{policy}");
        assert_eq!(buffer.lost(), lost, "{policy}: counted before it comes back");
        let batch = buffer.read(2, 2, 10_000, false);
        assert_eq!((numbers(&batch), batch.lost, batch.next), (left.clone(), lost, 62), "{policy}");
        assert_eq!(buffer.lost(), lost, "{policy}: and not twice");
        // Both have had all.
        let stays = if policy.drains() { 0 } else { left.len() };
        let kept = if policy == StreamPolicy::FillRead(100) { 61 } else { stays };
        assert_eq!(buffer.len(), kept, "{policy}");
        let batch = buffer.read(2, batch.next, 10_000, false);
        assert_eq!((batch.records.len(), batch.lost), (0, 0), "{policy}");
    }
}

/// Four readers, one slow: it loses its own alone.
#[test]
fn a_slow_reader_loses_only_its_own() {
    for policy in [StreamPolicy::ReplaceRead, StreamPolicy::FillDrain, StreamPolicy::FillRead(5)] {
        let mut buffer = StreamBuffer::new(policy, 80);
        let mut next = [1; 4];
        let mut had = [0; 4];
        let mut lost = [0; 4];
        (0..4).for_each(|reader| drop(buffer.read(reader, 1, 0, false)));
        for tick in 1..=1000u64 {
            buffer.write(tick, 10, tick * SECOND);
            for reader in (0..4).filter(|reader| *reader != 3 || tick % 20 == 0) {
                let batch = buffer.read(reader as u64, next[reader], 1 << 20, false);
                next[reader] = batch.next;
                had[reader] += batch.records.len() as u64;
                lost[reader] += batch.lost;
            }
        }
        assert_eq!(had[..3], [1000; 3], "{policy}");
        assert_eq!(lost[..3], [0; 3], "{policy}");
        // Room for 1, 8 (of bytes) and 5 records, of 20 each time.
        let room = match policy {
            StreamPolicy::ReplaceRead => 1,
            StreamPolicy::FillDrain => 8,
            _ => 5,
        };
        assert_eq!((had[3], lost[3]), (50 * room, 50 * (20 - room)), "{policy}");
        assert_eq!(buffer.lost(), lost[3]);
    }
}

#[test]
fn a_drained_record_is_gone_for_who_comes_later_and_a_read_one_is_not() {
    for (policy, left) in [
        (StreamPolicy::FillDrain, vec![]),
        (StreamPolicy::ReplaceDrain, vec![]),
        (StreamPolicy::ReplaceRead, vec![3]),
        (StreamPolicy::FillRead(2), vec![2, 3]),
    ] {
        let mut buffer = StreamBuffer::new(policy, 1000);
        (1..=3).for_each(|record| drop(buffer.write(record, 1, record)));
        buffer.read(1, 0, 1000, false);
        assert_eq!(numbers(&buffer.read(2, 0, 1000, false)), left, "{policy}");
        // One that asks from the first on is told of all others.
        assert_eq!(buffer.read(3, 1, 1000, false).lost, 3 - left.len() as u64, "{policy}");
    }
}

#[test]
fn a_policy_changes_while_the_stream_runs() {
    let mut buffer = StreamBuffer::new(StreamPolicy::FillRead(10), 1000);
    (1..=20).for_each(|record| drop(buffer.write(record, 1, record)));
    buffer.set_policy(StreamPolicy::FillRead(3));
    assert_eq!(numbers(&buffer.read(1, 0, 1000, false)), [18, 19, 20]);
    buffer.set_policy(StreamPolicy::FillDrain);
    assert_eq!(buffer.len(), 0, "the one reader has had them");
    buffer.write(21, 1, 21);
    buffer.write(22, 1, 22);
    buffer.set_policy(StreamPolicy::ReplaceRead);
    let batch = buffer.read(1, 21, 1000, false);
    assert_eq!((numbers(&batch), batch.lost), (vec![22], 1));
}

#[test]
fn a_buffer_goes_on_where_an_earlier_run_ended() {
    let mut buffer = StreamBuffer::new(StreamPolicy::FillRead(3), 1000);
    buffer.resume(18, 7);
    for sequence in [13, 14, 14, 15, 16, 17, 18, 0] {
        buffer.restore(sequence, sequence, 1);
    }
    assert_eq!(buffer.write(0, 1, 0), 18);
    let batch = buffer.read(1, 13, 1000, false);
    assert_eq!((numbers(&batch), batch.lost, batch.next), (vec![16, 17, 18], 3, 19));
    assert_eq!(buffer.lost(), 10);
}

#[test]
fn the_rate_says_how_long_an_outage_can_be() {
    let mut buffer = StreamBuffer::new(StreamPolicy::FillRead(60), 1000);
    assert_eq!((buffer.bytes_per_second(0), buffer.outage_seconds(0)), (None, None));
    (0..10).for_each(|tick| drop(buffer.write(tick, 50, tick * SECOND)));
    let now = 9 * SECOND;
    assert_eq!(buffer.bytes_per_second(now), Some(50.0));
    // Twenty by their bytes, not sixty.
    assert_eq!(buffer.outage_seconds(now), Some(20.0));
    buffer.set_policy(StreamPolicy::FillRead(7));
    assert_eq!(buffer.outage_seconds(now), Some(7.0));
    buffer.set_policy(StreamPolicy::ReplaceRead);
    assert_eq!(buffer.outage_seconds(now), Some(1.0));
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Skip,
    Read { reader: u64, resumes: bool, at_most: usize, newest: bool },
    Forget(u64),
    Policy(StreamPolicy),
}

fn policy() -> impl Strategy<Value = StreamPolicy> {
    prop_oneof![
        Just(StreamPolicy::ReplaceRead),
        Just(StreamPolicy::FillDrain),
        Just(StreamPolicy::ReplaceDrain),
        (1u32..20).prop_map(StreamPolicy::FillRead),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let read = (0u64..4, any::<bool>(), 0usize..80, any::<bool>());
    prop_oneof![
        8 => (0usize..120).prop_map(Step::Write),
        1 => Just(Step::Skip),
        6 => read.prop_map(|(reader, resumes, at_most, newest)| {
            Step::Read { reader, resumes, at_most, newest }
        }),
        1 => (0u64..4).prop_map(Step::Forget),
        1 => policy().prop_map(Step::Policy),
    ]
}

const ROOM: usize = 100;

/// The rules, each in the simplest words: sets of numbers, and no arithmetic on positions.
struct Model {
    policy: StreamPolicy,
    there: BTreeSet<u64>,
    sizes: Vec<usize>,
    readers: BTreeMap<u64, u64>,
}

impl Model {
    fn hold(&mut self) {
        let size = |there: &BTreeSet<u64>, sizes: &[usize]| -> usize {
            there.iter().map(|number| sizes[*number as usize - 1]).sum()
        };
        while self.there.len() > self.policy.capacity() || size(&self.there, &self.sizes) > ROOM {
            self.there.pop_first();
        }
    }

    fn drain(&mut self) {
        if self.policy.drains() && !self.readers.is_empty() {
            let readers = &self.readers;
            self.there.retain(|number| readers.values().any(|next| next <= number));
        }
    }
}

proptest! {
    #[test]
    fn it_does_what_the_rules_say(first in policy(), steps in prop::collection::vec(step(), 0..150)) {
        let mut buffer = StreamBuffer::new(first, ROOM);
        let mut model = Model {
            policy: first,
            there: BTreeSet::new(),
            sizes: Vec::new(),
            readers: BTreeMap::new(),
        };
        // Had and lost by each reader since it came.
        let mut counted: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Write(bytes) => {
                    let sequence = buffer.write(at, bytes, at as u64);
                    model.sizes.push(bytes);
                    prop_assert_eq!(sequence, model.sizes.len() as u64);
                    if model.policy.capacity() == 1 {
                        model.there.clear();
                    }
                    if bytes <= ROOM {
                        model.there.insert(sequence);
                        model.hold();
                    }
                }
                Step::Skip => {
                    buffer.skip();
                    model.sizes.push(0);
                }
                Step::Read { reader, resumes, at_most, newest } => {
                    let next = model.readers.get(&reader).copied().filter(|_| resumes);
                    let batch = buffer.read(reader, next.unwrap_or(0), at_most, newest);
                    let end = model.sizes.len() as u64 + 1;
                    let begin = next.or(model.there.first().copied()).unwrap_or(end);
                    let there: Vec<u64> = model.there.range(begin..).copied().collect();
                    let had = numbers(&batch);
                    if newest {
                        prop_assert_eq!(&had, &there.last().copied().into_iter().collect::<Vec<_>>());
                        prop_assert_eq!(batch.next, end);
                        prop_assert_eq!(batch.lost, end - begin - there.len() as u64);
                    } else {
                        prop_assert_eq!(&had[..], &there[..had.len()]);
                        prop_assert_eq!(had.is_empty(), there.is_empty());
                        prop_assert_eq!(batch.next, there.get(had.len()).copied().unwrap_or(end));
                        prop_assert_eq!(batch.lost + had.len() as u64, batch.next - begin);
                        let bytes = |had: &[u64]| -> usize {
                            had.iter().map(|number| model.sizes[*number as usize - 1].max(1)).sum()
                        };
                        prop_assert!(had.len() <= 1 || bytes(&had) <= at_most);
                        let entry = counted.entry(reader).or_insert((begin, 0, 0));
                        if next.is_none() {
                            *entry = (begin, 0, 0);
                        }
                        entry.1 += had.len() as u64;
                        entry.2 += batch.lost;
                        // Each number is had or lost.
                        prop_assert_eq!(entry.0 + entry.1 + entry.2, batch.next);
                    }
                    if newest {
                        counted.insert(reader, (batch.next, 0, 0));
                    }
                    model.readers.insert(reader, batch.next);
                    model.drain();
                }
                Step::Forget(reader) => {
                    buffer.forget_reader(reader);
                    counted.remove(&reader);
                    if model.readers.remove(&reader).is_some() {
                        model.drain();
                    }
                }
                Step::Policy(policy) => {
                    buffer.set_policy(policy);
                    model.policy = policy;
                    model.hold();
                    model.drain();
                }
            }
            let there: Vec<u64> = buffer.records().map(|(sequence, _)| sequence).collect();
            prop_assert_eq!(&there, &model.there.iter().copied().collect::<Vec<_>>());
            prop_assert!(buffer.bytes() <= ROOM);
            prop_assert_eq!(buffer.next_sequence(), model.sizes.len() as u64 + 1);
        }
    }
}
