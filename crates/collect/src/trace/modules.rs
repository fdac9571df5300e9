//! The types of the kernel's modules, as the kernel itself holds them: programs are bound to these.
//!
//! Emits descriptors. Refuses modules that are not there, or tell no types.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use libbpf_rs::libbpf_sys as sys;

use crate::join::descriptor;

/// The longest name of a module, with its end.
const NAME_BYTES: usize = 64;

/// The types of a module: the kernel can only be asked for all there are, one after the other.
pub(super) fn types_of(module: &str) -> io::Result<OwnedFd> {
    let mut id = 0;
    loop {
        // SAFETY: a number goes in and the next one comes out, into a place that outlives the call.
        let failed = unsafe { sys::bpf_btf_get_next_id(id, &raw mut id) };
        match -failed {
            0 => {}
            libc::ENOENT => {
                return Err(io::Error::other(format!("no module '{module}' tells types")));
            }
            libc::EPERM => {
                let why = "to find the types of a module needs CAP_SYS_ADMIN";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        // SAFETY: the kernel is asked for a descriptor by a number.
        let Ok(types) = descriptor(unsafe { sys::bpf_btf_get_fd_by_id(id) }) else { continue };
        if is_of(&types, module) {
            return Ok(types);
        }
    }
}

/// Whether the types are a module's, and this one's.
fn is_of(types: &OwnedFd, module: &str) -> bool {
    let mut name = [0u8; NAME_BYTES];
    let mut info = sys::bpf_btf_info {
        name: name.as_mut_ptr() as u64,
        name_len: NAME_BYTES as u32,
        ..Default::default()
    };
    let mut length = size_of::<sys::bpf_btf_info>() as u32;
    // SAFETY: the types are open; the structure is so long, names a place of its own for the name alone, and both
    // outlive the call.
    let failed = unsafe {
        let info = std::ptr::from_mut(&mut info).cast();
        sys::bpf_obj_get_info_by_fd(types.as_raw_fd(), info, &raw mut length)
    };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    failed == 0 && info.kernel_btf != 0 && &name[..end] == module.as_bytes()
}
