//! What a mechanism that follows a job offers: capabilities, each a trait of its own.
//!
//! Every mechanism emits readings and events ([`JobReader`]), attaches ([`Attachment`]) and knows its
//! members ([`Members`]). What else it may offer is asked for by [`JobMechanism`]: what is not offered is `None`, or the
//! reason why not. A mechanism that does not know a value says so by a note; it never leaves a counter at 0 without
//! one.

mod attachment;
mod children;
mod enforcement;
mod error;
mod file_mechanism;
mod job_reader;
mod members;

use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::FileKey;
use weigh_schema::source_traits::SourceTraits;

pub use attachment::{Attachment, CommandSetup, RunningAttachment, RunningOffer};
pub use children::{Children, next_child};
pub(crate) use enforcement::process_limit;
pub use enforcement::{Enforcement, MemoryBound};
pub use error::MechanismError;
pub use file_mechanism::{FileCounts, FileEvents, FileMechanism, FileState, PageWrites};
pub use job_reader::JobReader;
pub use members::{Members, ZombieReader, read_until_settled, signal_members};

/// What the kernel's own sums of I/O leave out, wherever nothing else counts it.
pub(crate) const NOT_IN_IO: &str = "without what the kernel does not count as reading and writing: send and recv on \
     sockets, io_uring, splice, tee, vmsplice and AIO";

/// What a mechanism is for that sees each process.
pub const PROCESSES: CollectorInfo = CollectorInfo::new(
    "processes",
    "each process and thread: CPU, memory and its peaks, I/O by calls, faults, switches",
    None,
)
.asks(SourceTraits::of_bpf("job", "a program in the kernel at each fork, exec and exit of the machine, and where memory of the job changes"));

/// How much of a job is followed, besides its processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobDetail {
    /// Calls and files too (level 3); else the rest is left out whatever it says.
    pub calls: bool,
    /// Sockets: bytes, connections, retransmissions.
    pub network: bool,
    /// Opened files, where function probes work.
    pub files: bool,
    /// Which threads had a CPU while others waited for it: each switch between threads of the machine pays for that.
    pub cpu_waits: bool,
    /// That a process which runs already can join the job.
    pub joins: bool,
}

/// How long threads of a job waited for a CPU, by who had that CPU meanwhile, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuWaits {
    /// Threads of the job.
    pub own_ns: u64,
    /// Other threads.
    pub others_ns: u64,
    /// Nobody: a quota was used up, or the CPU was on its way to the thread.
    pub nobody_ns: u64,
    /// The thread that had it was missed.
    pub unknown_ns: u64,
}

/// How often files are opened.
pub trait OpenCounts {
    /// How often a process has opened a file so far; after this it is forgotten.
    fn take_opens(&mut self, key: &FileKey) -> Option<u64>;
}

/// A mechanism that follows a job, and what else it offers.
pub trait JobMechanism: JobReader + Attachment + Members {
    /// Holds the job to limits by itself.
    fn enforcement(&mut self) -> Option<&mut dyn Enforcement>;

    /// Takes a closer look at memory into account where a limit is checked.
    fn memory_bound(&mut self) -> Option<&mut dyn MemoryBound> {
        None
    }

    /// Waits for weigh's children, or has to hear of those that were waited for.
    fn children(&mut self) -> Option<&mut dyn Children> {
        None
    }

    /// Reads the command once more when it has ended and nobody has waited for it.
    fn zombie_reader(&mut self) -> Option<&mut dyn ZombieReader> {
        None
    }

    /// Counts by file, too.
    fn file_counts(&mut self) -> Option<&mut dyn FileCounts> {
        None
    }

    /// Counts every open of a file; else why not.
    fn open_counts(&mut self) -> Result<&mut dyn OpenCounts, String>;

    /// Which threads had the CPUs that others waited for; else why that is not known.
    fn cpu_waits(&self) -> Result<CpuWaits, String> {
        Err("it needs root and BPF".to_string())
    }

    /// Stops following.
    fn close(self: Box<Self>) {}
}
