//! A mount for as long as a job runs that is recorded: `weigh run --io --io-mount`.
//!
//! Reads what was asked for; emits one who tells of what is done there. Refuses folders that can not be used
//! before the command is started.

use std::path::PathBuf;
use std::sync::Arc;

use weigh_collect::file_flags::control;
use weigh_collect::io::FollowIo;
use weigh_mount::{Detail, MountError, Mounted, Place, Wish};

use super::leaving::Leaving;
use super::told::MountIo;
use crate::arguments::{IoBy, RunArguments};

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
    pub fn mount(self) -> Result<ForJob, MountError> {
        let at = self.place.mountpoint.clone();
        let mounted = Arc::new(Mounted::new(self.place, self.wish)?);
        mounted.widen();
        let each_call = self.wish.detail.each_call;
        Ok(ForJob { mounted, each_call, at, leaving: Leaving::default() })
    }
}

/// What a job has mounted.
pub struct ForJob {
    mounted: Arc<Mounted>,
    each_call: bool,
    at: PathBuf,
    leaving: Leaving,
}

impl ForJob {
    /// Who tells of it.
    pub fn told(&self) -> Box<dyn FollowIo> {
        Box::new(MountIo { mounted: Arc::clone(&self.mounted), each_call: self.each_call })
    }

    /// The job has ended, and the mount is taken away: whether nobody else has files of it open.
    pub fn may_end(&mut self) -> Result<bool, MountError> {
        self.mounted.detach()?;
        Ok(self.leaving.is_done(&self.mounted, &self.at, || ()))
    }
}
