//! How a process or thread came to be.

/// How a process or thread came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// A thread.
    Thread,
    /// A process that uses its parent's memory, until its exec or for good.
    Sharing,
    /// A process with memory of its own; what it got from its parent: all, and the part that is
    /// neither a file's nor shared memory.
    Own(u64, u64),
}
