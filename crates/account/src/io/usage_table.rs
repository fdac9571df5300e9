//! What is known of each file and process so far: rows, to which more is added, and names.
//!
//! Of the some two hundred numbers of a row most are nothing, and take no room here.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::LazyLock;

use weigh_schema::byte_text;
use weigh_schema::io::{
    Direction, Event, FIELDS, Field, FileId, FileStates, Named, Numbers, Object, OffsetHistogram,
    PLACES, Process, ReportBasis, Sources, Transfer, Unseen, Use, Who,
};
use weigh_schema::{Mechanism, Quality};

use super::extents;

/// So many files and processes are kept apart.
const MOST_ROWS: usize = 16_384;
/// So many processes are told of one by one: some 20 MB.
const MOST_PROCESSES: usize = 131_072;

/// Processes that have left the book, and what they asked for by paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftProcesses {
    pub processes: u64,
    pub path_calls: u64,
    pub path_ns: u64,
    pub failed_opens: u64,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct IoBook {
    /// What could not be seen of any row.
    pub unseen: Unseen,
    /// Kinds of transfer that cannot be seen: their numbers are not known.
    pub unseen_kinds: Vec<Transfer>,
    /// Numbers that cannot be known: counts of them are not reported.
    pub unseen_fields: Vec<Field>,
    /// Whether it cannot be seen what was read ahead in vain.
    pub is_ahead_unseen: bool,
    /// Whether who tells of files tells of the end of their last names, too.
    pub is_told_of_ends: bool,
    /// Whether it cannot be seen what devices did.
    pub are_devices_unseen: bool,
    /// Whether a library in the programs counts, past which calls can be made.
    pub is_by_library: bool,
    pub(super) rows: HashMap<(FileId, Who), RowState>,
    pub(super) names: HashMap<FileId, (Object, Rc<str>)>,
    /// Names that came later.
    later_names: HashMap<FileId, Rc<str>>,
    /// Whether files had no name any more in the end, of those that were looked at.
    deleted: HashMap<FileId, bool>,
    /// Files of which nobody can say that.
    unknown_ends: HashSet<FileId>,
    /// What file systems said of files in the end.
    states: HashMap<FileId, FileStates>,
    pub(super) processes: BTreeMap<u32, Process>,
    pub(super) left_processes: LeftProcesses,
    pub(super) rest: Use,
    pub(super) rest_uses: u64,
}

impl IoBook {
    /// Takes note of how far what comes can be known.
    pub fn stand_on(&mut self, grounds: &ReportBasis) {
        self.unseen = grounds.unseen();
        let is_unseen = |key: &str| {
            grounds.qualities.get(key).is_some_and(|trust| trust.quality == Quality::Unavailable)
        };
        let kinds = Transfer::ALL.iter().filter(|kind| is_unseen(kind.name()));
        self.unseen_kinds = kinds.copied().collect();
        self.unseen_fields =
            FIELDS.iter().filter(|field| is_unseen(&field.key())).copied().collect();
        self.is_told_of_ends = grounds.mechanism == Mechanism::Fuse;
        self.is_ahead_unseen = grounds.qualities.contains_key(&Field::AheadUnused.key());
        self.are_devices_unseen = is_unseen(&Field::DeviceRead.key());
        self.is_by_library =
            [Mechanism::Preload, Mechanism::PreloadPtrace].contains(&grounds.mechanism);
    }

    /// Takes one thing in.
    pub fn add(&mut self, event: Event) {
        match event {
            Event::Named(named) => self.add_name(named),
            Event::Unlinked(file) => drop(self.deleted.insert(file, true)),
            Event::Used(used) => self.add_use(&used),
            Event::Ended(process) => self.add_process(process),
            Event::Asked(process) => self.add_asked(process),
            // It was counted where it was seen: its use has it.
            Event::Called(_) => {}
        }
    }

    /// The first name stays. One that comes later is told beside it.
    fn add_name(&mut self, Named { file, object, name }: Named) {
        let first = self.names.entry(file).or_insert_with(|| (object, name.as_str().into()));
        match *first.1 == *name {
            true => drop(self.later_names.remove(&file)),
            false => drop(self.later_names.insert(file, name.into())),
        }
    }

    /// Takes note of what was found at the end: whether it has no name any more, and which it has, if that is another.
    pub fn set_end(&mut self, file: FileId, is_deleted: Option<bool>, name: Option<String>) {
        if let Some(is_deleted) = is_deleted {
            self.deleted.insert(file, is_deleted);
        }
        if let Some(name) = name {
            self.add_name(Named { file, object: Object::Regular, name });
        }
    }

    /// Takes note of what its file system said of it in the end.
    pub fn set_states(&mut self, file: FileId, states: FileStates) {
        self.states.insert(file, states);
    }

