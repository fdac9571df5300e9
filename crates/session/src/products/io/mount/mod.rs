//! A folder that is served at another place, and what is done with its files there.

mod fuse;
mod job_mount;
mod measurement;
mod provenance;
mod settings;
mod source;
mod spec;
mod unmount;

pub use job_mount::{JobMount, MountEnd};
pub use measurement::{MountOutcome, measure};
pub use settings::{MountMechanism, MountSettings, OverSettings, ServedFolder};
pub use spec::MountSpec;
