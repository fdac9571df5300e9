//! Tries whether functions of the kernel can be probed, with a program of two instructions.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use libbpf_rs::libbpf_sys as sys;

/// `r0 = 0; exit`
const RETURN_ZERO: [u64; 2] = [0xb7, 0x95];

/// Loads and attaches at the entry of the function with this BTF id, and detaches again.
pub(crate) fn attach(function: u32) -> io::Result<()> {
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as sys::size_t,
        expected_attach_type: sys::BPF_TRACE_FENTRY,
        attach_btf_id: function,
        ..Default::default()
    };
    // SAFETY: the instructions and options are valid for the call; a descriptor that is returned
    // is new and owned here alone.
    let program = unsafe {
        descriptor(sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_TRACING,
            c"canary".as_ptr(),
            c"GPL".as_ptr(),
            RETURN_ZERO.as_ptr().cast(),
            RETURN_ZERO.len() as sys::size_t,
            &mut options,
        ))?
    };
    use std::os::fd::AsRawFd as _;
    // SAFETY: as above; no tracepoint name is wanted for a program of this kind.
    unsafe {
        descriptor(sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()))?;
    }
    Ok(())
}

/// # Safety
/// A number that is not negative must be a descriptor that nobody else owns.
unsafe fn descriptor(returned: i32) -> io::Result<OwnedFd> {
    if returned < 0 {
        return Err(io::Error::from_raw_os_error(-returned));
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { OwnedFd::from_raw_fd(returned) })
}
