//! Following a job without rights by a library that is loaded into its programs (LD_PRELOAD).
//!
//! The library (`libweigh/preload`) writes into a file that it shares with weigh: which process
//! is started, executes and ends, how much memory it held, and on level 3 what it does with files
//! and sockets. Nothing is sent, so nothing is lost on the way, whichever process is killed. Emits a row for
//! each process; sums come from the kernel's own counts of all that weigh has waited for (CPU
//! time, faults, I/O). Where the library cannot be (static programs, set-user-ID programs, other
//! C libraries) looks at `/proc` stand in, and the notes name the programs and what is missing.

mod cleanup;
mod clock;
mod cross_check;
mod error;
mod files;
mod io_table;
mod job;
#[allow(dead_code)]
mod layout;
mod level;
mod notes;
mod old_libraries;
mod peak;
mod pid_namespace;
mod process;
mod process_table;
pub(crate) mod program;
mod shared_file;
mod sums;
#[allow(dead_code)]
mod uses_layout;

pub use cross_check::CheckedCounts;
pub use error::PreloadError;
pub(crate) use io_table::Witnessed;
pub(crate) use job::SharedJob;
pub use job::{INFO, PreloadedJob, why_blind_in};
pub(crate) use job::{is_kept_out_of, must_not_be_named};
pub use level::Level;
pub use shared_file::{Folder, LibraryEntry, SharedFile};
