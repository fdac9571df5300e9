//! What a job of a user without privileges has written to devices, followed in the kernel: the user's weigh asks, over a
//! stream, and another process with the agent's privileges, one for each job, answers with a sum.
//! What is kept of pages and requests stays with it.

mod remote;
mod serve;
mod wire;

pub use remote::RemoteWrites;
pub(crate) use serve::serve;