    /// What its file system said of it in the end, if it was looked for.
    pub fn states(&self, file: FileId) -> Option<&FileStates> {
        self.states.get(&file)
    }

    /// Nobody can say whether a file has a name in the end: what was seen of it may be another's.
    pub fn set_end_unknown(&mut self, file: FileId) {
        self.unknown_ends.insert(file);
    }

    /// Whether it is known that a file has a name in the end, or that it has none.
    pub fn is_end_known(&self, row: &Use) -> bool {
        let was_seen = self.deleted.contains_key(&row.file) || row.is_deleted;
        self.is_told_of_ends || was_seen && !self.unknown_ends.contains(&row.file)
    }

    /// Bytes that came by mapped memory, of files on block devices, beyond what any device read of those files: of
    /// space that was allocated and never written nothing has to be read.
    pub fn mapped_from_nowhere(&self) -> u64 {
        let mut files: HashMap<FileId, [u64; 2]> = HashMap::new();
        // File systems without a device of their own have no major number.
        for ((file, _), row) in self.rows.iter().filter(|((file, _), _)| file.device >> 20 != 0) {
            let (row, sums) = (row.amounts(), files.entry(*file).or_default());
            sums[0] += row.numbers.bytes[Transfer::Mapped as usize][0];
            sums[1] += row.numbers.get(Field::DeviceRead);
        }
        files.values().map(|[mapped, read]| mapped.saturating_sub(*read)).sum()
    }

    /// Regular files of which it is not.
    pub fn files_of_unknown_end(&self) -> usize {
        let is_unknown = |row: Use| {
            let is_regular = self.object_of(row.file, row.object) == Object::Regular;
            (is_regular && !self.is_end_known(&row)).then_some(row.file)
        };
        self.rows().filter_map(is_unknown).collect::<HashSet<_>>().len()
    }

    /// When files without a generation were used first, since the following began.
    pub fn first_uses(&self) -> HashMap<FileId, u64> {
        let mut first = HashMap::new();
        for ((file, _), row) in self.rows.iter().filter(|((file, _), _)| file.generation == 0) {
            let used_ns = row.amounts().numbers.known(Field::First).unwrap_or(u64::MAX);
            let known = first.entry(*file).or_insert(used_ns);
            *known = used_ns.min(*known);
        }
        first
    }

    /// Takes in what was done.
    pub fn add_use(&mut self, used: &Use) {
        let key = (used.file, used.who);
        if used.is_of_later_alone() && !self.is_known(&key) {
            return self.add_rest(used);
        }
        self.rows.entry(key).or_default().fold(used);
    }

    /// Whether a file has a row, or a name for one: what has left the book has neither.
    fn is_known(&self, key: &(FileId, Who)) -> bool {
        self.rows.contains_key(key) || self.names.contains_key(&key.0)
    }

    /// Takes a process in; of one that is known already, what is newer.
    pub fn add_process(&mut self, process: Process) {
        self.processes.insert(process.pid, process);
    }

    /// Takes in what a process asked for besides what is known of it.
    fn add_asked(&mut self, asked: Process) {
        let known = self.processes.entry(asked.pid).or_default();
        let (path_calls, path_ns) = (known.path_calls, known.path_ns);
        let failed_opens = known.failed_opens;
        // A process that could not be read has no name: the earlier one stays.
        if known.name.is_empty() || !asked.name.is_empty() {
            *known = asked.clone();
        }
        known.path_calls = path_calls + asked.path_calls;
        known.path_ns = path_ns + asked.path_ns;
        known.failed_opens = failed_opens + asked.failed_opens;
    }

    /// Takes in what the kernel side could not keep by file.
    pub fn add_rest(&mut self, rest: &Use) {
        fold(&mut self.rest, rest);
    }

    /// Where too many files are kept apart: takes out half of them, those that were used longest ago,
    /// to the rest. Returns them.
    pub fn make_room(&mut self) -> Vec<((FileId, Who), RowState)> {
        if self.processes.len() >= MOST_PROCESSES {
            self.make_room_for_processes();
        }
        if self.rows.len() < MOST_ROWS {
            return Vec::new();
        }
        let mut lasts: Vec<u64> = self.rows.values().map(|row| row.last).collect();
        let middle = lasts.len() / 2;
        let (_, bar, _) = lasts.select_nth_unstable(middle);
        let bar = *bar;
        let old: Vec<_> = self.rows.extract_if(|_, row| row.last <= bar).collect();
        for (key, row) in &old {
            let row = row.amounts();
            self.rest.numbers.fold(&row.numbers);
            self.rest.slowest = self.rest.slowest.max(row.slowest);
            self.rest_uses += 1;
            debug_assert!(!self.rows.contains_key(key));
        }
        old
    }

