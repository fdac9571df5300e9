//! How maps are made, and for how many CPUs.

use libbpf_rs::libbpf_sys as sys;

use super::error::TraceError;
use crate::requirements;

/// CPUs that programs may run on.
pub fn cpus() -> usize {
    requirements::possible_cpus() as usize
}

/// CPUs that programs run on now, by their numbers: a machine may say that many more are possible.
pub fn cpus_online() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend((first..=last).take_while(|cpu| *cpu < self::cpus()));
        }
    }
    if cpus.is_empty() { (0..self::cpus()).collect() } else { cpus }
}

pub(super) fn made<E: Into<libbpf_rs::Error>>(
    what: &'static str,
    bytes: usize,
) -> impl Fn(E) -> TraceError {
    move |error| TraceError::Map { what, bytes, error: error.into() }
}

pub(super) fn options(flags: u32, inner: i32) -> sys::bpf_map_create_opts {
    sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
        map_flags: flags,
        inner_map_fd: inner.max(0).cast_unsigned(),
        ..Default::default()
    }
}
