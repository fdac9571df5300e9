//! What a configuration has made of the parts of the kernel, as programs are told: a file in memory that
//! nobody can write.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use weigh_collect::calls::KernelCalls;
use weigh_schema::resolved_config::Configured;
use weigh_schema::subsystem::SUBSYSTEMS;

/// The built-in parts that a configuration leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// As a set.
    pub parts: u64,
    /// What leaves them out, for users who miss them.
    pub why: String,
}

/// Whether a configuration has changed anything.
pub fn is_any(calls: &KernelCalls, left_out: &LeftOut) -> bool {
    left_out.parts != 0 || calls.own().is_some_and(|own| !own.is_empty())
}

/// The file: one for all programs, as long as it says what is so. What each program kept would be the server's memory.
#[derive(Default)]
pub struct ConfiguredFile(Option<(Vec<u8>, OwnedFd)>);

impl ConfiguredFile {
    /// A descriptor for one program, by which nobody can write.
    pub fn open(&mut self, calls: &KernelCalls, left_out: &LeftOut) -> io::Result<OwnedFd> {
        let bytes = told(calls, left_out).bytes();
        let file = match self.0.take() {
            Some((before, file)) if before == bytes => file,
            _ => made(&bytes)?,
        };
        // With a place of its own in the file.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let opened = File::open(path);
        self.0 = Some((bytes, file));
        Ok(opened?.into())
    }
}

fn made(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("weigh_configured", flags)?;
    // Memory takes all of it, or there is none.
    if rustix::io::write(&file, bytes)? != bytes.len() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

fn told(calls: &KernelCalls, left_out: &LeftOut) -> Configured {
    let removed = (0..SUBSYSTEMS.len()).filter(|part| left_out.parts >> part & 1 == 1);
    let mut whys: Vec<(usize, String)> = removed.map(|part| (part, left_out.why.clone())).collect();
    let own = calls.own().cloned();
    for (part, number) in own.iter().flat_map(|own| own.iter()).zip(SUBSYSTEMS.len()..) {
        let state = calls.attached().iter().find(|state| state.subsystem == part.name);
        if let Some(state) = state.filter(|state| state.probes == 0) {
            whys.push((number, state.missing.join("; ")));
        }
    }
    Configured { removed: left_out.parts, whys, own }
}
