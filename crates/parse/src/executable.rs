//! Executable files, as a job brings them along: which loader one names, and whether it will want to trace others.
//!
//! Reads their headers, the strings of their dynamic symbols and of the libraries they need, or the names of their own
//! functions if they are linked statically. If those were taken out (`strip`), their code is looked through for the
//! call itself. What cannot be understood counts as a program that does not trace.

mod code;

use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{ElfFile32, ElfFile64, FileHeader, ProgramHeader as _, Sym as _};
use object::{Endianness, FileKind, ReadRef};

/// What a program says of its dynamic loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader<'a> {
    /// Its name.
    Named(&'a [u8]),
    /// It has none: it is linked statically.
    None,
    /// It is for another kind of machine, or none that can be known.
    Other,
    /// Its headers do not lie where they should be.
    Unknown,
}

/// The loader that the beginning of an executable file names.
pub fn loader(bytes: &[u8]) -> Loader<'_> {
    let Ok(header) = FileHeader64::<Endianness>::parse(bytes) else { return Loader::Other };
    let Ok(endian) = header.endian() else { return Loader::Other };
    let Ok(parts) = header.program_headers(endian, bytes) else { return Loader::Unknown };
    let Some(part) = parts.iter().find(|p| p.p_type(endian) == PT_INTERP) else {
        return Loader::None;
    };
    let name = part.data(endian, bytes).unwrap_or_default();
    name.strip_suffix(b"\0").map_or(Loader::Other, Loader::Named)
}

/// Why a program with that content has to be left alone by a tracer, if it has to.
pub fn why_it_traces<'a, R: ReadRef<'a>>(file: R) -> Option<&'static str> {
    match FileKind::parse(file).ok()? {
        FileKind::Elf64 => {
            let elf = ElfFile64::<Endianness, _>::parse(file).ok()?;
            why_by_strings(elf.elf_header(), file)
        }
        FileKind::Elf32 => {
            let elf = ElfFile32::<Endianness, _>::parse(file).ok()?;
            why_by_strings(elf.elf_header(), file)
        }
        _ => None,
    }
}

/// Libraries that end a program, or go wrong in it, unless they are the first that is loaded.
const FIRST_LIBRARIES: [&str; 8] = [
    "libasan.so",
    "libtsan.so",
    "libhwasan.so",
    "liblsan.so",
    "libclang_rt.asan",
    "libclang_rt.tsan",
    "libclang_rt.hwasan",
    "libclang_rt.lsan",
];

/// Whether a library of this name must be the first in a program: a sanitizer's runtime.
pub fn must_be_first(name: &[u8]) -> bool {
    let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    FIRST_LIBRARIES.iter().any(|first| last.starts_with(first.as_bytes()))
}

/// Whether a program of 64 bits needs such a library.
pub fn needs_first<'a, R: ReadRef<'a>>(file: R) -> bool {
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(file) else { return false };
    let strings = dynamic_strings(elf.elf_header(), file);
    strings.is_some_and(|strings| strings.split(|byte| *byte == 0).any(must_be_first))
}

/// Looks through the strings that the dynamic linker uses: symbols and libraries alike.
fn why_by_strings<'a, H: FileHeader, R: ReadRef<'a>>(header: &H, file: R) -> Option<&'static str> {
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let is_loaded = segments.iter().any(|s| s.p_type(endian) == object::elf::PT_INTERP);
    if !is_loaded {
        return why_by_functions(header, file);
    }
    why_by_names(dynamic_strings(header, file)?)
}

/// The strings that the dynamic linker uses.
fn dynamic_strings<'a, H: FileHeader, R: ReadRef<'a>>(header: &H, file: R) -> Option<&'a [u8]> {
    use object::elf::{DT_STRSZ, DT_STRTAB, PT_LOAD};
    use object::read::elf::Dyn as _;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let dynamic = segments.iter().find_map(|s| s.dynamic(endian, file).ok().flatten())?;
    let value = |tag: u32| {
        let entry = dynamic.iter().find(|d| d.tag32(endian) == Some(tag))?;
        Some(entry.d_val(endian).into())
    };
    let (address, length): (u64, u64) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    segments.iter().filter(|s| s.p_type(endian) == PT_LOAD).find_map(|segment| {
        let into = address.checked_sub(segment.p_vaddr(endian).into())?;
        let room = Into::<u64>::into(segment.p_filesz(endian)).checked_sub(into)?;
        let offset = Into::<u64>::into(segment.p_offset(endian)).checked_add(into)?;
        file.read_bytes_at(offset, length.min(room)).ok()
    })
}

/// Looks through the functions of a program that is linked statically.
fn why_by_functions<'a, H: FileHeader, R: ReadRef<'a>>(
    header: &H,
    file: R,
) -> Option<&'static str> {
    use object::elf::{SHT_SYMTAB, STT_FUNC};
    let endian = header.endian().ok()?;
    let symbols = header.sections(endian, file).ok()?.symbols(endian, file, SHT_SYMTAB).ok()?;
    let is_function = |symbol: &&H::Sym| symbol.st_type() == STT_FUNC;
    if !symbols.iter().any(|symbol| is_function(&symbol)) {
        return code::calls_ptrace(header, file).then_some("traces other processes");
    }
    let names = symbols
        .iter()
        .filter(is_function)
        .filter_map(|symbol| symbols.symbol_name(endian, symbol).ok());
    names.into_iter().find_map(why_by_name)
}

fn why_by_names(strings: &[u8]) -> Option<&'static str> {
    strings.split(|byte| *byte == 0).find_map(why_by_name)
}

fn why_by_name(name: &[u8]) -> Option<&'static str> {
    if name == b"ptrace" {
        return Some("traces other processes");
    }
    let is_of = |prefix: &[u8]| name.starts_with(prefix);
    let looks_for_leaks =
        is_of(b"__lsan_") || is_of(b"__asan_") || is_of(b"libasan.so") || is_of(b"liblsan.so");
    looks_for_leaks.then_some("looks for leaks by tracing itself")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_of_sanitizers_must_be_first() {
        for name in ["libasan.so.8", "/usr/lib/libtsan.so.2", "libclang_rt.asan-x86_64.so"] {
            assert!(must_be_first(name.as_bytes()), "{name}");
        }
        for name in ["libubsan.so.1", "libc.so.6", "mylibasan.so", "libasan"] {
            assert!(!must_be_first(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_are_compared_as_a_whole() {
        assert_eq!(why_by_names(b"\0printf\0xptrace\0ptraced\0"), None);
        assert!(why_by_names(b"\0printf\0ptrace\0").is_some());
        assert!(why_by_names(b"\0libasan.so.8\0libc.so.6\0").is_some());
    }
}
