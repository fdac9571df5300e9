//! One process as it was last seen.

use weigh_schema::event::ProcessEnd;
use weigh_schema::{Counter, CounterValues};

use super::Identity;
use crate::procfs::{self, IO_COUNTERS, Io, ProcError, Stat, Status};

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
    /// Pages of its own that it may have in common with whoever forked it: all that it had when it
    /// was first seen.
    inherited_at_most: Option<u64>,
    virtual_bytes: u64,
    rss_peak_bytes: u64,
    virtual_peak_bytes: u64,
    swap_peak_bytes: u64,
    status: Status,
    /// Whether its row has been handed out.
    pub is_end_reported: bool,
}

/// Reads and parses `/proc/PID/stat`.
pub fn read_stat(pid: u32) -> Result<Stat, ProcError> {
    let text = procfs::read_of(pid, "stat")?;
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

impl Process {
    /// Takes in what can be seen of it now; false if it has just vanished.
    pub fn look(&mut self, stat: &Stat, ticks_per_second: u64) -> bool {
        let pid = stat.pid;
        self.parent_pid = stat.parent_pid;
        self.state = Some(stat.state);
        self.threads = stat.threads;
        self.exit_code = stat.exit_code;
        self.name.clone_from(&stat.name);
        self.count(stat, ticks_per_second);
        if !self.is_alive() {
            // A zombie has no memory, and keeps the rest until it is waited for.
            (self.rss_bytes, self.virtual_bytes) = (0, 0);
            (self.status.swap_bytes, self.status.anonymous_bytes) = (None, None);
        } else if let Ok(text) = procfs::read_of(pid, "status") {
            let status = procfs::parse_status(&text);
            let page = rustix::param::page_size() as u64;
            self.rss_bytes = status.rss_bytes.unwrap_or(stat.rss_pages * page);
            self.virtual_bytes = stat.virtual_bytes;
            self.status = status;
            self.inherited_at_most = self.inherited_at_most.or(self.status.anonymous_bytes);
        }
        self.rss_peak_bytes = self
            .rss_peak_bytes
            .max(self.rss_bytes)
            .max(self.status.rss_peak_bytes.unwrap_or_default());
        self.virtual_peak_bytes = self
            .virtual_peak_bytes
            .max(self.virtual_bytes)
            .max(self.status.virtual_peak_bytes.unwrap_or_default());
        self.swap_peak_bytes = self.swap_peak_bytes.max(self.swap_bytes());
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
            rss_peak_bytes: self.rss_peak_bytes,
            virtual_peak_bytes: self.virtual_peak_bytes,
            swap_peak_bytes: self.swap_peak_bytes,
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

    /// What it holds that may be others' too: files and shared memory.
    pub fn common_bytes(&self) -> u64 {
        self.status.anonymous_bytes.map_or(0, |own| self.rss_bytes.saturating_sub(own))
    }

    /// Its greatest resident size.
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
