//! Reads and writes, by file: of a command, a process or a file system, and of a folder that is served elsewhere.

mod gatherer;
pub mod mechanism;
pub mod mount;
mod settings;

pub use gatherer::{Gatherer, LOOK, file_row};
pub use settings::{IoMechanism, IoSettings};
