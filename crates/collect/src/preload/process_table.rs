//! What is known of the processes of a job: from their slots, and for those that have none from
//! looks at `/proc`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use weigh_schema::event::{Event, ProcessEnd};
use weigh_schema::{Counter, CounterValues};

use super::layout::{
    FLAG_AIO, FLAG_BY_NUMBER, FLAG_IGNORES_CHILDREN, FLAG_IO_OF_CHILDREN, FLAG_NO_MEMORY,
    FLAG_SOCKET_STREAM, FLAG_THREADS, FLAG_URING, Shared,
};
use super::peak::{PeakBound, ProcessPeak};
use super::pid_namespace::{NamespacePids, is_hidden};
use super::process::{self, Process};
use crate::poll::Poll;
use crate::procfs;
use crate::procfs::IO_COUNTERS;

/// How much earlier a slot may say that its process began than the kernel does: a clock tick is
/// 10 ms. It may be any time later, for the kernel counts from the fork.
const EARLIER_NS: u64 = 30_000_000;

/// Processes whose slot was given back are remembered for that many looks, and as long as they are
/// there still: where many end at once, one that has said its last may wait long for a processor.
const REMEMBERED_LOOKS: usize = 3;

/// After so long a process that no look has found is no more.
const UNFOUND_NS: u64 = 1_000_000_000;

/// Kinds of blind spots that are told apart by program.
const NAMED_PROGRAMS: usize = 64;

/// Calls that move bytes, made by syscall(2).
pub const BY_NUMBER: &str = "calls by their numbers";

/// When the processes of each PID were started.
type Begun = HashMap<u32, Vec<u64>>;

/// Whether somebody else counts in a process that the library is not in.
#[derive(Default)]
pub struct Elsewhere(pub Option<Box<dyn Fn(u32) -> bool>>);

impl Elsewhere {
    fn counts_in(&self, pid: u32) -> bool {
        self.0.as_ref().is_some_and(|is_counted| is_counted(pid))
    }
}

/// What is known so far.
#[derive(Default)]
pub struct Tally {
    /// Who else counts.
    pub elsewhere: Elsewhere,
    /// When the job began, on the clock of the slots.
    pub epoch_ns: u64,
    /// When the command's process was made, which is where the looks count from.
    pub fork_ns: u64,
    /// The PIDs of those that do not know them.
    pub hidden: NamespacePids,
    /// Events not yet handed out.
    pub events: VecDeque<Event>,
    /// Wait statuses of processes that weigh itself has waited for.
    pub statuses: HashMap<u32, u32>,
    /// What the slots that were given back had counted beside what the kernel counts.
    ended: CounterValues,
    /// Bytes and calls that the library itself read in them.
    own_reads: (u64, u64),
    /// Processes whose slots were given back.
    over: u64,
    /// The last look's words on processes that have a slot.
    seen: HashMap<u32, ProcessEnd>,
    recent: VecDeque<Begun>,
    /// What the children that ended before a process have read and written, by its PID.
    io_of_children: HashMap<u32, CounterValues>,
    /// The processes of the slots at the last look.
    pub living: Vec<Process>,
    /// Processes alive that have no slot.
    pub strangers: Vec<ProcessEnd>,
    /// Those of them that have ended.
    pub strangers_ended: u64,
    /// Those of these that somebody else has counted in.
    strangers_counted: u64,
    /// Where the library was not in, and why.
    pub blind: BTreeMap<String, &'static str>,
    /// The same of those that lived when it was asked last. The library may just be waking up there, so
    /// that this is not remembered.
    pub blind_now: BTreeMap<String, &'static str>,
    /// All flags that any process had.
    pub flags: u32,
    /// Processes that ended without a last word though the library was in them.
    pub cut_short: u64,
    /// The greatest resident size of any process that has ended.
    pub rss_peak_bytes: u64,
    /// The bound on what all held at one moment.
    pub peak: PeakBound,
}

impl Tally {
    /// Finds who those are that do not know their PIDs. Before the look is taken in.
    pub fn find_hidden(&mut self, shared: &Shared, poll: &Poll, remaining: &[ProcessEnd]) {
        let mut hidden = std::mem::take(&mut self.hidden);
        let rows = remaining.iter().chain(&poll.ended).filter(|row| !self.is_over(row));
        let made_ns = |row: &ProcessEnd| (row.started_ns + self.fork_ns).saturating_sub(EARLIER_NS);
        hidden.look(shared, rows, made_ns);
        self.hidden = hidden;
    }

