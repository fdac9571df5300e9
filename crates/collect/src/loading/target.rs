//! What a program is attached to, by its section's name: a type of the kernel's, or of one of its modules.

use std::os::fd::{FromRawFd as _, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::query::BtfInfoIter;

use crate::offers::Offers;

/// The type that a program is attached by.
pub(super) struct Target {
    pub type_id: u32,
    /// The module that it is of, if it is not the kernel's own.
    pub module: Option<OwnedFd>,
}

impl Target {
    /// What programs of a section are attached to; none if nothing like that is there.
    pub(super) fn of_section(section: &str, offers: &Offers<'_>) -> Option<Target> {
        let (kind, name) = section.trim_start_matches('?').split_once('/')?;
        let type_id = match kind {
            "tp_btf" => return Target::of_tracepoint(name, offers),
            "fentry" | "fexit" => offers.function_id(name)?,
            "iter" => offers.function_id(&format!("bpf_iter_{name}"))?,
            _ => return None,
        };
        Some(Target { type_id, module: None })
    }

    fn of_tracepoint(name: &str, offers: &Offers<'_>) -> Option<Target> {
        if let Some(type_id) = offers.tracepoint_id(name) {
            return Some(Target { type_id, module: None });
        }
        let modules = BtfInfoIter::default().filter(|i| !i.name.is_empty() && i.name != "vmlinux");
        modules.into_iter().find_map(|info| {
            let type_id = offers.tracepoint_in(&info.btf, name)?;
            // SAFETY: a descriptor that is returned is new and owned here alone.
            let module = unsafe {
                let descriptor = sys::bpf_btf_get_fd_by_id(info.id);
                (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))?
            };
            Some(Target { type_id, module: Some(module) })
        })
    }
}
