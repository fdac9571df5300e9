//! Measuring without rights, exactly: the job is traced with ptrace(2).
//!
//! Each thread stops at births, execs and its own end; there the numbers that the kernel keeps of it
//! are read from `/proc` while it cannot change or vanish. If calls are wanted (level 3), it stops
//! at those too, at all of them or at those that a filter in the job picks out. Emits counters,
//! population, bounds of memory, a row for each process, and the files that were opened. Signals, job control, exit statuses
//! and the order of things are the job's own; if weigh is killed, the kernel detaches and the job
//! goes on.
//!
//! What it gives up: a process can have one tracer only, so programs that trace others (`strace`,
//! debuggers, leak checkers) are let go at their exec and looked at in `/proc` with all their
//! descendants (one that is linked statically is recognised by its own symbols; if it has none, by its
//! code, as far as that is looked through; else at level 3 by its call of ptrace(2), and at level 2 the
//! kernel refuses it that call); set-user-ID programs
//! do not get their rights, because Linux gives none under an ordinary user's tracer (a warning
//! says so); at level 2 what is in no file of `/proc` is unknown (network, opened files, …); peaks of several
//! processes together are bounded, not exact. Being stopped costs the job some microseconds for
//! each process and signal. While weigh itself is stopped, so is each thread that comes to such a point.
//! A filter of calls cannot be taken back: without its tracer they fail with ENOSYS, so it is put
//! into a job only if the user asks for it, and nobody under it is let go.
//! Refuses where ptrace(2) is forbidden, and says by whom.

mod birth;
mod call_limits;
mod calls;
mod capabilities;
mod files;
mod fork_limit;
mod io;
mod job;
mod library;
mod notes;
mod peak;
mod process;
mod program;
mod refusal;
mod rss_sampler;
mod sums;
mod sys;
mod traced_job;
mod tracer;
mod trial;
mod untraced;

pub(crate) use self::io::SharedCounts;
pub use calls::Stops;
pub use refusal::TraceError;
pub use traced_job::TracedJob;
