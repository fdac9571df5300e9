//! A mount for as long as a job runs that is recorded: `weigh run --io --io-mount`.

use std::path::PathBuf;
use std::sync::Arc;

use weigh_mount::{MountError, Mounted};

use super::settings::MountMechanism;
use super::source::MountSource;
use super::spec::{MountSpec, OwnFolder};
use super::unmount::Unmount;
use crate::products::io::gatherer::Gatherer;

/// What a job has mounted.
pub struct JobMount {
    /// What is known of it.
    pub gatherer: Gatherer,
    /// How it ends.
    pub end: MountEnd,
}

impl JobMount {
    /// Mounts it. The command has to be there by then: what is started later would inherit it.
    pub fn new(spec: MountSpec) -> anyhow::Result<JobMount> {
        let at = spec.mountpoint().to_owned();
        let (mounted, source, own) = spec.mount(MountMechanism::Auto)?;
        let MountSource { io, call_name } = source;
        let end =
            MountEnd { mounted, at, unmount: Unmount::default(), is_stopped: false, _own: own };
        Ok(JobMount { gatherer: Gatherer::new(io, call_name), end })
    }
}

/// A mount that ends with its job.
pub struct MountEnd {
    mounted: Arc<Mounted>,
    at: PathBuf,
    unmount: Unmount,
    /// Whether nothing is counted any more.
    is_stopped: bool,
    /// The folder that was made for it, if one was.
    _own: Option<OwnFolder>,
}

impl MountEnd {
    /// The job has ended, and the mount is taken away: whether nobody else has files of it open. `stop` ends the
    /// counting, if nobody has by then.
    pub fn is_done(&mut self, stop: impl FnOnce()) -> Result<bool, MountError> {
        if !self.unmount.may_begin(&self.mounted) {
            return Ok(false);
        }
        if !self.is_stopped && !self.mounted.is_in_use() {
            stop();
            self.is_stopped = true;
        }
        self.mounted.detach()?;
        Ok(self.unmount.is_done(&self.mounted, &self.at, || ()))
    }
}
