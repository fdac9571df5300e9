//! The kernel's own types as bytes: mapped where the kernel allows that (Linux 6.16), else read, a page by each call.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustix::mm::{MapFlags, ProtFlags};

/// Where the kernel says them.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The bytes. A mapping is made once, and stays.
pub fn read() -> io::Result<Cow<'static, [u8]>> {
    static MAPPED: OnceLock<Option<&'static [u8]>> = OnceLock::new();
    match MAPPED.get_or_init(|| map(Path::new(TYPES)).ok()) {
        Some(bytes) => Ok(Cow::Borrowed(bytes)),
        None => std::fs::read(TYPES).map(Cow::Owned),
    }
}

fn map(path: &Path) -> io::Result<&'static [u8]> {
    let file = std::fs::File::open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let (rights, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
    // SAFETY: a new mapping, where the kernel likes; nothing of this program lies there.
    let mapping =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, rights, flags, &file, 0)? };
    // SAFETY: the kernel maps all of it or refuses, never changes its types, and nobody takes the mapping away.
    Ok(unsafe { std::slice::from_raw_parts(mapping.cast(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_what_is_read() {
        if let Ok(bytes) = read() {
            assert!(bytes == std::fs::read(TYPES).unwrap());
            assert!(bytes.starts_with(&[0x9f, 0xeb]));
        }
    }
}
