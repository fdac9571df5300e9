//! Programs onto places in programs and libraries (uprobes).
//!
//! Emits links; while one is held the kernel has a breakpoint at the place, in each process that has the
//! file in its memory. Nothing is left of it anywhere when the link is let go of: the kernel waits until nobody
//! can be in its midst, some 0.1 s, for links of its newer kind (6.6) at once, for perf events one after the other.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::OnceLock;

use libbpf_rs::libbpf_sys as sys;

use super::attach::{Link, Point, UserPlace, load_as};
use crate::join::descriptor;
use crate::perf::{self, Event, Of};

/// What the kernel calls such events, and where in their configuration it is told of returns and numbers
/// to raise: `config:0`, `config:32-63`.
const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";
const RETURNS: &str = "/sys/bus/event_source/devices/uprobe/format/retprobe";
const SEMAPHORE: &str = "/sys/bus/event_source/devices/uprobe/format/ref_ctr_offset";

fn number(path: &str) -> io::Result<u64> {
    let text = std::fs::read_to_string(path)?;
    let text = text.trim().trim_start_matches("config:");
    let digits = text.split('-').next().unwrap_or_default();
    digits.parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// What programs are loaded for.
pub(super) fn attach_type() -> u32 {
    if has_links() { sys::BPF_TRACE_UPROBE_MULTI } else { 0 }
}

/// Whether the kernel has links of its newer kind: it says of a path that is no file that this is one.
fn has_links() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let point = Point::User(UserPlace::default());
        // r0 = 0; exit
        let program = load_as(&point, sys::BPF_TRACE_UPROBE_MULTI, &[0x00b7, 0x95], &mut []);
        let tried = program.and_then(|program| {
            link(program.as_fd(), &UserPlace { path: "/".into(), ..UserPlace::default() })
        });
        tried.is_err_and(|error| error.raw_os_error() == Some(libc::EBADF))
    })
}

/// Attaches a program, in every process.
pub(super) fn attach(program: BorrowedFd<'_>, place: &UserPlace) -> io::Result<Link> {
    if has_links() { link(program, place) } else { event(program, place) }
}

fn link(program: BorrowedFd<'_>, place: &UserPlace) -> io::Result<Link> {
    let path = CString::new(place.path.as_os_str().as_bytes())?;
    let semaphore = &raw const place.semaphore;
    let mut options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
        ..Default::default()
    };
    options.__bindgen_anon_1.uprobe_multi = sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_3 {
        flags: if place.returns { sys::BPF_F_UPROBE_MULTI_RETURN } else { 0 },
        cnt: 1,
        path: path.as_ptr(),
        offsets: &raw const place.offset,
        ref_ctr_offsets: if place.semaphore == 0 { std::ptr::null() } else { semaphore },
        ..Default::default()
    };
    // SAFETY: the program is open; the path and the one offset of each kind that the options name outlive the
    // call.
    descriptor(unsafe {
        sys::bpf_link_create(program.as_raw_fd(), 0, sys::BPF_TRACE_UPROBE_MULTI, &options)
    })
}

/// The same by a perf event, on kernels that have no such links.
fn event(program: BorrowedFd<'_>, place: &UserPlace) -> io::Result<Link> {
    // It has to live as long as the kernel may read it.
    let path = CString::new(place.path.as_os_str().as_bytes())?;
    let mut config = u64::from(place.returns) << number(RETURNS)?;
    if place.semaphore != 0 {
        // The kernel takes 32 bits of it.
        let semaphore = u32::try_from(place.semaphore).map_err(|_| io::ErrorKind::InvalidInput)?;
        config |= u64::from(semaphore) << number(SEMAPHORE)?;
    }
    let event =
        Event { kind: number(KIND)? as u32, config, more: [path.as_ptr() as u64, place.offset] };
    link_event(program, event)
}

/// Attaches a program to an event of every process: which CPU is named does not matter. It is on from the beginning.
pub(super) fn link_event(program: BorrowedFd<'_>, event: Event) -> io::Result<Link> {
    let event = perf::open(event, Of::Cpu(0), 0, 0, None)?;
    // SAFETY: program and event are open; there are no options. The link holds the event.
    descriptor(unsafe {
        sys::bpf_link_create(
            program.as_raw_fd(),
            event.as_raw_fd(),
            sys::BPF_PERF_EVENT,
            std::ptr::null(),
        )
    })
}
