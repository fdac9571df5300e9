//! The nodes of a profile, each with one of its two versions, and the accounts of calls that are bound to them.

use weigh_schema::profile::{FRAMES, NodeKind, VERSIONS, costs, node, version};
use weigh_schema::region::snapshot::{
    CostsLink, NodeNumbers, ProfileCosts, ProfileLosses, ProfileNode,
};
use weigh_schema::subsystem::{Account, account_length};

use super::{ProfileReader, ReadAt, TRIES, Words, section, settled};

/// A node lies at most so deep: as deep as open regions are kept, below its root, and `(other)` below that.
const MOST_DEPTH: usize = FRAMES + 2;

/// Of all nodes that are being written so many tries are made at most: there are not more than threads that run.
const MOST_TRIES: usize = 64 * TRIES;

/// The versions of a node's numbers.
type Versions = [NodeNumbers; VERSIONS];

/// Reads all of them. Those whose parents make no sense are left out, and counted.
pub(super) fn read(
    reader: &ProfileReader,
    words: &dyn Words,
    which: ReadAt,
    lost: &mut ProfileLosses,
) -> Vec<Option<ProfileNode>> {
    let places = reader.records(words, section::NODES, node::LENGTH);
    let mut tries_left = MOST_TRIES;
    let mut read = |place| read_node(reader, words, place, which, &mut tries_left, lost);
    let mut nodes: Vec<_> = places.iter().map(&mut read).collect();
    let is_rooted: Vec<bool> = (0..nodes.len()).map(|number| is_rooted(&nodes, number)).collect();
    for (node, _) in nodes.iter_mut().zip(is_rooted).filter(|(_, is_rooted)| !is_rooted) {
        // Where a parent did not exist at a publish, none of its children did.
        if node.take().is_some() && !matches!(which, ReadAt::Publish(_)) {
            lost.damaged += 1;
        }
    }
    nodes
}

/// Whether its parents lead to a root of the same thread.
fn is_rooted(nodes: &[Option<ProfileNode>], number: usize) -> bool {
    let node = |number: usize| nodes.get(number).and_then(Option::as_ref);
    let Some(mut at) = node(number) else { return false };
    let (thread, mut number) = (at.thread, number);
    for _ in 0..MOST_DEPTH {
        if at.parent == number {
            return at.kind == NodeKind::Root;
        }
        number = at.parent;
        match node(number) {
            Some(parent) if parent.thread == thread => at = parent,
            _ => return false,
        }
    }
    false
}

/// One node; none if it is not there yet, was not there at the publish, or makes no sense.
fn read_node(
    reader: &ProfileReader,
    words: &dyn Words,
    place: usize,
    which: ReadAt,
    tries_left: &mut usize,
    lost: &mut ProfileLosses,
) -> Option<ProfileNode> {
    let word = |at: usize| words.load(place + at);
    let kind = match word(node::KIND) {
        0 => return None,
        number => NodeKind::numbered(number),
    };
    let parts = kind.zip(reader.thread(word(node::THREAD)));
    let Some(((kind, thread), parent)) = parts.zip(usize::try_from(word(node::PARENT)).ok()) else {
        lost.damaged += 1;
        return None;
    };
    let tries = TRIES.min(1 + *tries_left);
    let found = settled(words, place + node::SEQUENCE, tries, || versions(words, place));
    let is_unsettled = found.is_none();
    if is_unsettled {
        *tries_left = tries_left.saturating_sub(tries);
    }
    let versions = found.unwrap_or_else(|| versions(words, place));
    let chosen = match which {
        ReadAt::Publish(epoch) => newest_before(&versions, epoch, is_unsettled),
        // Where a process died or stopped in the middle, this one is at most one call ahead of itself: the other one may be
        // far behind.
        ReadAt::Now | ReadAt::End => Choice::Of(newest(&versions)),
    };
    let numbers = match chosen {
        Choice::Of(numbers) => numbers,
        Choice::Overtaken => {
            lost.overtaken += 1;
            return None;
        }
        // A root has no numbers: it is there as soon as its children are.
        Choice::NotYet if kind == NodeKind::Root => NodeNumbers::default(),
        Choice::NotYet => return None,
    };
    Some(ProfileNode {
        parent,
        // A name that is not known is none.
        name: reader.name(word(node::NAME)).unwrap_or(0),
        thread,
        kind,
        braked: word(node::BRAKED),
        unbalanced: word(node::UNBALANCED),
        is_unsettled,
        costs: costs_link(word(node::COSTS)),
        numbers,
    })
}

fn costs_link(word: u64) -> CostsLink {
    match word.checked_sub(1).map(usize::try_from) {
        None => CostsLink::Unbound,
        Some(Ok(number)) if word != u64::MAX => CostsLink::Record(number),
        Some(_) => CostsLink::NoRoom,
    }
}

enum Choice {
    Of(NodeNumbers),
    /// Both versions are newer, and there may have been one before.
    Overtaken,
    /// It has come since.
    NotYet,
}

/// As it stood when the epoch became this one. What is written all the time may be a version that was begun before.
fn newest_before(versions: &Versions, epoch: u64, is_unsettled: bool) -> Choice {
    let written = versions.iter().filter(|version| version.epoch > 0);
    let before = written.clone().filter(|version| version.epoch < epoch);
    match before.max_by_key(|version| version.epoch) {
        Some(version) if is_unsettled && version.epoch + 1 == epoch => Choice::Overtaken,
        Some(version) => Choice::Of(*version),
        None if written.count() == VERSIONS => Choice::Overtaken,
        None => Choice::NotYet,
    }
}

fn newest(versions: &Versions) -> NodeNumbers {
    if versions[1].epoch > versions[0].epoch { versions[1] } else { versions[0] }
}

fn versions(words: &dyn Words, place: usize) -> Versions {
    std::array::from_fn(|number| {
        let first = place + node::VERSIONS + number * version::LENGTH;
        let word = |at: usize| words.load(first + at);
        NodeNumbers {
            epoch: word(version::EPOCH),
            calls: word(version::CALLS),
            timed: word(version::TIMED),
            inclusive: word(version::INCLUSIVE),
            exclusive: word(version::EXCLUSIVE),
            min: word(version::MIN),
            max: word(version::MAX),
            squares: f64::from_bits(word(version::SQUARES)),
        }
    })
}

/// Reads the accounts of calls that are bound to regions, as they are.
pub(super) fn read_costs(reader: &ProfileReader, words: &dyn Words) -> Vec<Option<ProfileCosts>> {
    let places = reader.records(words, section::COSTS, costs::LENGTH);
    let mut tries_left = MOST_TRIES;
    places.iter().map(|place| read_costs_record(words, place, &mut tries_left)).collect()
}

fn read_costs_record(
    words: &dyn Words,
    place: usize,
    tries_left: &mut usize,
) -> Option<ProfileCosts> {
    let numbers = || -> Vec<u64> {
        let first = place + costs::NUMBERS;
        (first..first + account_length()).map(|at| words.load(at)).collect()
    };
    let tries = TRIES.min(1 + *tries_left);
    let found = settled(words, place + costs::SEQUENCE, tries, numbers);
    let is_unsettled = found.is_none();
    if is_unsettled {
        *tries_left = tries_left.saturating_sub(tries);
    }
    Some(ProfileCosts {
        node: words.load(place + costs::NODE),
        wanted: words.load(place + costs::WANTED),
        reason: words.load(place + costs::REASON),
        account: Account::from_words(found.unwrap_or_else(numbers))?,
        is_unsettled,
    })
}
