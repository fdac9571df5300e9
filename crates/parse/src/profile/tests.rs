use proptest::prelude::*;
use weigh_schema::profile::{
    FRAMES, MAGIC, NodeKind, SECTIONS, VERSIONS, costs, event, frame, head, layout, metadata, name,
    node, phase, thread, version,
};

use weigh_schema::region::snapshot::{CostsLink, OpenFrame};

use super::*;

/// Records of each section of such a profile.
const RECORDS: [usize; SECTIONS.len()] = [8, 64, 16, 2, 4, 4, 4, 3, 2];

/// Writes a profile as a program does.
struct Writer(Vec<u64>);

impl Writer {
    fn new() -> Writer {
        let length =
            RECORDS.iter().zip(&SECTIONS).map(|(records, section)| records * section.words);
        let mut words = vec![0; head::LENGTH + length.sum::<usize>()];
        let mut first = head::LENGTH;
        for (number, (records, section)) in RECORDS.iter().zip(&SECTIONS).enumerate() {
            words[head::SECTIONS + 2 * number] = first as u64;
            words[head::SECTIONS + 2 * number + 1] = *records as u64;
            first += records * section.words;
        }
        (words[head::MAGIC], words[head::LAYOUT]) = (MAGIC, layout());
        words[head::BYTES] = 8 * words.len() as u64;
        (words[head::PID], words[head::CLOCK], words[head::EPOCH]) = (77, 1, 1);
        words[head::USED] = 2;
        Writer(words)
    }

    fn record(&mut self, section: usize, number: usize) -> &mut [u64] {
        let first = self.0[head::SECTIONS + 2 * section] as usize;
        &mut self.0[first + number * SECTIONS[section].words..]
    }

    fn text(&mut self, text: &[u8]) -> (u64, u64) {
        let at = self.0[head::USED + section::TEXTS];
        for (number, chunk) in text.chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.record(section::TEXTS, at as usize + number)[0] = u64::from_ne_bytes(bytes);
        }
        self.0[head::USED + section::TEXTS] += text.len().div_ceil(8) as u64;
        (at, text.len() as u64)
    }

    fn name(&mut self, text: &[u8]) -> u64 {
        let (at, bytes) = self.text(text);
        let number = self.0[head::USED + section::NAMES];
        let record = self.record(section::NAMES, number as usize);
        (record[name::TEXT], record[name::BYTES]) = (at, bytes);
        self.0[head::USED + section::NAMES] += 1;
        number
    }

    fn node(&mut self, parent: u64, name: u64, kind: NodeKind) -> u64 {
        let number = self.0[head::USED + section::NODES];
        let record = self.record(section::NODES, number as usize);
        (record[node::PARENT], record[node::NAME], record[node::KIND]) =
            (parent, name, kind as u64);
        self.0[head::USED + section::NODES] += 1;
        number
    }

    /// The numbers of one version of a node: its epoch, and its calls.
    fn version(&mut self, number: u64, of: usize, epoch: u64, calls: u64) {
        let record = self.record(section::NODES, number as usize);
        let at = node::VERSIONS + of * version::LENGTH;
        (record[at + version::EPOCH], record[at + version::CALLS]) = (epoch, calls);
    }

    fn phase(&mut self, name: u64, iteration: u64) {
        let number = self.0[head::USED + section::PHASES];
        let place = number as usize % RECORDS[section::PHASES];
        let record = self.record(section::PHASES, place);
        (record[phase::STAMP], record[phase::NAME]) = (number + 1, name);
        record[phase::ITERATION] = iteration;
        self.0[head::USED + section::PHASES] += 1;
    }

    fn read(&self, which: ReadAt) -> ProfileSnapshot {
        ProfileReader::new(&self.0).unwrap().read(&self.0, which)
    }
}

