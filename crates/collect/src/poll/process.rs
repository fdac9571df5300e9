//! One process as it was last seen.

use weigh_schema::event::{MemoryParts, ProcessEnd};
use weigh_schema::{Counter, CounterValues};

use super::certain::CertainSums;
use super::identity::Identity;
use crate::procfs::{self, IO_COUNTERS, Io, ProcError, Stat, Status};
use crate::spaces;

/// Counters that everybody may read.
pub const STAT_COUNTERS: &[Counter] = &[
    Counter::Runtime,
    Counter::UserTicks,
    Counter::SystemTicks,
    Counter::MinorFaults,
    Counter::MajorFaults,
];

/// One process as it was last seen.
#[derive(Debug, Default)]
pub struct Process {
    /// Its own and those of the children it has waited for.
    tree: CounterValues,
    /// Its own CPU time and faults.
    own: CounterValues,
    /// I/O of children it has waited for, as far as they were seen.
    waited_for: CounterValues,
    is_io_hidden: bool,
    parent_pid: u32,
    name: String,
    command: Vec<String>,
    state: Option<char>,
    exit_code: Option<i32>,
    threads: u64,
    rss_bytes: u64,
    /// Pages of its own that it may have in common with its parent: all that it had when it
    /// was first seen.
    inherited_at_most: Option<u64>,
    virtual_bytes: u64,
    /// The greatest that it was ever seen to hold, in whatever program.
    rss_peak_bytes: u64,
    /// What the address space held at most that it owned when it was last seen.
    owned: Owned,
    status: Status,
    /// The thread by which its memory can be looked at.
    tid: u32,
    /// Where its program was put when it was last executed, if that can be seen.
    image: Option<[u64; 2]>,
    /// The first process that uses its address space, if that is another.
    space_of: Option<Identity>,
    /// Whether its row has been handed out.
    pub is_end_reported: bool,
}

/// The greatest sizes of an address space, in bytes; 0 if they were not seen.
#[derive(Clone, Copy, Debug, Default)]
struct Owned {
    rss: u64,
    size: u64,
    swap: u64,
}

/// Reads and parses `/proc/PID/stat`.
pub fn read_stat(pid: u32) -> Result<Stat, ProcError> {
    let text = procfs::read_stat_text(pid)?;
    let path = format!("/proc/{pid}/stat").into();
    procfs::parse_stat(&text).ok_or(ProcError::Parse { path, what: "process" })
}

/// Whether a process is still there, and not on its way out.
fn has_memory(pid: u32) -> bool {
    read_stat(pid).is_ok_and(|stat| stat.virtual_bytes > 0)
}

/// Clock ticks as nanoseconds.
pub fn nanoseconds(ticks: u64, per_second: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / per_second.max(1))
}

/// The thread by which the memory of a process can be looked at: the first one, unless it has ended before others.
pub fn thread_with_memory(stat: &Stat) -> u32 {
    match stat.state {
        'Z' | 'X' if stat.threads > 1 => spaces::thread_with_memory(stat.pid),
        _ => stat.pid,
    }
}

impl Process {
    /// Takes in what can be seen of it now; false if it has just vanished. `tid` is a thread with memory, and
    /// `space_of` the process whose address space it uses, if it is not its own.
    pub fn look(
        &mut self,
        stat: &Stat,
        ticks_per_second: u64,
        tid: u32,
        space_of: Option<Identity>,
    ) -> bool {
        let pid = stat.pid;
        (self.tid, self.space_of) = (tid, space_of);
        self.image = match tid == pid {
            true => stat.image,
            false => read_stat(tid).ok().and_then(|stat| stat.image),
        };
        self.parent_pid = stat.parent_pid;
        self.state = Some(stat.state);
        self.threads = stat.threads;
        self.exit_code = stat.exit_code;
        self.name.clone_from(&stat.name);
        self.count(stat, ticks_per_second);
        self.look_at_memory();
        match procfs::read_of(pid, "io").map(|text| procfs::parse_io(&text)) {
            Ok(Some(io)) => self.take_io(&io),
            Err(error) if error.is_gone() => return false,
            // Some kernels let no ordinary user read a zombie's, or that of one who has become one since it was
            // looked at, or is about to: what was seen last stays.
            Ok(None) | Err(_) => self.is_io_hidden |= self.is_alive() && has_memory(pid),
        }
        // An exec need not change the name. A zombie's arguments are gone: the last ones stay.
        if let Ok(text) = procfs::read_of(pid, "cmdline")
            && !text.is_empty()
        {
            self.command = procfs::parse_cmdline(&text);
        }
        true
    }