    /// Takes in one look; those of the slots that have ended, whose slots are then to be given back. `alive` are the PIDs that were alive, `began_ns` is when the look began
    /// and `now_ns` when it ended, on the clock of the slots.
    pub fn look(
        &mut self,
        shared: &Shared,
        poll: &Poll,
        alive: &BTreeSet<u32>,
        remaining: Vec<ProcessEnd>,
        began_ns: u64,
        now_ns: u64,
    ) -> Vec<(usize, ProcessEnd)> {
        let slots: Vec<(usize, Process)> = (0..process::used(shared))
            .filter_map(|index| Some((index, Process::read(shared, index)?.found(&self.hidden))))
            .collect();
        let of_slots = begun(slots.iter().map(|(_, process)| process));
        for end in &poll.ended {
            self.take_seen(end, &of_slots);
        }
        for end in &remaining {
            if self.is_in(end, &of_slots) {
                self.seen.insert(end.pid, end.clone());
            }
        }
        self.strangers =
            remaining.into_iter().filter(|end| !self.is_known(end, &of_slots)).collect();
        let (mut over, mut living): (Vec<_>, Vec<_>) =
            slots.into_iter().partition(|(_, process)| has_ended(process, alive, began_ns));
        wait_for_children(&mut over, &mut living, alive);
        // They may have reported for the last time since, and now cannot any more.
        for (index, process) in &mut over {
            let closed = Process::close(shared, *index).map(|p| p.found(&self.hidden));
            *process = closed.unwrap_or_else(|| process.clone());
        }
        self.over += over.len() as u64;
        // Children before the parents that waited for them.
        over.sort_by_key(|(_, process)| end_of(process, now_ns));
        // Until when each was there, as far as is known.
        let lived = living.iter().map(|(_, process)| (process.pid, u64::MAX));
        let parents: BTreeMap<u32, u64> =
            over.iter().map(|(_, p)| (p.pid, end_of(p, now_ns))).chain(lived).collect();
        let mut ended = Vec::with_capacity(over.len());
        for (index, process) in &over {
            self.flags |= process.flags;
            ended.push((*index, self.take(process, &parents, now_ns)));
        }
        let gone = begun(over.iter().map(|(_, process)| process));
        self.living = living.into_iter().map(|(_, process)| process).collect();
        self.flags |= self.living.iter().fold(0, |flags, process| flags | process.flags);
        remember(&mut self.recent, gone, alive);
        if self.statuses.len() > 4096 {
            self.statuses.clear();
        }
        ended
    }

    /// What the looks saw of a process that has ended: kept for its slot, or all there is.
    fn take_seen(&mut self, end: &ProcessEnd, of_slots: &Begun) {
        if self.is_in(end, of_slots) {
            self.seen.insert(end.pid, end.clone());
        } else if !self.is_known(end, of_slots) {
            self.strangers_ended += 1;
            self.strangers_counted += u64::from(self.elsewhere.counts_in(end.pid));
            self.rss_peak_bytes = self.rss_peak_bytes.max(end.rss_peak_bytes);
            self.peak.add(ProcessPeak {
                from_ns: end.started_ns + self.fork_ns,
                to_ns: end.ended_ns.unwrap_or_default() + self.epoch_ns,
                bytes: end.rss_peak_bytes,
            });
            self.events.push_back(Event::ProcessEnd(Box::new(end.clone())));
        }
    }

    fn is_known(&self, end: &ProcessEnd, of_slots: &Begun) -> bool {
        self.is_in(end, of_slots) || self.is_over(end)
    }

    /// Whether a row is of a process whose slot was given back.
    fn is_over(&self, end: &ProcessEnd) -> bool {
        self.recent.iter().any(|begun| self.is_in(end, begun))
    }

    /// Whether a row is of a process that a slot says began then. A slot with that PID that is older
    /// is of another process.
    fn is_in(&self, end: &ProcessEnd, begun: &Begun) -> bool {
        let times = begun.get(&end.pid).into_iter().flatten();
        times.into_iter().any(|from| from + EARLIER_NS >= end.started_ns + self.fork_ns)
    }

