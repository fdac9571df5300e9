//! Which of the kernel's types compiled BPF programs depend on.
//!
//! Reads the sections `.BTF` and `.BTF.ext` of an object; emits the names of the types that its relocations begin at.

use std::collections::HashSet;

use super::types::{Btf, essential, word};

/// The names of all types that a BPF object has relocations for, without their flavors; none if it cannot be read.
pub fn relocated_types(object: &[u8]) -> Option<HashSet<Vec<u8>>> {
    let btf = Btf::parse(section(object, b".BTF")?)?;
    let records = records(section(object, b".BTF.ext")?)?;
    let names = records.into_iter().map(|id| essential(btf.name(id)).to_vec());
    Some(names.filter(|name| !name.is_empty()).collect())
}

/// A section of a 64-bit little-endian ELF file of less than 4 GiB, wherever its bytes lie in memory.
fn section<'o>(object: &'o [u8], name: &[u8]) -> Option<&'o [u8]> {
    if !object.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let half = |at: usize| Some((word(object, at)? & 0xffff) as usize);
    let (table, length, count, names) =
        (word(object, 40)? as usize, half(58)?, half(60)?, half(62)?);
    let header = |n: usize| table.checked_add(n * length);
    let bytes = |header: usize| -> Option<&'o [u8]> {
        let [from, size] = [word(object, header + 24)?, word(object, header + 32)?];
        object.get(from as usize..)?.get(..size as usize)
    };
    let names = bytes(header(names)?)?;
    let is_it = |header: usize| {
        let at = word(object, header)? as usize;
        let rest = names.get(at..)?.strip_prefix(name)?;
        rest.starts_with(b"\0").then_some(())
    };
    let mut headers = (0..count).filter_map(header);
    bytes(headers.find(|header| is_it(*header).is_some())?)
}

/// The types of all records for relocations: of each section of the object a number and that many records.
fn records(ext: &[u8]) -> Option<Vec<u32>> {
    let begin = word(ext, 4)? as usize + word(ext, 24)? as usize;
    let end = begin + word(ext, 28)? as usize;
    let record = word(ext, begin)? as usize;
    if record < 16 || end > ext.len() {
        return None;
    }
    let mut types = Vec::new();
    let mut at = begin + 4;
    while at < end {
        let count = word(ext, at + 4)? as usize;
        at += 8;
        for _ in 0..count {
            types.push(word(ext, at + 4)?);
            at += record;
        }
    }
    Some(types)
}
