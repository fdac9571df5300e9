//! Whose events are wanted: a command's, or a process's, and of all that descends from it. See
//! `bpf/trace.bpf.c`.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Link, MapCore as _, MapFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::core_types;
use crate::features::Offers;
use crate::job::{JobError, bpf};
use crate::loading;

/// The generated skeleton.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/trace.skel.rs"));
}

/// As in `bpf/trace.bpf.c`.
const ARMED: u32 = 1;
const MEMBER: u32 = 2;

/// The threads that are followed.
pub(super) struct Members {
    skeleton: skeleton::TraceSkel<'static>,
    _links: Vec<Link>,
}

impl Members {
    /// Attaches what follows forks, execs and ends.
    pub(super) fn open() -> Result<Members, JobError> {
        let kernel = core_types::of_this_kernel();
        let offers = Offers::new(&kernel);
        let builder = skeleton::TraceSkelBuilder::default();
        let (_types, open) =
            loading::open(builder, &skeleton::DATA, &offers).map_err(bpf("open"))?;
        let skeleton = loading::load(open, &offers).map_err(bpf("load"))?;
        let programs = &skeleton.progs;
        let links = [&programs.on_fork, &programs.on_exec, &programs.on_exit]
            .into_iter()
            .map(|program| program.attach().map_err(bpf("attach")))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Members { skeleton, _links: links })
    }

    /// The storage that programs look into.
    pub(super) fn descriptor(&self) -> i32 {
        self.skeleton.maps.members.as_fd().as_raw_fd()
    }

    pub(super) fn arm(&self, pidfd: BorrowedFd<'_>) -> Result<(), JobError> {
        let key = pidfd.as_raw_fd().to_ne_bytes();
        let members = &self.skeleton.maps.members;
        members.update(&key, &ARMED.to_ne_bytes(), MapFlags::ANY).map_err(bpf("arming the command"))
    }

    pub(super) fn join(&self, pid: u32) -> Result<(), JobError> {
        let before = self.total();
        self.run_over(pid).map_err(|error| bpf("joining a process")(error.into()))?;
        if self.total() > before { Ok(()) } else { Err(crate::job::not_joined(pid)) }
    }

    /// Runs the iterator over the threads of one process.
    fn run_over(&self, pid: u32) -> io::Result<()> {
        let task = sys::bpf_iter_link_info__bindgen_ty_3 { tid: 0, pid, pid_fd: 0 };
        let mut which = sys::bpf_iter_link_info { task };
        let options = sys::bpf_link_create_opts {
            sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
            iter_info: &mut which,
            iter_info_len: size_of::<sys::bpf_iter_link_info>() as u32,
            ..Default::default()
        };
        let program = self.skeleton.progs.on_join.as_fd().as_raw_fd();
        // SAFETY: the program is loaded, and the options outlive the call.
        let link = unsafe { sys::bpf_link_create(program, 0, sys::BPF_TRACE_ITER, &options) };
        let link = descriptor(link)?;
        // SAFETY: the link is open.
        let iterator = descriptor(unsafe { sys::bpf_iter_create(link.as_raw_fd()) })?;
        // It runs while it is read, and has nothing to say.
        io::copy(&mut std::fs::File::from(iterator), &mut io::sink()).map(drop)
    }

    pub(super) fn has(&self, pid: u32) -> bool {
        let stage = || {
            let pidfd = pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?;
            let key = pidfd.as_raw_fd().to_ne_bytes();
            self.skeleton.maps.members.lookup(&key, MapFlags::ANY).ok()?
        };
        stage().is_some_and(|stage| stage == MEMBER.to_ne_bytes())
    }

    pub(super) fn living(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |counts| counts.living)
    }

    fn total(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |counts| counts.total)
    }

    pub(super) fn lost(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |counts| counts.lost)
    }
}

/// What a call of libbpf has made, or why it has not.
pub(super) fn descriptor(returned: i32) -> io::Result<OwnedFd> {
    if returned < 0 {
        return Err(io::Error::from_raw_os_error(-returned));
    }
    // SAFETY: libbpf has just made it for the caller alone.
    Ok(unsafe { OwnedFd::from_raw_fd(returned) })
}