    /// A process is no more: its row, and its part in the sums.
    fn take(&mut self, process: &Process, parents: &BTreeMap<u32, u64>, now_ns: u64) -> ProcessEnd {
        let mut process = process.clone();
        process.wait_status = process.wait_status.or(self.statuses.get(&process.pid).copied());
        self.statuses.remove(&process.pid);
        self.part_io(&mut process, parents);
        let seen = self.seen.remove(&process.pid);
        let ended_ns = end_of(&process, now_ns);
        let row =
            process.end(self.epoch_ns, Some(ended_ns - self.epoch_ns.min(ended_ns)), seen.as_ref());
        self.note_blind_spot(&process);
        let is_whole = process.said_its_last() && process.flags & FLAG_NO_MEMORY == 0;
        self.cut_short += u64::from(!is_whole && process.blind_spot().is_none());
        for counter in of_library() {
            self.ended.set(counter, self.ended.get(counter) + process.counters.get(counter));
        }
        self.own_reads.0 += process.own_reads.0;
        self.own_reads.1 += process.own_reads.1;
        self.rss_peak_bytes = self.rss_peak_bytes.max(row.rss_peak_bytes);
        let from_ns = holds_since(&process, parents.get(&process.parent_pid));
        if from_ns < ended_ns {
            self.peak.add(ProcessPeak { from_ns, to_ns: ended_ns, bytes: row.rss_peak_bytes });
        }
        let told = process::last_program(&row, &process, seen.as_ref());
        self.events.push_back(Event::ProcessEnd(Box::new(told)));
        row
    }

    /// Takes from a process what the children it waited for had done, where it could only tell both
    /// together; and remembers what is its own and theirs for its parent.
    fn part_io(&mut self, process: &mut Process, parents: &BTreeMap<u32, u64>) {
        let of_children = self.io_of_children.remove(&process.pid).unwrap_or_default();
        let is_sum = process.flags & FLAG_IO_OF_CHILDREN != 0;
        let mut of_parent = parents
            .contains_key(&process.parent_pid)
            .then(|| self.io_of_children.entry(process.parent_pid).or_default());
        for &counter in IO_COUNTERS {
            let (told, theirs) = (process.counters.get(counter), of_children.get(counter));
            if is_sum {
                process.counters.set(counter, told.saturating_sub(theirs));
            }
            if let Some(of_parent) = &mut of_parent {
                let all = process.counters.get(counter) + theirs;
                of_parent.set(counter, of_parent.get(counter) + all);
            }
        }
    }

    fn note_blind_spot(&mut self, process: &Process) {
        if !self.elsewhere.counts_in(process.pid) {
            note_in(&mut self.blind, process);
        }
    }

    /// Whether a process with these flags has executed a program that the library was not in, and nobody else counts
    /// in it.
    pub fn is_blind_in(&self, pid: u32, flags: u32) -> bool {
        process::why_blind(flags).is_some() && !self.elsewhere.counts_in(pid)
    }

    /// How many processes have no slot, and nobody else counts in them.
    pub fn unseen_strangers(&self) -> u64 {
        let is_unseen = |process: &&ProcessEnd| !self.elsewhere.counts_in(process.pid);
        let living = self.strangers.iter().filter(is_unseen).count() as u64;
        self.strangers_ended - self.strangers_counted + living
    }

    /// Notes what living processes are blind spots.
    pub fn note_living_blind_spots(&mut self) {
        self.blind_now.clear();
        for process in self.living.iter().filter(|p| !self.elsewhere.counts_in(p.pid)) {
            note_in(&mut self.blind_now, process);
        }
    }

