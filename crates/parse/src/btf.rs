//! The kernel's type information (BTF, Documentation/bpf/btf.rst), as far as a start of weigh needs it: which functions
//! and tracepoints there are, and the few types whose layout the BPF programs ask for.
//!
//! Reads the bytes of `/sys/kernel/btf/vmlinux` and of compiled BPF programs; emits type numbers, and smaller type
//! information for libbpf, which looks at every type of the kernel once for each type of a program. Refuses kinds that
//! are newer than this reader, for their length is not known.

mod index;
mod names;
mod relocations;
mod subset;
mod types;

pub use relocations::relocated_types;
pub use types::Btf;

/// Whether one of such strings of bytes is anywhere in type information.
pub fn has_one_of(types: &[u8], words: &[Vec<u8>]) -> bool {
    words.iter().any(|word| memchr::memmem::find(types, word).is_some())
}

#[cfg(test)]
mod tests;
