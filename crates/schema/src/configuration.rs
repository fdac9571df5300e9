//! A configuration of parts of the kernel: which of the built-in ones are left out, and those that
//! users define by the functions at their borders.
//!
//! Reads the text of the file (TOML; docs/subsystems.md has the format); emits what is asked for,
//! not yet looked up in any kernel. Refuses what is not of the form, with file, line, key, what was
//! expected and what there is.

mod capture;
mod reading;
mod refusal;
mod spec;

pub use capture::{Capture, MOST_STEPS, RETURN, Step};
pub use reading::{ALWAYS, parse, parse_bytes};
pub use refusal::{At, ConfigurationError, Problem};
pub use spec::{Boundary, Configuration, Function, LaterRule, OwnSubsystem, Sum};