    fn look_at_memory(&mut self) {
        let status = match self.is_alive() {
            true => procfs::read_of(self.tid, "status").ok().map(|t| procfs::parse_status(&t)),
            false => None,
        };
        if let Some(status) = status.filter(|status| status.rss_bytes.is_some()) {
            self.take_memory(status);
            return;
        }
        // A zombie has no memory, and keeps the rest until it is waited for. What is not there is not nothing: the
        // last that was seen of its peaks stands.
        (self.rss_bytes, self.virtual_bytes) = (0, 0);
        (self.status.swap_bytes, self.status.anonymous_bytes) = (None, None);
        (self.status.shared_bytes, self.status.hugetlb_bytes) = (None, None);
    }

    fn take_memory(&mut self, status: Status) {
        self.rss_bytes = status.rss_bytes.unwrap_or_default();
        self.virtual_bytes = status.virtual_bytes.unwrap_or_default();
        self.status = status;
        self.inherited_at_most = self.inherited_at_most.or(self.status.anonymous_bytes);
        if self.space_of.is_some() {
            self.owned = Owned::default();
            return;
        }
        let rss = self.rss_bytes.max(self.status.rss_peak_bytes.unwrap_or_default());
        let size = self.virtual_bytes.max(self.status.virtual_peak_bytes.unwrap_or_default());
        // A mark that is lower than before is another address space's: the process has executed a program. That of the
        // resident size may be a little lower, for the kernel keeps it by approximate counters.
        let is_new = size < self.owned.size || rss + rss / 16 + (1 << 18) < self.owned.rss;
        let before = if is_new { Owned::default() } else { self.owned };
        self.owned = Owned {
            rss: rss.max(before.rss),
            size: size.max(before.size),
            swap: self.swap_bytes().max(before.swap),
        };
        self.rss_peak_bytes = self.rss_peak_bytes.max(rss);
    }

    fn count(&mut self, stat: &Stat, per_second: u64) {
        let ns = |ticks: u64| nanoseconds(ticks, per_second);
        let own = [
            (
                Counter::Runtime,
                ns(stat.user_ticks.saturating_add(stat.system_ticks)),
                ns(stat.child_user_ticks.saturating_add(stat.child_system_ticks)),
            ),
            (Counter::UserTicks, ns(stat.user_ticks), ns(stat.child_user_ticks)),
            (Counter::SystemTicks, ns(stat.system_ticks), ns(stat.child_system_ticks)),
            (Counter::MinorFaults, stat.minor_faults, stat.child_minor_faults),
            (Counter::MajorFaults, stat.major_faults, stat.child_major_faults),
        ];
        for (counter, own, children) in own {
            self.own.set(counter, own);
            self.tree.set(counter, own.saturating_add(children));
        }
    }

    /// The kernel adds the I/O of children that were waited for: what is read is the tree's.
    fn take_io(&mut self, io: &Io) {
        for (counter, value) in procfs::io_values(io) {
            self.tree.set(counter, value);
        }
    }

    /// Remembers the I/O of a child that has vanished.
    pub fn note_waited_for(&mut self, child: &Process) {
        for &counter in IO_COUNTERS {
            let sum = self.waited_for.get(counter) + child.tree.get(counter);
            self.waited_for.set(counter, sum);
        }
    }

    /// Adds what it and the children it has waited for have done.
    pub fn add_tree_to(&self, sum: &mut CounterValues) {
        for &counter in STAT_COUNTERS.iter().chain(IO_COUNTERS) {
            sum.set(counter, sum.get(counter) + self.tree.get(counter));
        }
    }

