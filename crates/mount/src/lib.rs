//! `weigh io mount`: a file system that passes everything on to a folder, and counts what passes.
//!
//! Reads the kernel's requests from `/dev/fuse`; emits the folder's own answers, and [`Event`]s for the
//! accounting of `weigh io`. Refuses places that cannot be served, each with its reason.
//!
//! * [`Mounted`]: a mount, from its making to its end.
//! * `place`: what is refused before anything is mounted.
//! * `inodes`: a file that the kernel knows: by a descriptor, never by a path.
//! * `table`: all of them, and how many are held.
//! * `forgetting`: the kernel is asked to forget some.
//! * `caller`: files are made by whom they are made for.
//! * `serve`: the requests.
//! * `accounts`: what each process did with each file.
//!
//! Where the kernel can pass reads and writes through by itself they do not come here, and are not known
//! here: [`Mounted::sight`] says so.
//!
//! [`Event`]: weigh_schema::io::Event

#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod accounts;
mod caller;
mod error;
mod forgetting;
mod inodes;
mod mounted;
mod mountpoint;
mod serve;
mod table;

pub use accounts::{Detail, call_name};
pub use error::MountError;
pub use mounted::{Control, MountRequest, Mounted};
pub use mountpoint::{INFO, MountPaths, is_privileged};
pub use serve::Sight;
