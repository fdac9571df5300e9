//! One job: its process tree, its limits, and what it leaves.
//!
//! Reads the collectors, the signals sent to weigh, and the clock; emits what is recorded to a sink, and the summary in
//! the end. Refuses what it can before the command is started; from then on nothing that goes wrong in weigh ends the
//! command.

mod candidates;
mod collectors;
mod conventions;
mod cpu_wait;
mod enforce;
pub(crate) mod event_hook;
mod job_info;
pub mod limits_file;
mod mechanism;
mod offender;
mod oom;
mod open_files;
mod outcome;
mod overshoot;
mod page_scan;
mod prepared;
mod recorder;
mod regions;
mod settings;
mod snapshots;
mod source;
mod view;
pub mod watch_spec;

pub(crate) use collectors::infos as collector_infos;
pub use conventions::{Conventions, convention_findings};
pub use event_hook::{EventHook, be_helper, is_helper};
pub(crate) use mechanism::availability as mechanism_availability;
pub use outcome::{RunFailure, RunOutcome};
pub use prepared::{PreparedRun, RunPlan};
pub use settings::{Collector, RunIoMechanism, RunIoSettings, RunSettings, WaitFor};
pub use view::{RunState, RunView};