    /// Its row, now that it has ended.
    pub fn end(&self, id: Identity, started_ns: u64, ended_ns: u64) -> ProcessEnd {
        let mut counters = self.own.clone();
        for &counter in IO_COUNTERS {
            let own = self.tree.get(counter).saturating_sub(self.waited_for.get(counter));
            counters.set(counter, own);
        }
        ProcessEnd {
            pid: id.pid,
            parent_pid: self.parent_pid,
            started_ns,
            ended_ns: Some(ended_ns),
            wait_status: (!self.is_alive())
                .then_some(self.exit_code)
                .flatten()
                .map(|code| code as u32),
            uid: self.status.uid.unwrap_or(u32::MAX),
            name: self.name.clone(),
            command: self.command.clone(),
            counters,
            is_io_lost: self.is_io_hidden,
            rss_peak_bytes: self.owned.rss,
            virtual_peak_bytes: self.owned.size,
            swap_peak_bytes: self.owned.swap,
        }
    }

    /// Whether it still runs: a zombie does not, unless only its first thread has ended.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, Some('Z' | 'X')) || self.threads > 1
    }

    /// Whether the kernel adds the counts of its ended children to its own.
    pub fn waits_for_children(&self) -> bool {
        !self.status.ignores_child_ends
    }

    /// Whether its I/O may not be read.
    pub fn is_io_hidden(&self) -> bool {
        self.is_io_hidden
    }

    /// Its parent when it was last seen.
    pub fn parent_pid(&self) -> u32 {
        self.parent_pid
    }

    /// Its threads.
    pub fn threads(&self) -> u64 {
        self.threads
    }

    /// Its resident size.
    pub fn rss_bytes(&self) -> u64 {
        self.rss_bytes
    }

    /// What it holds that is certainly nobody else's; the command, which nobody of the job forked,
    /// has all of its own.
    pub fn own_bytes(&self, is_command: bool) -> u64 {
        let inherited = if is_command { Some(0) } else { self.inherited_at_most };
        let anonymous = self.status.anonymous_bytes.unwrap_or_default();
        anonymous.saturating_sub(inherited.unwrap_or(anonymous))
    }

    /// Of what pages its resident size is made; `own` is what is certainly nobody else's.
    pub fn parts(&self, own: u64) -> MemoryParts {
        let anonymous = self.status.anonymous_bytes.unwrap_or_default().min(self.rss_bytes);
        let mapped = self.rss_bytes - anonymous;
        let shared = self.status.shared_bytes.unwrap_or_default().min(mapped);
        MemoryParts { anonymous, unshared: own, shared, file: mapped - shared }
    }

    /// What it holds for certain, even if others use its memory; nothing if it has none any more.
    pub fn certain(&self, is_command: bool) -> CertainSums {
        if self.rss_bytes == 0 {
            return CertainSums::default();
        }
        CertainSums {
            unshared: self.own_bytes(is_command),
            rss: self.rss_bytes,
            swap: self.swap_bytes(),
            virtual_size: self.virtual_bytes,
            hugetlb: self.hugetlb_bytes(),
        }
    }

    /// What it holds in huge pages of hugetlbfs.
    pub fn hugetlb_bytes(&self) -> u64 {
        self.status.hugetlb_bytes.unwrap_or_default()
    }

    /// The process whose address space it uses.
    pub fn space(&self, own: Identity) -> Identity {
        self.space_of.unwrap_or(own)
    }

    /// Where its program was put when it was last executed, if that can be seen.
    pub fn image(&self) -> Option<[u64; 2]> {
        self.image
    }

    /// The greatest resident size that it was ever seen to have of its own.
    pub fn rss_peak_bytes(&self) -> u64 {
        self.rss_peak_bytes
    }

    /// Its swapped-out size.
    pub fn swap_bytes(&self) -> u64 {
        self.status.swap_bytes.unwrap_or_default()
    }

    /// The size of its address space.
    pub fn virtual_bytes(&self) -> u64 {
        self.virtual_bytes
    }
}
