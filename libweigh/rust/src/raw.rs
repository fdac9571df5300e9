//! The functions of `weigh.h`, as they are.

use std::ffi::{c_char, c_int, c_void};

use crate::{Account, Parts};

/// `weigh`, of which nobody outside knows what it holds.
#[repr(C)]
pub struct Handle([u8; 0]);

/// `weigh_peer`.
#[repr(C)]
pub struct PeerHandle([u8; 0]);

/// `weigh_trace`.
#[repr(C)]
pub struct TraceHandle([u8; 0]);

/// `weigh_reports`.
#[repr(C)]
pub struct ReportsHandle([u8; 0]);

/// `struct weigh_passed`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Passed {
    pub token: u64,
    pub number: usize,
    pub value: u64,
    pub reached: u64,
}

/// `struct weigh_trace_wake`.
#[repr(C)]
pub struct TraceWake {
    pub bytes: u64,
    pub count: u64,
    pub milliseconds: u64,
}

/// `struct weigh_trace_field`.
#[derive(Default)]
#[repr(C)]
pub struct TraceField {
    pub offset: u32,
    pub bytes: u32,
    pub kind: u32,
    pub absent: u32,
}

/// `struct weigh_trace_lost`.
#[derive(Default)]
#[repr(C)]
pub struct TraceLost {
    pub overrun: u64,
    pub missing: u64,
}

pub type Settled = extern "C" fn(u64, *const Account, *mut c_void);

/// `struct weigh_sent`.
#[repr(C)]
pub struct Sent {
    pub processes: u32,
    pub taken: u32,
    pub waiting: u32,
    pub ended: u32,
    pub refused: u32,
    pub why: [u8; 200],
}

/// `struct weigh_control`.
#[repr(C)]
pub struct Control {
    pub kind: u64,
    pub number: f64,
    pub key: [u8; 65],
    pub text: [u8; 169],
}

