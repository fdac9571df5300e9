//! A mount that has been checked, and is not made yet.

use std::path::Path;
use std::sync::Arc;

use weigh_collect::file_flags::control;
use weigh_collect::io::RowScope;
use weigh_mount::{Detail, MountError, MountPaths, MountRequest, Mounted};

use super::settings::{MountMechanism, ServedFolder};
use super::source::MountSource;

/// What is to be served, and where.
pub struct MountSpec {
    place: MountPaths,
    wish: MountRequest,
}

impl MountSpec {
    /// Refuses folders that cannot be used.
    pub fn check(folder: &ServedFolder) -> Result<MountSpec, MountError> {
        let place = Mounted::check(&folder.source, &folder.mountpoint)?;
        let by_thread = folder.apart == RowScope::Threads;
        let detail = Detail { each_call: folder.each_call, by_thread };
        let (exact, may_pass) = (folder.is_exact, folder.may_pass);
        Ok(MountSpec { place, wish: MountRequest { exact, may_pass, detail, control } })
    }

    pub(super) fn mountpoint(&self) -> &Path {
        &self.place.mountpoint
    }

    /// Mounts it, with what counts there.
    pub(super) fn mount(
        self,
        mechanism: MountMechanism,
    ) -> anyhow::Result<(Arc<Mounted>, MountSource)> {
        let at = self.place.mountpoint.clone();
        let mounted = Arc::new(Mounted::new(self.place, self.wish)?);
        let source = MountSource::open(&mounted, &at, self.wish.detail, mechanism);
        if source.is_err() {
            mounted.detach()?;
        }
        Ok((mounted, source?))
    }
}