    /// All blind spots that are known now.
    pub fn blind_spots(&self) -> BTreeMap<&str, &'static str> {
        let all = self.blind_now.iter().chain(&self.blind);
        all.map(|(program, why)| (program.as_str(), *why)).collect()
    }

    /// The counters that only the library fills, of all processes.
    pub fn of_library(&self) -> CounterValues {
        let mut sum = self.ended.clone();
        for process in &self.living {
            for counter in of_library() {
                sum.set(counter, sum.get(counter) + process.counters.get(counter));
            }
        }
        sum
    }

    /// Bytes and calls that the library itself has read, which the kernel counts as the job's.
    pub fn own_reads(&self) -> (u64, u64) {
        self.living.iter().fold(self.own_reads, |(bytes, calls), process| {
            (bytes + process.own_reads.0, calls + process.own_reads.1)
        })
    }

    /// The rows of those that are there still.
    pub fn remaining(&self) -> Vec<ProcessEnd> {
        let rows = self.living.iter().map(|p| p.end(self.epoch_ns, None, self.seen.get(&p.pid)));
        rows.chain(self.strangers.iter().cloned()).collect()
    }

    /// The greatest sum there can have been.
    pub fn upper_bound(&self) -> u64 {
        let held = |end: ProcessEnd| ProcessPeak {
            from_ns: end.started_ns + self.epoch_ns,
            to_ns: 0,
            bytes: end.rss_peak_bytes,
        };
        let living: BTreeSet<u32> = self.living.iter().map(|process| process.pid).collect();
        let is_guest = |p: &&Process| p.is_guest() && living.contains(&p.parent_pid);
        let guests: BTreeSet<u32> = self.living.iter().filter(is_guest).map(|p| p.pid).collect();
        let mut rows = self.remaining();
        rows.retain(|row| !guests.contains(&row.pid));
        let alive: Vec<ProcessPeak> = rows.into_iter().map(held).collect();
        self.peak.bytes(&alive)
    }

    /// All processes that ever had a slot.
    pub fn with_slots(&self) -> u64 {
        self.over + self.living.len() as u64
    }

    /// Whether the kernel counts all children with those that waited for them.
    pub fn all_are_waited_for(&self) -> bool {
        self.flags & FLAG_IGNORES_CHILDREN == 0
    }

    /// Whether no process was ever known to have a second thread.
    pub fn has_no_threads(&self) -> bool {
        self.flags & FLAG_THREADS == 0
    }

    /// What was used that moves bytes unseen.
    pub fn unseen_io(&self) -> Vec<&'static str> {
        let kinds = [
            (FLAG_URING, "io_uring"),
            (FLAG_AIO, "native AIO"),
            (FLAG_SOCKET_STREAM, "streams on sockets"),
            (FLAG_BY_NUMBER, BY_NUMBER),
        ];
        kinds.iter().filter(|(flag, _)| self.flags & flag != 0).map(|(_, name)| *name).collect()
    }
}

fn begun<'a>(processes: impl Iterator<Item = &'a Process>) -> Begun {
    let mut begun = Begun::new();
    for process in processes {
        begun.entry(process.pid).or_default().push(process.started_ns);
    }
    begun
}

/// Takes in those whose slots are given back, and forgets those of some looks ago that are not alive.
fn remember(recent: &mut VecDeque<Begun>, mut gone: Begun, alive: &BTreeSet<u32>) {
    if recent.len() == REMEMBERED_LOOKS
        && let Some(oldest) = recent.pop_front()
    {
        for (pid, times) in oldest.into_iter().filter(|(pid, _)| alive.contains(pid)) {
            gone.entry(pid).or_default().extend(times);
        }
    }
    recent.push_back(gone);
}

/// The counters that the kernel does not keep by itself.
fn of_library() -> impl Iterator<Item = Counter> {
    Counter::ALL.iter().copied().filter(|c| c.task_field().is_none())
}

/// Whether the process of a slot is no more. One that has reported its end may still be writing out what
/// is in its buffers; one that was not among the living may have been hidden from the look.
fn has_ended(process: &Process, alive: &BTreeSet<u32>, look_began_ns: u64) -> bool {
    if alive.contains(&process.pid) {
        return false;
    }
    // A process that began meanwhile may not have been listed, and has not ended though it looks so.
    if process.started_ns >= look_began_ns {
        return false;
    }
    if process.has_told_end() {
        return true;
    }
    // It will be found, or it was gone before anybody saw it.
    if is_hidden(process.pid) {
        return alive.is_empty() || process.started_ns + UNFOUND_NS < look_began_ns;
    }
    let stat = procfs::read_of(process.pid, "stat").ok().and_then(|t| procfs::parse_stat(&t));
    stat.is_none_or(|stat| matches!(stat.state, 'Z' | 'X') && stat.threads <= 1)
}

/// A process with a child that has ended, but may not be closed before the next look, waits with it: what it has
/// reported may be the child's, too.
fn wait_for_children<Slot>(
    over: &mut Vec<(Slot, Process)>,
    living: &mut Vec<(Slot, Process)>,
    alive: &BTreeSet<u32>,
) {
    loop {
        let late = living.iter().filter(|(_, p)| p.has_told_end() && !alive.contains(&p.pid));
        let parents: BTreeSet<u32> = late.map(|(_, process)| process.parent_pid).collect();
        let (waiting, rest): (Vec<_>, Vec<_>) =
            std::mem::take(over).into_iter().partition(|(_, p)| parents.contains(&p.pid));
        *over = rest;
        if waiting.is_empty() {
            return;
        }
        living.extend(waiting);
    }
}

