//! What a job of a user without privileges reads and writes, followed in the kernel: the user's weigh asks, over a
//! stream, and another process with the agent's privileges, one for each job, hands on what the kernel side reports.
//!
//! The user gets no descriptor of a kernel table: with one it could read the rows of others, and write them.
//! What it may not know is never reported by the kernel side (`bpf/owner.h`).

mod remote;
mod serve;
mod snapshot_cache;

pub use remote::RemoteIo;
pub(crate) use serve::serve;
