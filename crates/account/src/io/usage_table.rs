//! What is known of each file and process so far.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use weigh_schema::byte_text;
use weigh_schema::io::{
    Event, FIELDS, Field, FileId, FileStates, Named, Object, Process, ReportBasis, Sources,
    Transfer, Unseen, Use, Who,
};
use weigh_schema::{Mechanism, Quality};

use super::packed_row::{RowState, fold};

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

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::io::Stretch;

    fn read(from: u64, to: u64, at: u64) -> Use {
        let mut used = Use { who: Who { pid: 7, tid: 0 }, ..Use::default() };
        used.numbers.bytes[0][0] = to - from;
        used.numbers.set(Field::Last, at);
        used.directions[0].seen.push(Stretch { from, to });
        used
    }

    #[test]
    fn what_is_read_again_after_a_new_open_is_known() {
        let mut book = IoBook::default();
        for used in [read(0, 100, 1), read(50, 150, 2), read(0, 150, 3)] {
            book.add(Event::Used(Box::new(used)));
        }
        let row = book.row(&(FileId::default(), Who { pid: 7, tid: 0 })).expect("a row");
        assert_eq!(row.numbers.bytes[0][0], 350);
        assert_eq!(row.numbers.get(Field::Reread), 50 + 150);
        assert_eq!(row.directions[0].seen, [Stretch { from: 0, to: 150 }]);
    }

    /// What a device writes of a file whose row has left the book has no name: it is in the rest.
    #[test]
    fn what_a_device_did_joins_its_row_or_the_rest() {
        let mut book = IoBook::default();
        let mut written = Use { who: Who { pid: 7, tid: 0 }, ..Use::default() };
        written.numbers.set(Field::DeviceWritten, 4096);
        book.add_use(&written);
        assert_eq!(book.rows().count(), 0);
        assert_eq!(book.rest.numbers.get(Field::DeviceWritten), 4096);
        book.add_use(&read(0, 100, 1));
        book.add_use(&written);
        let row = book.row(&(FileId::default(), written.who)).expect("a row");
        assert_eq!(row.numbers.get(Field::DeviceWritten), 4096);
    }

    #[test]
    fn what_a_process_asked_for_adds_up_whenever_it_is_told() {
        let mut book = IoBook::default();
        let asked = |name: &str, path_calls| {
            let name = name.to_string();
            Event::Asked(Process {
                pid: 7,
                name,
                path_calls,
                failed_opens: 1,
                ..Process::default()
            })
        };
        // Once it could not be looked at.
        for event in [asked("sh", 3), asked("", 5), asked("cp", 11)] {
            book.add(event);
        }
        let process = &book.processes[&7];
        assert_eq!((process.path_calls, process.failed_opens), (19, 3));
        assert_eq!(process.name, "cp");
    }

    #[test]
    fn too_many_processes_are_counted_and_those_with_files_stay() {
        let mut book = IoBook::default();
        book.add_use(&read(0, 3, 1));
        for pid in 1..=MOST_PROCESSES as u32 {
            let (started_ns, path_calls) = (u64::from(pid), 3);
            book.add(Event::Asked(Process { pid, started_ns, path_calls, ..Process::default() }));
        }
        assert!(book.make_room().is_empty());
        let left = book.left_processes;
        assert_eq!(left.processes as usize, MOST_PROCESSES / 2);
        let kept: u64 = book.processes.values().map(|process| process.path_calls).sum();
        assert_eq!(kept + left.path_calls, 3 * MOST_PROCESSES as u64);
        assert!(book.processes.contains_key(&7), "it has a row");
        assert!(!book.processes.contains_key(&8) && book.processes.contains_key(&100_000));
    }

    #[test]
    fn too_many_files_go_to_the_rest_and_none_is_lost() {
        let mut book = IoBook::default();
        for inode in 0..MOST_ROWS as u64 {
            let file = FileId { inode, ..FileId::default() };
            book.add_use(&Use { file, ..read(0, 3, inode + 1) });
        }
        let old = book.make_room();
        assert_eq!(old.len() + book.rows.len(), MOST_ROWS);
        assert!(old.iter().all(|((file, _), _)| file.inode <= MOST_ROWS as u64 / 2));
        let kept: u64 = book.rows().map(|row| row.numbers.bytes[0][0]).sum();
        assert_eq!(kept + book.rest.numbers.bytes[0][0], 3 * MOST_ROWS as u64);
        assert_eq!(book.rest_uses as usize, old.len());
        assert!(book.make_room().is_empty());
    }
}
