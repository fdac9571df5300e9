//! How far a thread has come in a job, as BPF programs keep it in the storage of each thread. Programs of `weigh trace`
//! and user space look at it by these numbers; the programs' header is derived.

use std::fmt::Write as _;

/// A thread's stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// Not of the job.
    None,
    /// A member from its exec on.
    Armed,
    /// Of the job.
    Member,
    /// A kernel thread that does a process's io_uring work.
    Worker,
}

impl Stage {
    const ALL: [Stage; 4] = [Stage::None, Stage::Armed, Stage::Member, Stage::Worker];

    /// The number that the kernel side keeps.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// `stages.h`, for the BPF programs.
pub fn c_header() -> String {
    let mut header =
        String::from("/* Derived from crates/schema/src/membership.rs. */\nenum stage {\n");
    for stage in Stage::ALL {
        let name = format!("{stage:?}").to_uppercase();
        let _ = writeln!(header, "\tSTAGE_{name} = {},", stage.number());
    }
    header.push_str("};\n");
    header
}
