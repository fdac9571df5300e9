//! The kernel's types for libbpf: only those that an object's relocations are about.
//!
//! libbpf looks at each of the kernel's hundred thousand types once for each type of an object, and that was a quarter
//! of a start. Emits a file in memory with the few that can match. Where one of an object's types is in a module of the kernel
//! alone, libbpf has to look by itself.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use libbpf_rs::ObjectBuilder;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use weigh_parse::btf::{Btf, relocated_types};

/// Where the kernel keeps its own types, and those of its modules.
const FOLDER: &str = "/sys/kernel/btf";
const OWN: &str = "vmlinux";

/// The bytes of the kernel's own type information; empty if it has none.
pub(crate) fn of_this_kernel() -> KernelTypes {
    let path = Path::new(FOLDER).join(OWN);
    match File::open(&path).ok().and_then(|file| Mapped::new(&file)) {
        Some(mapped) => KernelTypes::Mapped(mapped),
        // Before 6.16 it can be read only, 4 KiB at a time.
        None => KernelTypes::Read(fs::read(path).unwrap_or_default()),
    }
}

/// The kernel's type information.
pub(crate) enum KernelTypes {
    Mapped(Mapped),
    Read(Vec<u8>),
}

impl Deref for KernelTypes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            KernelTypes::Mapped(mapped) => mapped.bytes(),
            KernelTypes::Read(bytes) => bytes,
        }
    }
}

/// A file of the kernel's that never changes, in memory.
pub(crate) struct Mapped {
    address: NonNull<c_void>,
    length: usize,
}

impl Mapped {
    fn new(file: &File) -> Option<Mapped> {
        let length = file.metadata().ok()?.len() as usize;
        let (protection, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice takes nothing away from anybody.
        let address = unsafe { mmap(ptr::null_mut(), length, protection, flags, file, 0) };
        Some(Mapped { address: NonNull::new(address.ok()?)?, length })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped for as long as `self` lives, and the kernel's types do not change.
        unsafe { slice::from_raw_parts(self.address.as_ptr().cast::<u8>(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, which nothing refers to any more.
        let _ = unsafe { munmap(self.address.as_ptr(), self.length) };
    }
}

/// Tells BPF programs the kernel's numbers of types whose pointers they follow.
macro_rules! follow_types {
    ($constants:ident, $offers:ident, [$($name:ident),+]) => {
        $constants.followed_types.can_follow = $offers.function("bpf_rdonly_cast").into();
        $($constants.followed_types.$name = $offers.structure(stringify!($name));)+
    };
}
pub(crate) use follow_types;

/// The types of one object.
pub(crate) struct CoreTypes(Option<File>);

impl CoreTypes {
    /// Cuts the kernel's types down to those of a compiled object.
    pub(crate) fn of_object(object: &[u8], kernel: Option<&Btf<'_>>) -> CoreTypes {
        CoreTypes(kernel.and_then(|kernel| subset(object, kernel)))
    }

    /// Has libbpf use them for what is opened next. They have to stay until it is loaded.
    pub(crate) fn give(&self, builder: &mut ObjectBuilder) -> libbpf_rs::Result<()> {
        if let Some(file) = &self.0 {
            builder.btf_custom_path(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        }
        Ok(())
    }
}

fn subset(object: &[u8], kernel: &Btf<'_>) -> Option<File> {
    let subset = kernel.subset(&relocated_types(object)?)?;
    if modules_have_one_of(subset.missing.iter()) {
        return None;
    }
    let mut file = File::from(memfd_create(c"types", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(&subset.bytes).ok()?;
    Some(file)
}

/// Whether a module of the kernel has something of such a name.
fn modules_have_one_of<'n>(names: impl Iterator<Item = &'n Vec<u8>>) -> bool {
    let Ok(files) = fs::read_dir(FOLDER) else { return false };
    let modules = files.flatten().filter(|file| file.file_name() != OWN);
    let modules: Vec<Vec<u8>> = modules.filter_map(|file| fs::read(file.path()).ok()).collect();
    let words: Vec<Vec<u8>> = names.map(|name| [b"\0", &name[..], b"\0"].concat()).collect();
    modules.iter().any(|types| weigh_parse::btf::has_one_of(types, &words))
}