/// When a process that is no more ended.
fn end_of(process: &Process, now_ns: u64) -> u64 {
    if process.ended_ns > 0 { process.ended_ns } else { now_ns }
}

/// Since when a process held the memory that it is told to have held. What is its parent's, whose end that is, counts as
/// the parent's as long as that is there.
fn holds_since(process: &Process, parent_ended_ns: Option<&u64>) -> u64 {
    match parent_ended_ns {
        Some(ended_ns) if process.is_guest() => process.started_ns.max(*ended_ns),
        _ => process.started_ns,
    }
}

fn note_in(blind: &mut BTreeMap<String, &'static str>, process: &Process) {
    if let Some(why) = process.blind_spot()
        && blind.len() < NAMED_PROGRAMS
    {
        blind.entry(process.blind_name()).or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{FLAG_EXECED, FLAG_GUEST, STATE_ENDED};
    use super::*;

    fn told_its_end(pid: u32, started_ns: u64) -> Process {
        Process {
            slot: 1,
            state: STATE_ENDED,
            flags: 0,
            pid,
            parent_pid: 1,
            uid: 0,
            started_ns,
            ended_ns: started_ns + 1,
            wait_status: None,
            name: String::new(),
            program: String::new(),
            command: Vec::new(),
            rss_peak_bytes: 0,
            virtual_peak_bytes: 0,
            swap_peak_bytes: 0,
            own_peaks: (0, 0),
            own_reads: (0, 0),
            counters: CounterValues::default(),
        }
    }

    #[test]
    fn who_began_while_others_were_listed_is_waited_for() {
        let (listed, look_began_ns) = (BTreeSet::from([7]), 1_000);
        assert!(has_ended(&told_its_end(8, 999), &listed, look_began_ns));
        assert!(!has_ended(&told_its_end(7, 999), &listed, look_began_ns));
        assert!(!has_ended(&told_its_end(8, 1_000), &listed, look_began_ns));
    }

    #[test]
    fn who_waited_for_such_a_child_waits_for_the_next_look_too() {
        let of = |pid, parent_pid| ((), Process { parent_pid, ..told_its_end(pid, 1) });
        let pids = |processes: &[((), Process)]| processes.iter().map(|(_, p)| p.pid).collect();
        let split = |alive: &[u32]| -> (Vec<u32>, Vec<u32>) {
            let mut over = vec![of(6, 1), of(7, 6), of(9, 1)];
            let mut living = vec![of(8, 7)];
            wait_for_children(&mut over, &mut living, &alive.iter().copied().collect());
            (pids(&over), pids(&living))
        };
        assert_eq!(split(&[]), (vec![9], vec![8, 7, 6]));
        // Nobody has waited yet for one that is there still.
        assert_eq!(split(&[8]), (vec![6, 7, 9], vec![8]));
    }

    #[test]
    fn a_guest_holds_nothing_beside_its_parent() {
        let guest = Process { flags: FLAG_GUEST, ..told_its_end(8, 100) };
        assert_eq!(holds_since(&guest, Some(&u64::MAX)), u64::MAX);
        assert_eq!(holds_since(&guest, Some(&150)), 150);
        assert_eq!(holds_since(&guest, None), 100, "it holds what its parent has left");
        let executed = Process { flags: FLAG_GUEST | FLAG_EXECED, ..guest };
        assert_eq!(holds_since(&executed, Some(&u64::MAX)), 100);
    }

    #[test]
    fn who_takes_long_to_end_is_remembered() {
        let alive = |pids: &[u32]| pids.iter().copied().collect();
        let mut recent = VecDeque::new();
        remember(&mut recent, Begun::from([(7, vec![100]), (8, vec![100])]), &alive(&[7, 8]));
        for _ in 0..10 * REMEMBERED_LOOKS {
            remember(&mut recent, Begun::from([(9, vec![200])]), &alive(&[7]));
            assert!(recent.len() <= REMEMBERED_LOOKS);
        }
        let remembered = |pid| recent.iter().filter_map(|begun| begun.get(&pid)).flatten().count();
        assert_eq!((remembered(7), remembered(8)), (1, 0));
        // A PID that is another's by now: those that had it before do not pile up.
        assert_eq!(remembered(9), REMEMBERED_LOOKS);
    }
}
