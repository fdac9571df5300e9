//! A mount for as long as a job runs that is recorded: `weigh run --io --io-mount`.
//!
//! Reads what was asked for; emits what is done there, and the mount's end. Refuses folders that cannot be used
//! before the command is started.

use std::path::PathBuf;
use std::sync::Arc;

use weigh_collect::file_flags::control;
use weigh_mount::{Detail, MountError, Mounted, Place, Wish};

use super::leaving::Leaving;
use super::source::MountSource;
use crate::arguments::{IoBy, MountMechanism, RunArguments};
use crate::io::gather::Gather;

/// What is to be served, and where.
pub struct Wanted {
    place: Place,
    wish: Wish,
}

impl Wanted {
    /// Of the options; none if none is asked for.
    pub fn of(arguments: &RunArguments) -> Result<Option<Wanted>, MountError> {
        let [source, mountpoint] = &arguments.io_mount[..] else { return Ok(None) };
        let place = Mounted::check(source, mountpoint)?;
        let by_thread = arguments.io_by == IoBy::Thread;
        let detail = Detail { each_call: arguments.io_calls, by_thread };
        let (exact, may_pass) = (arguments.io_exact, !arguments.io_no_passthrough);
        Ok(Some(Wanted { place, wish: Wish { exact, may_pass, detail, control } }))
    }

    /// Mounts it. The command has to be there by then: what is started later would inherit it.
    pub fn mount(self) -> anyhow::Result<ForJob> {
        let at = self.place.mountpoint.clone();
        let mounted = Arc::new(Mounted::new(self.place, self.wish)?);
        let source = MountSource::open(&mounted, &at, self.wish.detail, MountMechanism::Auto);
        if source.is_err() {
            mounted.detach()?;
        }
        let MountSource { io, call_name } = source?;
        let end = MountEnd { mounted, at, leaving: Leaving::default() };
        Ok(ForJob { gather: Gather::new(io, call_name), end })
    }
}

/// What a job has mounted.
pub struct ForJob {
    /// What is told of it.
    pub gather: Gather,
    /// How it ends.
    pub end: MountEnd,
}

/// A mount that ends with its job.
pub struct MountEnd {
    mounted: Arc<Mounted>,
    at: PathBuf,
    leaving: Leaving,
}

impl MountEnd {
    /// The job has ended, and the mount is taken away: whether nobody else has files of it open.
    pub fn is_done(&mut self) -> Result<bool, MountError> {
        self.mounted.detach()?;
        Ok(self.leaving.is_done(&self.mounted, &self.at, || ()))
    }
}
