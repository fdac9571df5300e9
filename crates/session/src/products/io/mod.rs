//! Reads and writes, by file: of a command, a process or a file system, and of a folder that is served elsewhere.

mod gatherer;
mod measurement;
pub mod mechanism;
pub mod mount;
mod settings;
mod sinks;

pub use gatherer::{Gatherer, LOOK};
pub use measurement::{IoOutcome, measure};
pub use settings::{IoMechanism, IoSettings};
pub use sinks::{IoSinks, IoView};
