//! Raw counters: the numbers that the kernel side keeps per process and per job.
//!
//! Declared here once. The BPF programs get their array slots and the kernel fields to read from
//! a header that `collect`'s build script derives from this table, so a slot cannot be mistaken
//! for another.

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($( $(#[doc = $doc:literal])+ $name:ident = $slot:literal $(from task $field:literal)? ; )+) => {
        /// A raw number the kernel side counts, for each process and for the whole job.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Counter { $( $(#[doc = $doc])+ $name, )+ }

        impl Counter {
            /// All counters, in the order of their slots.
            pub const ALL: &'static [Counter] = &[$( Counter::$name, )+];

            /// How many counters there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name of the slot in the BPF programs.
            pub const fn slot_name(self) -> &'static str {
                match self { $( Counter::$name => $slot, )+ }
            }

            /// The field of `struct task_struct` that holds it, if the kernel itself counts it.
            pub const fn task_field(self) -> Option<&'static str> {
                match self { $( Counter::$name => counters!(@field $($field)?), )+ }
            }
        }
    };
    (@field $field:literal) => { Some($field) };
    (@field) => { None };
}

counters! {
    /// Nanoseconds on a CPU, from the scheduler's own clock.
    Runtime = "RUNTIME" from task "se.sum_exec_runtime";
    /// Nanoseconds of ticks that found the thread in user mode.
    UserTicks = "USER_TICKS" from task "utime";
    /// Nanoseconds of ticks that found the thread in the kernel.
    SystemTicks = "SYSTEM_TICKS" from task "stime";
    /// Bytes returned by read-like calls that go through the VFS.
    ReadChars = "READ_CHARS" from task "ioac.rchar";
    /// Bytes accepted by write-like calls that go through the VFS.
    WriteChars = "WRITE_CHARS" from task "ioac.wchar";
    /// Read-like calls that go through the VFS.
    ReadCalls = "READ_CALLS" from task "ioac.syscr";
    /// Write-like calls that go through the VFS.
    WriteCalls = "WRITE_CALLS" from task "ioac.syscw";
    /// Bytes that had to be fetched from storage.
    StorageRead = "STORAGE_READ" from task "ioac.read_bytes";
    /// Bytes of pages made dirty, and of direct writes, that go to storage.
    StorageWritten = "STORAGE_WRITTEN" from task "ioac.write_bytes";
    /// Bytes of dirty pages that were thrown away before they reached storage.
    StorageCancelled = "STORAGE_CANCELLED" from task "ioac.cancelled_write_bytes";
    /// Times a thread gave up the CPU to wait.
    VoluntarySwitches = "VOLUNTARY_SWITCHES" from task "nvcsw";
    /// Times the scheduler took the CPU away.
    InvoluntarySwitches = "INVOLUNTARY_SWITCHES" from task "nivcsw";
    /// Page faults served without I/O.
    MinorFaults = "MINOR_FAULTS" from task "min_flt";
    /// Page faults that waited for I/O.
    MajorFaults = "MAJOR_FAULTS" from task "maj_flt";
    /// Nanoseconds runnable but waiting for a CPU.
    RunDelay = "RUN_DELAY" from task "sched_info.run_delay";
    /// Nanoseconds waiting for block I/O (delay accounting on).
    BlockDelay = "BLOCK_DELAY" from task "delays->blkio_delay";
    /// Nanoseconds in direct reclaim (delay accounting on).
    ReclaimDelay = "RECLAIM_DELAY" from task "delays->freepages_delay";
    /// Nanoseconds waiting for pages to be swapped in (delay accounting on).
    SwapinDelay = "SWAPIN_DELAY" from task "delays->swapin_delay";
    /// Bytes received by socket calls that the kernel's read accounting does not see.
    SocketReadChars = "SOCKET_READ_CHARS";
    /// Bytes sent by socket calls that the kernel's write accounting does not see.
    SocketWriteChars = "SOCKET_WRITE_CHARS";
    /// Messages received by such calls.
    SocketReadCalls = "SOCKET_READ_CALLS";
    /// Messages sent by such calls.
    SocketWriteCalls = "SOCKET_WRITE_CALLS";
    /// Bytes read by io_uring requests.
    UringReadChars = "URING_READ_CHARS";
    /// Bytes written by io_uring requests.
    UringWriteChars = "URING_WRITE_CHARS";
    /// io_uring requests that read.
    UringReadCalls = "URING_READ_CALLS";
    /// io_uring requests that wrote.
    UringWriteCalls = "URING_WRITE_CALLS";
    /// Bytes moved into the program or a pipe by splice(2), tee(2), vmsplice(2) and AIO.
    OtherReadChars = "OTHER_READ_CHARS";
    /// Bytes moved out by splice(2), tee(2), vmsplice(2) and AIO.
    OtherWriteChars = "OTHER_WRITE_CHARS";
    /// Calls of splice(2), tee(2), vmsplice(2) and AIO requests that read.
    OtherReadCalls = "OTHER_READ_CALLS";
    /// Calls of splice(2), tee(2), vmsplice(2) and AIO requests that wrote.
    OtherWriteCalls = "OTHER_WRITE_CALLS";
    /// Payload bytes sent through IPv4 and IPv6 sockets.
    NetSent = "NET_SENT";
    /// Payload bytes received through IPv4 and IPv6 sockets.
    NetReceived = "NET_RECEIVED";
    /// TCP connections opened or accepted.
    NetConnections = "NET_CONNECTIONS";
    /// TCP segments sent again.
    NetRetransmits = "NET_RETRANSMITS";
    /// Files opened, a program that is executed and its interpreter included.
    FilesOpened = "FILES_OPENED";
    /// Processes that the kernel has killed for want of memory.
    OomKills = "OOM_KILLS";
}

/// One value for each [`Counter`], in the order of [`Counter::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct CounterValues(pub [u64; Counter::COUNT]);

impl CounterValues {
    /// The value of one counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Sets the value of one counter.
    pub fn set(&mut self, counter: Counter, value: u64) {
        self.0[counter as usize] = value;
    }

    /// For each counter the greater of the two. Counters only grow; a reading taken while a
    /// thread moves from "alive" to "finished" may miss it for a moment.
    pub fn at_least(&self, earlier: &CounterValues) -> CounterValues {
        CounterValues(std::array::from_fn(|i| self.0[i].max(earlier.0[i])))
    }
}

impl Default for CounterValues {
    fn default() -> Self {
        CounterValues([0; Counter::COUNT])
    }
}

impl From<Vec<u64>> for CounterValues {
    /// Missing slots are 0, surplus ones are ignored: a journal of an older build stays readable.
    fn from(values: Vec<u64>) -> Self {
        CounterValues(std::array::from_fn(|i| values.get(i).copied().unwrap_or(0)))
    }
}

impl From<CounterValues> for Vec<u64> {
    fn from(values: CounterValues) -> Self {
        values.0.to_vec()
    }
}
