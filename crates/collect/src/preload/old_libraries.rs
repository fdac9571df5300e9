//! What a library that goes into a job's programs needs beside libc.so.6: glibc below 2.34 has parts of it elsewhere.
//!
//! Reads the library's bytes; emits those that fit the glibc that runs. From 2.34 on the old libraries are empty, and
//! each program of the job would load them for nothing: they are no longer named then.

use std::borrow::Cow;

use object::elf::{DT_DEBUG, DT_NEEDED, Dyn64, FileHeader64, PT_DYNAMIC};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::{Endianness, StringTable};

/// Where glibc has kept what has moved into libc.so.6 since.
const OLD: [&[u8]; 2] = [b"libdl.so.2", b"libpthread.so.0"];

/// The first glibc in which they are empty.
const MOVED: (u32, u32) = (2, 34);

/// The library for the programs here.
pub fn fitted(library: &[u8]) -> Cow<'_, [u8]> {
    match running_glibc().filter(|version| *version >= MOVED) {
        Some(_) => without_old(library).map_or(Cow::Borrowed(library), Cow::Owned),
        None => Cow::Borrowed(library),
    }
}

#[cfg(target_env = "gnu")]
fn running_glibc() -> Option<(u32, u32)> {
    // SAFETY: it returns a text that ends with a NUL byte and is there for good.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let mut numbers = version.to_str().ok()?.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[cfg(not(target_env = "gnu"))]
fn running_glibc() -> Option<(u32, u32)> {
    None
}

/// Without them, unless versions of symbols name them: the loader insists on these.
fn without_old(library: &[u8]) -> Option<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(library).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, library).ok()?;
    let (entries, names) = sections.dynamic(endian, library).ok()??;
    let names = sections.strings(endian, library, names).ok()?;
    if let Some((mut files, names)) = sections.gnu_verneed(endian, library).ok()? {
        let names = sections.strings(endian, library, names).ok()?;
        while let Some((file, _)) = files.next().ok()? {
            if OLD.contains(&names.get(file.vn_file.get(endian)).ok()?) {
                return None;
            }
        }
    }
    let mut segments = header.program_headers(endian, library).ok()?.iter();
    let dynamic = segments.find(|segment| segment.p_type(endian) == PT_DYNAMIC)?;
    let start = usize::try_from(dynamic.p_offset(endian)).ok()?;
    let mut fitted = library.to_vec();
    for (place, entry) in entries.iter().enumerate() {
        if is_old(entry, endian, names) {
            let at = start + place * size_of::<Dyn64<Endianness>>();
            // A tag that the loader passes over in a library.
            fitted.get_mut(at..at + 8)?.copy_from_slice(&u64::from(DT_DEBUG).to_ne_bytes());
        }
    }
    Some(fitted)
}

fn is_old(entry: &Dyn64<Endianness>, endian: Endianness, names: StringTable<'_>) -> bool {
    let name = u32::try_from(entry.d_val(endian)).ok().and_then(|at| names.get(at).ok());
    entry.d_tag(endian) == u64::from(DT_NEEDED) && name.is_some_and(|name| OLD.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(library: &[u8]) -> Vec<String> {
        let header = FileHeader64::<Endianness>::parse(library).expect("a library");
        let endian = header.endian().expect("known");
        let sections = header.sections(endian, library).expect("sections");
        let (entries, names) = sections.dynamic(endian, library).expect("known").expect("dynamic");
        let names = sections.strings(endian, library, names).expect("names");
        let needed = entries.iter().filter(|entry| entry.d_tag(endian) == u64::from(DT_NEEDED));
        let name = |entry: &Dyn64<Endianness>| {
            let name = names.get(entry.d_val(endian) as u32).expect("a name");
            String::from_utf8_lossy(name).into_owned()
        };
        needed.map(name).collect()
    }

    #[test]
    fn old_libraries_are_named_where_glibc_has_something_there() {
        let of_files: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_preload_4.so"));
        let of_calls = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_calls.so"));
        for (library, old) in [(of_files, 1), (of_calls, 2)] {
            let named = needed(library);
            assert_eq!(named.len(), 1 + old, "{named:?}");
            assert!(named.contains(&"libdl.so.2".to_string()), "{named:?}");
            if let Some(fitted) = without_old(library) {
                assert_eq!(needed(&fitted), ["libc.so.6"]);
            }
        }
        assert_eq!(without_old(b"no library"), None);
    }
}
