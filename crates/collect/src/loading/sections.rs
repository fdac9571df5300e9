//! The sections of objects whose programs weigh loads itself, or puts the kernel's functions into.

use std::ffi::{CStr, c_int, c_long};
use std::sync::Once;

use libbpf_rs::libbpf_sys as sys;

use super::LOADING;

/// How the programs of a section are loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionLoader {
    /// By weigh's threads.
    Own,
    /// By libbpf, with the kernel's functions put in.
    Libbpf,
}

const SECTIONS: [(&CStr, sys::bpf_attach_type, SectionLoader); 8] = [
    (c"tp_btf+", sys::BPF_TRACE_RAW_TP, SectionLoader::Own),
    (c"fentry+", sys::BPF_TRACE_FENTRY, SectionLoader::Own),
    (c"fexit+", sys::BPF_TRACE_FEXIT, SectionLoader::Own),
    (c"iter+", sys::BPF_TRACE_ITER, SectionLoader::Own),
    (c"kprobe", 0, SectionLoader::Libbpf),
    (c"kretprobe", 0, SectionLoader::Libbpf),
    (c"kprobe.multi", sys::BPF_TRACE_KPROBE_MULTI, SectionLoader::Libbpf),
    (c"kretprobe.multi", sys::BPF_TRACE_KPROBE_MULTI, SectionLoader::Libbpf),
];

static REGISTERED: Once = Once::new();

/// Tells libbpf of them, for all objects that are opened from now on.
pub(super) fn register() {
    REGISTERED.call_once(|| {
        for (number, (section, attach_type, way)) in SECTIONS.iter().enumerate() {
            // A program of a type that needs none of the kernel's types: libbpf loads nothing but a substitute.
            let program_type = match way {
                SectionLoader::Own => sys::BPF_PROG_TYPE_SOCKET_FILTER,
                SectionLoader::Libbpf => sys::BPF_PROG_TYPE_KPROBE,
            };
            let options = sys::libbpf_prog_handler_opts {
                sz: size_of::<sys::libbpf_prog_handler_opts>() as sys::size_t,
                cookie: number as c_long,
                prog_prepare_load_fn: Some(prepare),
                prog_attach_fn: (*way == SectionLoader::Own).then_some(attach),
                ..Default::default()
            };
            // SAFETY: `Once` lets one thread in, and no object is opened before; name and options are copied.
            unsafe {
                sys::libbpf_register_prog_handler(
                    section.as_ptr(),
                    program_type,
                    *attach_type,
                    &options,
                );
            }
        }
    });
}

/// Called by libbpf before it loads a program.
unsafe extern "C" fn prepare(
    program: *mut sys::bpf_program,
    options: *mut sys::bpf_prog_load_opts,
    number: c_long,
) -> c_int {
    LOADING.with_borrow_mut(|loading| {
        let Some(loading) = loading else { return -libc::EINVAL };
        let own =
            SECTIONS.get(number as usize).is_some_and(|(_, _, way)| *way == SectionLoader::Own);
        // SAFETY: libbpf hands both out for the program that it loads next.
        let prepared = unsafe {
            match own {
                true => loading.take_over(program, options),
                false => loading.only_put_in(program),
            }
        };
        prepared.map_or_else(|error| -error, |()| 0)
    })
}

/// Called by libbpf to attach a program.
unsafe extern "C" fn attach(
    program: *const sys::bpf_program,
    number: c_long,
    link: *mut *mut sys::bpf_link,
) -> c_int {
    let iterates = SECTIONS.get(number as usize).is_some_and(|s| s.1 == sys::BPF_TRACE_ITER);
    // SAFETY: the program is loaded, and `link` is where libbpf wants the link.
    unsafe {
        let attached = match iterates {
            true => sys::bpf_program__attach_iter(program, std::ptr::null()),
            false => sys::bpf_program__attach_trace(program),
        };
        *link = attached;
        match attached.is_null() {
            true => -std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL),
            false => 0,
        }
    }
}
