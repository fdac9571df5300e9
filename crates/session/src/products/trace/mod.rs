//! A stream of events of the kernel.

mod live_names;

pub use live_names::live_meaning;
