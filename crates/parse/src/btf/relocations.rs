//! Which of the kernel's types compiled BPF programs depend on.
//!
//! Reads the sections `.BTF` and `.BTF.ext` of an object; emits the names of the types that its relocations begin at.

use std::collections::HashSet;

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, SectionHeader as _};

use super::{Btf, essential, word};

type Header = FileHeader64<LittleEndian>;

/// The names of all types that a BPF object has relocations for, without their flavors; none if it cannot be read.
pub fn relocated_types(object: &[u8]) -> Option<HashSet<Vec<u8>>> {
    let btf = Btf::parse(section(object, b".BTF")?)?;
    let records = records(section(object, b".BTF.ext")?)?;
    let names = records.into_iter().map(|id| essential(btf.name(id)).to_vec());
    Some(names.filter(|name| !name.is_empty()).collect())
}

fn section<'o>(object: &'o [u8], name: &[u8]) -> Option<&'o [u8]> {
    let header = Header::parse(object).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, object).ok()?;
    let (_, section) = sections.section_by_name(endian, name)?;
    section.data(endian, object).ok()
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