    /// Takes out half of the processes, those that have no row and began first; they are counted.
    fn make_room_for_processes(&mut self) {
        let with_rows: HashSet<u32> = self.rows.keys().map(|(_, who)| who.pid).collect();
        let without = self.processes.values().filter(|process| !with_rows.contains(&process.pid));
        let mut oldest: Vec<_> = without.map(|process| (process.started_ns, process.pid)).collect();
        oldest.sort_unstable();
        for (_, pid) in oldest.into_iter().take(MOST_PROCESSES / 2) {
            let Some(process) = self.processes.remove(&pid) else { continue };
            let left = &mut self.left_processes;
            left.processes += 1;
            left.path_calls += process.path_calls;
            left.path_ns += process.path_ns;
            left.failed_opens += process.failed_opens;
        }
    }

    /// Of these that have left the book, those that have no row any more are not known by name either; returns
    /// them. A file that was named and has no row yet is open somewhere, and will not be named again.
    pub fn forget_names(&mut self, left: &[((FileId, Who), RowState)]) -> Vec<FileId> {
        let left: HashSet<FileId> = left.iter().map(|((file, _), _)| *file).collect();
        let used: HashSet<FileId> = self.rows.keys().map(|(file, _)| *file).collect();
        let gone: Vec<FileId> = left.difference(&used).copied().collect();
        for file in &gone {
            self.names.remove(file);
            self.later_names.remove(file);
            self.deleted.remove(file);
        }
        gone
    }

    /// What each process did with each file.
    pub fn rows(&self) -> impl Iterator<Item = Use> {
        self.rows.iter().map(|(key, row)| row.row(key))
    }

    /// What a process did with a file.
    pub fn row(&self, key: &(FileId, Who)) -> Option<Use> {
        self.rows.get(key).map(|row| row.row(key))
    }

    /// Whether a process had something moved unseen, by io_uring or AIO where they are not seen.
    pub(super) fn moves_unseen(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.moves_unseen)
    }

    /// Whether calls may have been made past who has counted a row.
    pub(super) fn may_be_passed_by(&self, sources: Sources) -> bool {
        self.is_by_library && (sources == Sources::default() || sources.has_preload())
    }

    /// Whether any process had.
    pub(super) fn anyone_moves_unseen(&self) -> bool {
        self.processes.values().any(|process| process.moves_unseen)
    }

    /// What a file is, whose row says this of it.
    pub(super) fn object_of(&self, file: FileId, told: Object) -> Object {
        let named = || self.names.get(&file).map_or(Object::Unknown, |(object, _)| *object);
        if told == Object::Unknown { named() } else { told }
    }

    /// What a file is called, with all bytes.
    pub fn name(&self, file: FileId) -> Option<&str> {
        self.names.get(&file).map(|(_, name)| &**name)
    }

    /// The last name by which it was known, if that is another, with all bytes.
    pub fn later_name(&self, file: FileId) -> Option<&str> {
        self.later_names.get(&file).map(|name| &**name)
    }

    /// Whether it had no name any more in the end, if somebody looked.
    pub fn is_deleted(&self, file: FileId) -> Option<bool> {
        self.deleted.get(&file).copied()
    }

    /// Regular files that may be looked for, by their last name.
    pub fn regular_files(&self) -> impl Iterator<Item = (FileId, &str)> {
        let regular = self.names.iter().filter(|(_, (object, _))| *object == Object::Regular);
        regular.map(|(file, (_, name))| (*file, self.later_name(*file).unwrap_or(name)))
    }

    /// What it is called as it is shown; in words where it has no name.
    pub fn name_of(&self, file: FileId) -> String {
        let (major, minor) = (file.device >> 20, file.device & 0xf_ffff);
        let unnamed = || format!("(inode {} of device {major}:{minor})", file.inode);
        self.name(file).map_or_else(unnamed, byte_text::shown)
    }

    /// The bytes of its name in Base64, where they are no UTF-8.
    pub fn name_base64(&self, file: FileId) -> Option<String> {
        self.name(file).and_then(byte_text::base64)
    }

    /// Processes' names by their PIDs, in the form that keeps their bytes.
    pub fn process_name(&self, pid: u32) -> &str {
        self.processes.get(&pid).map_or("", |process| process.name.as_str())
    }
}

/// The numbers, how wide the places are, and their bytes.
const WORDS: usize = Numbers::WORDS + 1 + 2 * PLACES;
const MASKS: usize = WORDS.div_ceil(64);

/// What stands for nothing: of some numbers that is not 0.
static BLANK: LazyLock<Vec<u64>> = LazyLock::new(|| words(&Use::default()).collect());