/// A thread with a region `solve` and, in it, `step`.
fn nested() -> (Writer, [u64; 3]) {
    let mut writer = Writer::new();
    let (solve, step) = (writer.name(b"solve"), writer.name(b"step"));
    let root = writer.node(0, 0, NodeKind::Root);
    let outer = writer.node(root, solve, NodeKind::Region);
    let inner = writer.node(outer, step, NodeKind::Region);
    writer.0[head::USED + section::THREADS] = 1;
    (writer, [root, outer, inner])
}

fn calls(snapshot: &ProfileSnapshot, node: u64) -> Option<u64> {
    snapshot.nodes[node as usize].map(|node| node.numbers.calls)
}

#[test]
fn names_trees_and_numbers_come_back() {
    let (mut writer, [_, outer, inner]) = nested();
    writer.version(outer, 0, 1, 3);
    writer.version(inner, 0, 1, 41);
    let snapshot = writer.read(ReadAt::Now);
    assert_eq!(snapshot.names[1..], ["(other)", "solve", "step"]);
    assert_eq!((calls(&snapshot, outer), calls(&snapshot, inner)), (Some(3), Some(41)));
    assert_eq!(snapshot.nodes[inner as usize].unwrap().parent, outer as usize);
    assert_eq!((snapshot.pid, snapshot.lost), (77, ProfileLosses::default()));
}

#[test]
fn a_publish_is_read_as_it_stood_or_told_to_be_lost() {
    let (mut writer, [_, outer, inner]) = nested();
    // Published twice; `outer` was written to since, `inner` was not.
    writer.0[head::EPOCH] = 3;
    writer.version(outer, 0, 2, 5);
    writer.version(outer, 1, 3, 6);
    writer.version(inner, 0, 1, 50);
    let snapshot = writer.read(ReadAt::Publish(3));
    assert_eq!((calls(&snapshot, outer), calls(&snapshot, inner)), (Some(5), Some(50)));
    assert_eq!(snapshot.lost.overtaken, 0);
    assert_eq!(calls(&writer.read(ReadAt::Now), outer), Some(6));
    // A later one has taken its place: nothing is told in its stead.
    writer.version(outer, 0, 4, 7);
    let snapshot = writer.read(ReadAt::Publish(3));
    assert_eq!((calls(&snapshot, outer), snapshot.lost.overtaken), (None, 1));
    // One that came after the publish did not exist, and neither did what is in it.
    writer.version(outer, 1, 0, 0);
    let snapshot = writer.read(ReadAt::Publish(3));
    assert_eq!((calls(&snapshot, outer), calls(&snapshot, inner)), (None, None));
    assert_eq!((snapshot.lost.overtaken, snapshot.lost.damaged), (0, 0));
}

#[test]
fn a_node_whose_writer_has_died_is_read_and_marked() {
    let (mut writer, [_, outer, inner]) = nested();
    writer.version(outer, 0, 1, 5);
    writer.version(outer, 1, 2, 6);
    writer.version(inner, 0, 1, 8);
    for node in [outer, inner] {
        writer.record(section::NODES, node as usize)[node::SEQUENCE] = 7;
    }
    let snapshot = writer.read(ReadAt::End);
    assert_eq!((calls(&snapshot, outer), calls(&snapshot, inner)), (Some(6), Some(8)));
    assert!(snapshot.nodes[outer as usize].unwrap().is_unsettled);
    // Of a publish nothing is told that may have been in work.
    let snapshot = writer.read(ReadAt::Publish(3));
    assert_eq!((calls(&snapshot, outer), calls(&snapshot, inner)), (None, None));
    assert_eq!(snapshot.lost.overtaken, 1);
}