unsafe extern "C" {
    pub fn weigh_open() -> *mut Handle;
    pub fn weigh_close(w: *mut Handle);
    pub fn weigh_why(w: *const Handle) -> *const c_char;
    pub fn weigh_text(reason: u32) -> *const c_char;
    pub fn weigh_layout() -> u64;
    pub fn weigh_subsystems(w: *const Handle) -> u64;
    pub fn weigh_want(w: *mut Handle, parts: u64) -> u32;
    pub fn weigh_why_part(w: *const Handle, subsystem: u32) -> u32;
    pub fn weigh_why_text(
        w: *const Handle,
        subsystem: u32,
        text: *mut c_char,
        room: usize,
    ) -> usize;
    pub fn weigh_part(w: *const Handle, name: *const c_char) -> c_int;
    pub fn weigh_part_name(w: *const Handle, part: u32) -> *const c_char;
    pub fn weigh_own(w: *const Handle, part: c_int, name: *const c_char) -> c_int;
    pub fn weigh_begin(w: *mut Handle, token: u64, wanted: u64) -> u32;
    pub fn weigh_end(w: *mut Handle) -> u32;
    pub fn weigh_next_n(w: *mut Handle, token: u64, wanted: u64, calls: u32) -> u32;
    pub fn weigh_follows(w: *const Handle) -> c_int;
    pub fn weigh_read(w: *mut Handle, token: u64) -> *const Account;
    pub fn weigh_read_parts(w: *mut Handle, token: u64) -> *const Parts;
    pub fn weigh_release(w: *mut Handle, token: u64) -> u32;
    pub fn weigh_refused(w: *const Handle) -> u64;
    pub fn weigh_settled(w: *mut Handle, token: u64) -> c_int;
    pub fn weigh_watch(w: *mut Handle, token: u64) -> u32;
    pub fn weigh_descriptor(w: *mut Handle) -> c_int;
    pub fn weigh_dispatch(w: *mut Handle, settled: Settled, data: *mut c_void) -> c_int;
    pub fn weigh_limit(w: *mut Handle, token: u64, number: usize, value: u64) -> u32;
    pub fn weigh_unlimit(w: *mut Handle, token: u64, number: usize);
    pub fn weigh_passed(w: *mut Handle, passed: *mut Passed, room: c_int) -> c_int;
    pub fn weigh_peer_open(w: *mut Handle, pid: c_int, reason: *mut u32) -> *mut PeerHandle;
    pub fn weigh_peer_read(peer: *const PeerHandle, token: u64) -> *const Account;
    pub fn weigh_peer_next(peer: *const PeerHandle, position: *mut u32) -> *const Account;
    pub fn weigh_peer_close(peer: *mut PeerHandle);
    pub fn weigh_trace_open_buffer(
        pid: c_int,
        buffer: *const c_char,
        wake: *const TraceWake,
        reason: *mut u32,
    ) -> *mut TraceHandle;
    pub fn weigh_trace_open_buffer_at(
        path: *const c_char,
        buffer: *const c_char,
        wake: *const TraceWake,
        reason: *mut u32,
    ) -> *mut TraceHandle;
    pub fn weigh_trace_next(t: *mut TraceHandle, timeout_ms: c_int) -> *const c_void;
    pub fn weigh_trace_copy(t: *mut TraceHandle, to: *mut c_void, room: usize) -> usize;
    pub fn weigh_trace_why(t: *const TraceHandle) -> u32;
    pub fn weigh_trace_fd(t: *const TraceHandle) -> c_int;
    pub fn weigh_trace_lost(t: *mut TraceHandle, event: u32, lost: *mut TraceLost);
    pub fn weigh_trace_field(
        t: *const TraceHandle,
        event: u32,
        name: *const c_char,
        field: *mut TraceField,
    ) -> u32;
    pub fn weigh_trace_name(
        t: *const TraceHandle,
        event: u32,
        name: *mut c_char,
        room: usize,
    ) -> usize;
    pub fn weigh_trace_description(t: *const TraceHandle) -> *const c_char;
    pub fn weigh_trace_control(
        t: *mut TraceHandle,
        request: *const c_char,
        answer: *mut c_char,
        room: usize,
    ) -> u32;
    pub fn weigh_trace_close(t: *mut TraceHandle);
    pub fn weigh_reports_open(pid: c_int, every_ms: u64, reason: *mut u32) -> *mut ReportsHandle;
    pub fn weigh_reports_open_at(
        path: *const c_char,
        every_ms: u64,
        reason: *mut u32,
    ) -> *mut ReportsHandle;
    pub fn weigh_reports_next(r: *mut ReportsHandle, timeout_ms: c_int) -> *const c_char;
    pub fn weigh_reports_fd(r: *const ReportsHandle) -> c_int;
    pub fn weigh_reports_why(r: *const ReportsHandle) -> u32;
    pub fn weigh_reports_close(r: *mut ReportsHandle);
    pub static weigh_regions_active: std::sync::atomic::AtomicI32;
    pub fn weigh_regions_why() -> *const c_char;
    pub fn weigh_region_name_of(text: *const c_char, length: usize) -> u32;
    pub fn weigh_region_begin(name: u32);
    pub fn weigh_region_end(name: u32);
    pub fn weigh_phase_begin(name: u32, iteration: u64);
    pub fn weigh_counter_add(name: u32, number: i64);
    pub fn weigh_gauge_set(name: u32, value: f64);
    pub fn weigh_event_tell(name: u32, value: f64);
    pub fn weigh_metadata(key: *const c_char, value: *const c_char);
    pub fn weigh_publish();
    pub fn weigh_publish_every(seconds: f64, phase: u32, iterations: u64);
    pub fn weigh_poll_control_(control: *mut Control) -> c_int;
    pub fn weigh_control_send(
        target: *const c_char,
        request: *const Control,
        seconds: f64,
        outcome: *mut Sent,
    ) -> c_int;
}
