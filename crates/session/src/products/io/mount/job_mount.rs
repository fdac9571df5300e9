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
        let end = MountEnd { mounted, at, unmount: Unmount::default(), _own: own };
        Ok(JobMount { gatherer: Gatherer::new(io, call_name), end })
    }
}

/// A mount that ends with its job.
pub struct MountEnd {
    mounted: Arc<Mounted>,
    at: PathBuf,
    unmount: Unmount,
    /// The folder that was made for it, if one was.
    _own: Option<OwnFolder>,
}

impl MountEnd {
    /// The job has ended, and the mount is taken away: whether nobody else has files of it open.
    pub fn is_done(&mut self) -> Result<bool, MountError> {
        self.mounted.detach()?;
        Ok(self.unmount.is_done(&self.mounted, &self.at, || ()))
    }
}
