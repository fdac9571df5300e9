//! Links of loaded programs to the kernel, by descriptors alone: any thread may make one or let go of it, while
//! libbpf's objects stay with the thread that has loaded them.
//!
//! Emits links, each of which ends when it is dropped. Refuses what the kernel refuses.

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use libbpf_rs::ProgramMut;
use libbpf_rs::libbpf_sys as sys;

use crate::join;

/// `PERF_EVENT_IOC_ENABLE`
const ENABLE: libc::c_ulong = 0x2400;

/// A loaded program. Its object is there for longer: [`super::KernelCalls`] lets go of it last. A descriptor of its own
/// for each of the programs would be past many a limit of open files.
pub(super) struct Program {
    descriptor: RawFd,
    /// What it is attached to: `enum bpf_attach_type`.
    target: u32,
}

/// A program that is attached.
#[must_use = "it ends when it is dropped"]
pub(super) struct Link {
    _link: OwnedFd,
    /// Of a probe of one function.
    _event: Option<OwnedFd>,
}

type Options = sys::bpf_link_create_opts;

fn options() -> Options {
    Options { sz: size_of::<Options>() as sys::size_t, ..Options::default() }
}

impl Program {
    /// None if it was not loaded.
    pub(super) fn of(program: &ProgramMut<'_>) -> Option<Program> {
        let is_loaded = program.autoload();
        is_loaded.then(|| Program {
            descriptor: program.as_fd().as_raw_fd(),
            target: program.attach_type() as u32,
        })
    }

    /// Attaches it to what it was written for.
    pub(super) fn attach(&self) -> io::Result<Link> {
        Ok(Link { _link: self.link(0, self.target, &options())?, _event: None })
    }

    /// Attaches it to a probe, and has it run from now on; it is told the cookie each time.
    pub(super) fn attach_to(&self, event: OwnedFd, cookie: u64) -> io::Result<Link> {
        let mut options = options();
        options.__bindgen_anon_1.perf_event.bpf_cookie = cookie;
        let link = self.link(event.as_raw_fd(), sys::BPF_PERF_EVENT, &options)?;
        // SAFETY: the event is open, and this request has no argument.
        if unsafe { libc::ioctl(event.as_raw_fd(), ENABLE as _, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Link { _link: link, _event: Some(event) })
    }

    /// Attaches it to many functions at once, at their entries or returns; each has a cookie.
    pub(super) fn attach_to_all(
        &self,
        functions: &[(CString, u64)],
        at_return: bool,
    ) -> io::Result<Link> {
        let mut names: Vec<*const c_char> =
            functions.iter().map(|(name, _)| name.as_ptr()).collect();
        let cookies: Vec<u64> = functions.iter().map(|(_, cookie)| *cookie).collect();
        let mut options = options();
        options.__bindgen_anon_1.kprobe_multi =
            sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_2 {
                flags: if at_return { sys::BPF_F_KPROBE_MULTI_RETURN } else { 0 },
                cnt: functions.len() as u32,
                syms: names.as_mut_ptr(),
                cookies: cookies.as_ptr(),
                ..Default::default()
            };
        Ok(Link { _link: self.link(0, sys::BPF_TRACE_KPROBE_MULTI, &options)?, _event: None })
    }

    fn link(&self, to: i32, target: u32, options: &Options) -> io::Result<OwnedFd> {
        let program = self.descriptor;
        // SAFETY: the program is loaded, and its object is there; the options, and what they point to, outlive the call.
        join::descriptor(unsafe { sys::bpf_link_create(program, to, target, options) })
    }
}