/// What is kept of a row.
#[derive(Clone, Debug, Default)]
pub struct RowState {
    pub(super) object: Object,
    is_deleted: bool,
    sources: Sources,
    /// Which numbers are something; those follow each other in `words`.
    present: [u64; MASKS],
    words: Box<[u64]>,
    /// What was read and what was written, in which order.
    pub(super) directions: [Direction; 2],
    slowest: (u64, u64, u64),
    /// When it was used last, by its process or by a device.
    pub(super) last: u64,
}

impl RowState {
    /// Of a row.
    pub(super) fn of(row: Use) -> RowState {
        let mut kept = RowState {
            object: row.object,
            is_deleted: row.is_deleted,
            sources: row.sources,
            slowest: row.slowest,
            last: row.numbers.get(Field::Last).max(row.numbers.get(Field::WrittenLast)),
            ..RowState::default()
        };
        let mut some = Vec::with_capacity(32);
        for (place, (word, blank)) in words(&row).zip(BLANK.iter()).enumerate() {
            if word != *blank {
                kept.present[place / 64] |= 1 << (place % 64);
                some.push(word);
            }
        }
        kept.words = some.into();
        kept.directions = row.directions;
        kept.directions.iter_mut().for_each(|direction| {
            direction.seen.shrink_to_fit();
            direction.strides.shrink_to_fit();
        });
        kept
    }

    /// The row of this file and process.
    pub fn row(&self, key: &(FileId, Who)) -> Use {
        Use { file: key.0, who: key.1, ..self.with(self.directions.clone()) }
    }

    /// The row but for whose it is, and for what was read and written where: for sums.
    pub(super) fn amounts(&self) -> Use {
        self.with(Default::default())
    }

    fn with(&self, directions: [Direction; 2]) -> Use {
        let mut row = Use {
            object: self.object,
            is_deleted: self.is_deleted,
            sources: self.sources,
            directions,
            slowest: self.slowest,
            ..Use::default()
        };
        let mut some = self.words.iter().copied();
        let mut places = [0; 1 + 2 * PLACES];
        for (place, word) in row.numbers.words_mut().chain(&mut places).enumerate() {
            if self.present[place / 64] >> (place % 64) & 1 == 1 {
                *word = some.next().unwrap_or(0);
            }
        }
        let [shift, bytes @ ..] = places;
        row.places.shift = shift as u32;
        row.places.bytes.as_flattened_mut().copy_from_slice(&bytes);
        row
    }

    /// Takes in what was done later.
    pub(super) fn fold(&mut self, more: &Use) {
        let directions = std::mem::take(&mut self.directions);
        let mut row = self.with(directions);
        fold(&mut row, more);
        *self = RowState::of(row);
    }
}

/// Takes in what another thread did at the same time: each byte was read, or written, again by nobody but
/// who read it before.
pub(super) fn join(row: &mut Use, other: &Use) {
    row.numbers.fold(&other.numbers);
    row.places.fold(&other.places);
    for (mine, theirs) in row.directions.iter_mut().zip(&other.directions) {
        extents::join(&mut mine.seen, &theirs.seen);
    }
}

/// Takes in what was done later: what it has in common with before was read, or written, again.
pub(super) fn fold(row: &mut Use, more: &Use) {
    let again = [Field::Reread, Field::Rewritten];
    row.numbers.fold(&more.numbers);
    row.places.fold(&more.places);
    for (which, field) in again.into_iter().enumerate() {
        let (mine, theirs) = (&mut row.directions[which], &more.directions[which]);
        let twice = row.numbers.get(field) + extents::common(&mine.seen, &theirs.seen);
        row.numbers.set(field, twice);
        let forgotten = extents::join(&mut mine.seen, &theirs.seen);
        let forgotten = row.numbers.get(Field::Forgotten) + forgotten;
        row.numbers.set(Field::Forgotten, forgotten);
        fold_strides(&mut mine.strides, &theirs.strides);
    }
    if more.object != Object::Unknown {
        row.object = more.object;
    }
    row.is_deleted |= more.is_deleted;
    row.slowest = row.slowest.max(more.slowest);
    row.sources.join(more.sources);
}

fn fold_strides(mine: &mut Vec<(i64, u64)>, theirs: &[(i64, u64)]) {
    for (bytes, times) in theirs {
        match mine.iter_mut().find(|(known, _)| known == bytes) {
            Some((_, sum)) => *sum += times,
            None => mine.push((*bytes, *times)),
        }
    }
    mine.sort_by_key(|(bytes, times)| (std::cmp::Reverse(*times), *bytes));
    mine.truncate(weigh_schema::io::STRIDES);
}

fn words(row: &Use) -> impl Iterator<Item = u64> {
    let OffsetHistogram { shift, bytes } = &row.places;
    row.numbers.words().chain([u64::from(*shift)]).chain(bytes.iter().flatten().copied())
}

#[cfg(test)]
mod tests;
