//! Has the kernel side take in the threads of one process, or one thread, or all: by an iterator over just
//! these tasks, for a thread that is not its process's first has no descriptor before 6.9.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::ProgramMut;
use libbpf_rs::libbpf_sys as sys;

/// Runs the program for each thread of a process.
pub(crate) fn process(program: &ProgramMut<'_>, pid: u32) -> io::Result<()> {
    let tasks = sys::bpf_iter_link_info__bindgen_ty_3 { tid: 0, pid, pid_fd: 0 };
    run(program, tasks).map(drop)
}

/// Runs the program for each thread of the machine.
pub(crate) fn all(program: &ProgramMut<'_>) -> io::Result<()> {
    process(program, 0)
}

/// The same, or a program that is not about threads; what it writes.
pub(crate) fn read_all(program: &ProgramMut<'_>) -> io::Result<Vec<u8>> {
    run(program, sys::bpf_iter_link_info__bindgen_ty_3 { tid: 0, pid: 0, pid_fd: 0 })
}

/// Runs the program for one thread.
pub(crate) fn thread(program: &ProgramMut<'_>, tid: u32) -> io::Result<()> {
    let tasks = sys::bpf_iter_link_info__bindgen_ty_3 { tid, pid: 0, pid_fd: 0 };
    run(program, tasks).map(drop)
}

fn run(
    program: &ProgramMut<'_>,
    task: sys::bpf_iter_link_info__bindgen_ty_3,
) -> io::Result<Vec<u8>> {
    let mut which = sys::bpf_iter_link_info { task };
    let options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
        iter_info: &mut which,
        iter_info_len: size_of::<sys::bpf_iter_link_info>() as u32,
        ..Default::default()
    };
    // SAFETY: the program is loaded, and the options outlive the call.
    let link = unsafe {
        sys::bpf_link_create(program.as_fd().as_raw_fd(), 0, sys::BPF_TRACE_ITER, &options)
    };
    let link = descriptor(link)?;
    // SAFETY: the link is open.
    let iterator = descriptor(unsafe { sys::bpf_iter_create(link.as_raw_fd()) })?;
    let mut iterator = std::fs::File::from(iterator);
    // It runs while it is read.
    let mut said = Vec::new();
    iterator.read_to_end(&mut said).map(|_| said)
}

/// What a call of libbpf has made, or why it has not.
pub(crate) fn descriptor(returned: i32) -> io::Result<OwnedFd> {
    if returned < 0 {
        return Err(io::Error::from_raw_os_error(-returned));
    }
    // SAFETY: libbpf has just made it for the caller alone.
    Ok(unsafe { OwnedFd::from_raw_fd(returned) })
}