#[test]
fn an_account_of_calls_comes_back_with_the_node_whose_it_is() {
    let (mut writer, [root, outer, inner]) = nested();
    writer.version(outer, 0, 1, 5);
    writer.version(inner, 0, 1, 8);
    writer.record(section::NODES, outer as usize)[node::COSTS] = 2;
    writer.record(section::NODES, inner as usize)[node::COSTS] = u64::MAX;
    let record = writer.record(section::COSTS, 1);
    (record[costs::NODE], record[costs::WANTED], record[costs::REASON]) = (outer, 7, 1);
    record[costs::NUMBERS] = 99;
    writer.0[head::USED + section::COSTS] = 2;
    let snapshot = writer.read(ReadAt::End);
    let links = [root, outer, inner].map(|node| snapshot.nodes[node as usize].unwrap().costs);
    assert_eq!(links, [CostsLink::Unbound, CostsLink::Record(1), CostsLink::NoRoom]);
    let found = snapshot.costs[1].as_ref().unwrap();
    assert_eq!((found.node, found.wanted, found.reason), (outer, 7, 1));
    assert_eq!((found.account.token(), found.is_unsettled), (99, false));
    // Who wrote it has died in the middle.
    writer.record(section::COSTS, 1)[costs::SEQUENCE] = 3;
    assert!(writer.read(ReadAt::End).costs[1].as_ref().unwrap().is_unsettled);
    assert!(writer.read(ReadAt::Publish(1)).costs.is_empty());
}

#[test]
fn parents_in_circles_and_outside_are_left_out() {
    let (mut writer, [root, outer, inner]) = nested();
    writer.version(outer, 0, 1, 5);
    writer.record(section::NODES, outer as usize)[node::PARENT] = inner;
    let snapshot = writer.read(ReadAt::Now);
    assert_eq!((calls(&snapshot, outer), calls(&snapshot, inner)), (None, None));
    assert!(snapshot.nodes[root as usize].is_some());
    assert_eq!(snapshot.lost.damaged, 2);
    writer.record(section::NODES, outer as usize)[node::PARENT] = u64::MAX;
    writer.record(section::NODES, inner as usize)[node::THREAD] = 9;
    assert_eq!(writer.read(ReadAt::Now).lost.damaged, 2);
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let mut writer = Writer::new();
    let number = writer.name(b"a\xff\xfe, and more than eight") as usize;
    let snapshot = writer.read(ReadAt::Now);
    let name = &snapshot.names[number];
    assert_eq!(&*weigh_schema::byte_text::bytes(name), b"a\xff\xfe, and more than eight");
    // One that is said to lie outside is none.
    writer.record(section::NAMES, number)[name::TEXT] = 63;
    let snapshot = writer.read(ReadAt::Now);
    assert_eq!((snapshot.names[number].as_str(), snapshot.lost.damaged), ("", 1));
}

#[test]
fn phases_come_once_and_lost_ones_are_counted() {
    let (mut writer, _) = nested();
    let mut reader = ProfileReader::new(&writer.0).unwrap();
    let take = |reader: &mut ProfileReader, writer: &Writer, which| {
        let snapshot = reader.read(&writer.0, which);
        let iterations: Vec<u64> = snapshot.phases.iter().map(|phase| phase.iteration).collect();
        (iterations, snapshot.lost.phases)
    };
    (0..3).for_each(|iteration| writer.phase(2, iteration));
    assert_eq!(take(&mut reader, &writer, ReadAt::Now), (vec![0, 1, 2], 0));
    // The ring has 4: of 6 more the first two are gone.
    (3..9).for_each(|iteration| writer.phase(2, iteration));
    assert_eq!(take(&mut reader, &writer, ReadAt::Now), (vec![5, 6, 7, 8], 2));
    // One that was begun and never written is waited for, and lost in the end.
    writer.0[head::USED + section::PHASES] += 1;
    assert_eq!(take(&mut reader, &writer, ReadAt::Now), (vec![], 0));
    assert_eq!(take(&mut reader, &writer, ReadAt::End), (vec![], 1));
}

