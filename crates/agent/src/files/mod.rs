//! What a job of a user without rights reads and writes, followed in the kernel: he asks, over a stream, and another
//! process with the agent's rights, one for each job, hands on what the kernel side tells.
//!
//! Nothing of the kernel's is given into his hands: whoever has a table can read what is in it for others, and
//! write it. What he is not to know the kernel side does not tell in the first place (`bpf/owner.h`).

mod kept;
mod remote;
mod serve;
mod wire;

pub use remote::RemoteIo;
pub(crate) use serve::serve;
