//! A folder that a command, and all that it starts, sees covered by another one: in a mount namespace of its own.
//!
//! Nobody else's mounts change. Where weigh may not make a mount namespace the command gets a user namespace besides, in
//! which it is who it was, and nobody else has a name: what it runs gains no rights there.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What is put over what.
pub struct MountOver {
    /// Where the files are served, in weigh's own namespace.
    at: CString,
    /// The folder that is covered.
    over: CString,
    /// The working directory, if it is below: it has to be entered anew.
    folder: Option<CString>,
    /// Maps of users and groups, for a user namespace.
    maps: Option<[CString; 2]>,
}

impl MountOver {
    /// Covers `over` by what is mounted at `at`; both are absolute.
    pub fn new(at: &Path, over: &Path, in_user_namespace: bool) -> io::Result<MountOver> {
        let text = |path: &Path| Ok::<_, io::Error>(CString::new(path.as_os_str().as_bytes())?);
        let folder = std::env::current_dir().ok().filter(|folder| folder.starts_with(over));
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        let map = |id: u32| CString::new(format!("{id} {id} 1\n")).map_err(io::Error::from);
        let maps = [map(uid.as_raw())?, map(gid.as_raw())?];
        Ok(MountOver {
            at: text(at)?,
            over: text(over)?,
            folder: folder.as_deref().map(text).transpose()?,
            maps: in_user_namespace.then_some(maps),
        })
    }

    /// Covers it for this process, which has been forked and has one thread.
    pub(crate) fn put_in_force(&self) -> io::Result<()> {
        let user = if self.maps.is_some() { libc::CLONE_NEWUSER } else { 0 };
        // SAFETY: it takes numbers alone.
        checked(unsafe { libc::unshare(libc::CLONE_NEWNS | user) })?;
        if let Some([users, groups]) = &self.maps {
            write_to(c"/proc/self/setgroups", c"deny")?;
            write_to(c"/proc/self/uid_map", users)?;
            write_to(c"/proc/self/gid_map", groups)?;
        }
        // What is mounted elsewhere later is seen here, and nothing of here there.
        mount(None, c"/", libc::MS_REC | libc::MS_SLAVE)?;
        mount(Some(&self.at), &self.over, libc::MS_BIND)?;
        match &self.folder {
            // SAFETY: the text ends with a NUL byte.
            Some(folder) => checked(unsafe { libc::chdir(folder.as_ptr()) }),
            None => Ok(()),
        }
    }
}

fn checked(returned: libc::c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn mount(source: Option<&CStr>, target: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let nothing = std::ptr::null();
    let source = source.map_or(nothing, CStr::as_ptr);
    // SAFETY: the texts end with NUL bytes; the others may be null.
    checked(unsafe { libc::mount(source, target.as_ptr(), nothing, flags, nothing.cast()) })
}

fn write_to(path: &CStr, text: &CStr) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags, open};
    let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.to_bytes())?;
    Ok(())
}