#[test]
fn threads_have_their_open_regions() {
    let (mut writer, [_, outer, _]) = nested();
    let record = writer.record(section::THREADS, 0);
    (record[thread::TID], record[thread::DEPTH]) = (99, FRAMES as u64 + 3);
    record[thread::NAME] = u64::from_ne_bytes(*b"worker\0\0");
    for number in 0..FRAMES {
        let at = thread::STACK + number * frame::LENGTH;
        record[at + frame::NODE] = if number == 0 { outer } else { u64::MAX };
        record[at + frame::BEGUN] = 5;
    }
    let snapshot = writer.read(ReadAt::End);
    let thread = &snapshot.threads[0];
    assert_eq!((thread.tid, thread.name.as_str(), thread.deeper), (99, "worker", 3));
    assert_eq!(thread.open, [OpenFrame { node: outer as usize, begun: Some(5), inside: 0 }]);
    assert_eq!(snapshot.lost.damaged, FRAMES as u64 - 1);
}

#[test]
fn metadata_is_read_whole() {
    let mut writer = Writer::new();
    let key = writer.name(b"input");
    let (at, bytes) = writer.text(b"case-7.nml");
    let record = writer.record(section::METADATA, 0);
    record[..metadata::LENGTH].copy_from_slice(&[2, key, at, bytes]);
    writer.0[head::USED + section::METADATA] = 1;
    let read = writer.read(ReadAt::Now);
    assert_eq!(read.metadata, [("input".to_string(), "case-7.nml".to_string())]);
}

#[test]
fn heads_that_cannot_be_are_refused() {
    let refusal = |spoil: fn(&mut Vec<u64>)| {
        let mut words = Writer::new().0;
        spoil(&mut words);
        ProfileReader::new(&words).err()
    };
    assert_eq!(refusal(|_| ()), None);
    assert_eq!(refusal(|w| w[head::MAGIC] = 0), Some(ProfileRefusal::NoProfile));
    assert_eq!(refusal(|w| w.truncate(9)), Some(ProfileRefusal::NoProfile));
    assert_eq!(refusal(|w| w[head::LAYOUT] += 1), Some(ProfileRefusal::OtherLayout));
    assert_eq!(refusal(|w| w.truncate(head::LENGTH + 1)), Some(ProfileRefusal::Size));
    assert_eq!(refusal(|w| w[head::CLOCK] = 9), Some(ProfileRefusal::Clock));
    let sections: [fn(&mut Vec<u64>); 5] = [
        |w| w[head::SECTIONS] = u64::MAX,
        |w| w[head::SECTIONS] = 0,
        |w| w[head::SECTIONS + 1] = u64::MAX / 2,
        |w| w[head::SECTIONS] = w[head::SECTIONS + 4],
        |w| w[head::SECTIONS + 15] = w.len() as u64,
    ];
    for spoil in sections {
        assert_eq!(refusal(spoil), Some(ProfileRefusal::Sections));
    }
}

proptest! {
    #[test]
    fn nothing_that_a_program_writes_makes_it_fail(
        spoiled in proptest::collection::vec((0usize..1500, any::<u64>()), 0..40),
        small in proptest::collection::vec((0usize..1500, 0u64..70), 0..40),
        epoch in 0u64..4,
    ) {
        let (mut writer, _) = nested();
        writer.phase(2, 1);
        for (at, word) in spoiled.into_iter().chain(small) {
            if let Some(place) = writer.0.get_mut(at) {
                *place = word;
            }
        }
        if let Ok(mut reader) = ProfileReader::new(&writer.0) {
            for which in [ReadAt::Publish(epoch), ReadAt::Now, ReadAt::End] {
                let snapshot = reader.read(&writer.0, which);
                prop_assert!(snapshot.nodes.iter().flatten().all(|n| n.parent < snapshot.nodes.len()));
                prop_assert!(snapshot.nodes.iter().flatten().all(|n| n.name < snapshot.names.len()));
            }
        }
    }
}

const _: () = assert!(VERSIONS == 2 && event::STAMP == 0 && phase::STAMP == 0);
