//! How deep the library looks.

/// How much the library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It hears of processes (level 2).
    Processes,
    /// It hears of the calls that they make on files and sockets, too (level 3).
    Calls,
    /// It counts by file what they do, too (level 4, `weigh io`).
    Files,
}
