//! A mount that has been checked, and is not made yet.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};

use weigh_collect::file_flags::control;
use weigh_collect::io::RowScope;
use weigh_collect::mount_over::MountOver;
use weigh_collect::notice;
use weigh_mount::{Detail, MountPaths, MountRequest, Mounted, is_privileged};

use super::settings::{MountMechanism, OverSettings, ServedFolder};
use super::source::MountSource;

/// What is to be served, and where.
pub struct MountSpec {
    place: MountPaths,
    wish: MountRequest,
    /// Of a mount over the folder itself.
    over: Option<OverFolder>,
}

/// The folder that is covered, and where it is served meanwhile.
struct OverFolder {
    in_user_namespace: bool,
    own: OwnFolder,
}

/// An empty folder of weigh's own, for as long as this is kept.
pub(super) struct OwnFolder(PathBuf);

impl OwnFolder {
    /// Makes one that lies outside of a folder.
    fn outside(folder: &Path) -> anyhow::Result<OwnFolder> {
        let of_session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let places = of_session.into_iter().chain([PathBuf::from("/run"), std::env::temp_dir()]);
        let name = format!("weigh-mount-{}", std::process::id());
        let mut why = anyhow::anyhow!("every folder for temporary use lies below it");
        for place in places.filter(|place| place.is_absolute() && !place.starts_with(folder)) {
            let path = place.join(&name);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(OwnFolder(path)),
                Err(error) => why = anyhow::anyhow!("{}: {error}", path.display()),
            }
        }
        Err(why.context("--io-mount-over: no folder can be made to serve it at meanwhile"))
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // One that is still a mount stays.
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl OverFolder {
    fn prepare(folder: &ServedFolder, over: OverSettings) -> anyhow::Result<OverFolder> {
        let in_user_namespace = over.user_namespace && !is_privileged();
        if !in_user_namespace && !is_privileged() {
            bail!(
                "--io-mount-over: a mount namespace takes root (CAP_SYS_ADMIN), or --userns, which gives the job a user \
                 namespace of its own besides; --io-mount SOURCE MOUNTPOINT takes neither"
            );
        }
        let whole = folder.source.canonicalize();
        let whole =
            whole.with_context(|| format!("--io-mount-over {}", folder.source.display()))?;
        Ok(OverFolder { in_user_namespace, own: OwnFolder::outside(&whole)? })
    }
}

impl MountSpec {
    /// Refuses folders that cannot be used.
    pub fn check(folder: &ServedFolder) -> anyhow::Result<MountSpec> {
        let over = folder.over.map(|over| OverFolder::prepare(folder, over)).transpose()?;
        let mountpoint = over.as_ref().map_or(&folder.mountpoint, |over| &over.own.0);
        let place = Mounted::check(&folder.source, mountpoint)?;
        let by_thread = folder.apart == RowScope::Threads;
        let detail = Detail { each_call: folder.each_call, by_thread };
        let (exact, may_pass) = (folder.is_exact, folder.may_pass);
        Ok(MountSpec { place, wish: MountRequest { exact, may_pass, detail, control }, over })
    }

    /// What a command gets so that it sees the files over the folder itself.
    pub fn mount_over(&self) -> anyhow::Result<Option<MountOver>> {
        let Some(over) = &self.over else { return Ok(None) };
        let MountPaths { source, mountpoint } = &self.place;
        let made = MountOver::new(mountpoint, source, over.in_user_namespace);
        let made = made.with_context(|| format!("--io-mount-over {}", source.display()))?;
        let alone = "others go on to use the folder itself";
        match over.in_user_namespace {
            false => notice!(
                "the job sees {} served by weigh, in a mount namespace of its own: {alone}",
                source.display()
            ),
            true => notice!(
                "the job sees {} served by weigh, in a mount and a user namespace of its own: {alone}; it gains no \
                 rights there (sudo, set-user-ID programs), is in none of its other groups, and files of other users \
                 are nobody's",
                source.display()
            ),
        }
        Ok(Some(made))
    }

    pub(super) fn mountpoint(&self) -> &Path {
        &self.place.mountpoint
    }

    /// Mounts it, with what counts there.
    pub(super) fn mount(
        self,
        mechanism: MountMechanism,
    ) -> anyhow::Result<(Arc<Mounted>, MountSource, Option<OwnFolder>)> {
        let at = self.place.mountpoint.clone();
        let mounted = Arc::new(Mounted::new(self.place, self.wish)?);
        let source = MountSource::open(&mounted, &at, self.wish.detail, mechanism);
        if source.is_err() {
            mounted.detach()?;
        }
        Ok((mounted, source?, self.over.map(|over| over.own)))
    }
}
