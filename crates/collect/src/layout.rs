//! From the kernel side's maps to the words of the schema.
//!
//! The structures' types are generated from the BPF object's own BTF, so there is one declaration
//! of them (`bpf/job.h`). Records of what happens, and of processes, are `weigh_parse::job`'s; readings of the job are made in
//! `crate::job`.

use std::mem::size_of;

use crate::follow::CpuWaits;
use weigh_parse::job::whole;
use weigh_schema::event::{FileKey, ProcessEnd};
use weigh_schema::summary::{Sender, SenderKind};
use weigh_schema::{Mechanism, Quality, byte_text};

/// The generated skeleton.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/job.skel.rs"));
}

/// The generated skeleton of the function probes.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(crate) mod functions {
    include!(concat!(env!("OUT_DIR"), "/functions.skel.rs"));
}

use skeleton::types;

/// Plain old data shared with the kernel side.
///
/// # Safety
/// Any bytes must be a valid value: integers and arrays of them only.
pub(crate) unsafe trait Plain: Copy {}
macro_rules! plain {
    ($($name:ident),+) => { $(
        // SAFETY: generated from BTF, of integers, arrays of them, and newtypes of them.
        unsafe impl Plain for types::$name {}
    )+ };
}
plain!(job, thread, control, memory, sender);

/// The bytes of a value, for a map.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: the slice covers exactly the value and lives as long as the borrow.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// A value from bytes of a map that must hold it whole.
pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: as many bytes as the value has are there, at whatever address, and `Plain` types are valid for all.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// A signal, and who sent it; none where that is not known.
pub(crate) fn sender(sender: &types::sender) -> Option<(i32, Sender)> {
    use types::sender_kind;
    let kind = match sender.kind {
        sender_kind::SENDER_KERNEL => SenderKind::Kernel,
        sender_kind::SENDER_ITSELF => SenderKind::Itself,
        sender_kind::SENDER_JOB => SenderKind::Job,
        sender_kind::SENDER_OTHER => SenderKind::Other,
        _ => return None,
    };
    let is_process = kind != SenderKind::Kernel;
    let name = sender.name.iter().map(|byte| byte.cast_unsigned()).take_while(|byte| *byte != 0);
    let name = byte_text::keep(&name.collect::<Vec<u8>>());
    let sent = Sender {
        kind,
        pid: Some(sender.pid).filter(|pid| is_process && *pid != 0),
        name: is_process.then(|| byte_text::shown(&name)),
        name_base64: byte_text::base64(&name),
        uid: is_process.then_some(sender.uid),
        source: Mechanism::Bpf,
        quality: Quality::Exact,
    };
    Some((sender.signal.cast_signed(), sent))
}

/// The peaks of a living process: of its address space, if that is its own.
pub(crate) fn set_peaks(process: &mut ProcessEnd, key: &[u8], memory: &types::memory) {
    let owner = memory.process.to_ne_bytes();
    if memory.process == 0 || owner == key {
        process.rss_peak_bytes = whole(memory.rss_peak);
        process.virtual_peak_bytes = whole(memory.virtual_peak);
        process.swap_peak_bytes = whole(memory.swap_peak);
    }
}

/// Which threads had the CPUs that the job waited for.
pub(crate) fn cpu_waits(job: &types::job) -> CpuWaits {
    let ns = |turn: types::turn| job.waited.get(turn.0 as usize).copied().unwrap_or_default();
    CpuWaits {
        own_ns: ns(types::turn::TURN_OWN),
        others_ns: ns(types::turn::TURN_OTHERS),
        nobody_ns: ns(types::turn::TURN_NOBODY),
        unknown_ns: job.waited_unknown,
    }
}

/// The key under which the kernel side counts the opens of a file.
pub(crate) fn file_key(key: &FileKey) -> Vec<u8> {
    [key.process, key.inode, key.device].iter().flat_map(|part| part.to_ne_bytes()).collect()
}
