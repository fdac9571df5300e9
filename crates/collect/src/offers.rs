//! What this kernel offers, by its own type information.

use rustix::thread::{CapabilitySet, capabilities};
use weigh_parse::btf::Btf;

use crate::core_types::CoreTypes;
use crate::fentry_check;

/// A function that every kernel has, to try whether functions can be probed.
const PROBED: &str = "security_file_open";

/// What this kernel's type information says it has.
pub(crate) struct Offers<'b>(Option<Btf<'b>>);

impl<'b> Offers<'b> {
    /// Of the kernel with this type information.
    pub(crate) fn new(types: &'b [u8]) -> Offers<'b> {
        Offers(Btf::parse(types))
    }

    /// The types that a compiled object depends on.
    pub(crate) fn types_of(&self, object: &[u8]) -> CoreTypes {
        CoreTypes::of_object(object, self.0.as_ref())
    }

    /// The number of a structure's type; 0 if there is none.
    pub(crate) fn structure(&self, name: &str) -> u32 {
        self.0.as_ref().and_then(|btf| btf.structure(name)).unwrap_or(0)
    }

    /// The number of a function's type.
    pub(crate) fn function_id(&self, name: &str) -> Option<u32> {
        self.0.as_ref()?.function(name)
    }

    /// The number of a tracepoint's type.
    pub(crate) fn tracepoint_id(&self, name: &str) -> Option<u32> {
        self.0.as_ref()?.tracepoint(name)
    }

    /// The same for a tracepoint of a module with this type information.
    pub(crate) fn tracepoint_in(&self, module: &[u8], name: &str) -> Option<u32> {
        self.0.as_ref()?.tracepoint_of_module(module, name)
    }

    /// Whether there is such a function that is not built into all of its callers.
    pub(crate) fn function(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|btf| btf.function(name).is_some())
    }

    /// Whether functions can be probed here at all: tried with the smallest program there is,
    /// because no setting tells.
    pub(crate) fn function_probes(&self) -> Result<(), String> {
        let refused = |what: &str| format!("this kernel lets no function be probed ({what})");
        let btf = self.0.as_ref().ok_or_else(|| refused("it has no BTF"))?;
        let function =
            btf.function(PROBED).ok_or_else(|| refused(&format!("it has no {PROBED}")))?;
        fentry_check::attach(function).map_err(|error| refused(&error.to_string()))
    }

    /// How many arguments a tracepoint has; none if there is no such tracepoint.
    pub(crate) fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        self.0.as_ref()?.tracepoint_arguments(name)
    }

    pub(crate) fn tracepoint(&self, name: &str) -> bool {
        self.tracepoint_arguments(name).is_some()
    }

    /// Whether programs can be attached to such a tracepoint of a module; none if it has none, or is not loaded.
    pub(crate) fn tracepoint_of_module(&self, module: &str, name: &str) -> Option<bool> {
        // Names of types stand in it one after the other; what it shares with the kernel it does not repeat.
        let named = format!("\0btf_trace_{name}\0").into_bytes();
        let types = std::fs::read(format!("/sys/kernel/btf/{module}")).ok()?;
        types.windows(named.len()).find(|words| *words == named)?;
        // To find the types of modules takes more rights than to attach.
        let held = capabilities(None).map(|c| c.effective).unwrap_or(CapabilitySet::empty());
        Some(held.contains(CapabilitySet::SYS_ADMIN))
    }
}
