//! Points that were compiled into programs (USDT, `sys/sdt.h`): an instruction that does nothing, and a
//! note that says where it is, what it is called, and where its arguments lie at that moment.
//!
//! Reads the notes of an ELF file (`.note.stapsdt`); emits points. A note that is damaged is left out; an
//! argument in a place that cannot be followed is kept with what was written, for a spec that asks for it.

use object::elf::{FileHeader64, SHT_NOTE};
use object::endian::Endianness;
use object::read::ReadRef;
use object::read::elf::{ElfFile, SectionHeader as _};

use crate::error::ExecutableError;
use crate::operand::Operand;

/// The kind of note, of those of this name.
const NAME: &[u8] = b"stapsdt";
const KIND: u32 = 3;
/// The section that tells by how much addresses were moved since the note was written.
const BASE: &[u8] = b".stapsdt.base";
/// The most points that are looked at.
const MOST: usize = 1 << 16;

/// One place of a point; compilers copy code, so a point may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtPoint {
    /// Its provider.
    pub provider: String,
    /// Its name there.
    pub name: String,
    /// Where its instruction lies, as `objdump` shows it.
    pub address: u64,
    /// Where a number lies that says to the program how many look at it; 0: it does not ask.
    pub semaphore: u64,
    /// Where its arguments lie.
    pub arguments: Vec<Operand>,
}

/// All points of a file.
pub(crate) fn of<'d, R: ReadRef<'d>>(
    elf: &ElfFile<'d, FileHeader64<Endianness>, R>,
) -> Result<Vec<UsdtPoint>, ExecutableError> {
    let endian = elf.endian();
    let sections = elf.elf_section_table();
    let base = sections.iter().find(|section| sections.section_name(endian, section) == Ok(BASE));
    let base = base.map_or(0, |section| section.sh_addr(endian));
    let mut points = Vec::new();
    for section in sections.iter().filter(|section| section.sh_type(endian) == SHT_NOTE) {
        let Ok(Some(mut notes)) = section.notes(endian, elf.data()) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == NAME && note.n_type(endian) == KIND && points.len() < MOST {
                points.extend(point(note.desc(), base));
            }
        }
    }
    Ok(points)
}

/// What a note says: three addresses, three texts.
fn point(note: &[u8], base: u64) -> Option<UsdtPoint> {
    let word = |n: usize| {
        let bytes = note.get(n * 8..n * 8 + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let (address, linked, semaphore) = (word(0)?, word(1)?, word(2)?);
    let moved = if base == 0 { 0 } else { base.wrapping_sub(linked) };
    let mut texts = note[24..].split(|byte| *byte == 0);
    let mut text = || String::from_utf8(texts.next()?.to_vec()).ok();
    let (provider, name, arguments) = (text()?, text()?, text()?);
    if provider.is_empty() || name.is_empty() {
        return None;
    }
    Some(UsdtPoint {
        provider,
        name,
        address: address.wrapping_add(moved),
        semaphore: if semaphore == 0 { 0 } else { semaphore.wrapping_add(moved) },
        arguments: apart(&arguments).map(Operand::parse).collect(),
    })
}

/// The places of arguments, which stand apart by blanks; within brackets (`8@[sp, 16]`) a blank is a part of one.
fn apart(arguments: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let places = arguments.split(move |character: char| {
        depth += i32::from(character == '[') - i32::from(character == ']');
        depth <= 0 && character.is_ascii_whitespace()
    });
    places.filter(|place| !place.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(words: [u64; 3], texts: &[u8]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).chain(texts.iter().copied()).collect()
    }

    #[test]
    fn a_note_is_moved_with_its_file() {
        let said = note([0x100, 0x1000, 0x200], b"who\0what\0-4@%edi 8@$7\0");
        let found = point(&said, 0x1010).unwrap();
        assert_eq!((found.address, found.semaphore), (0x110, 0x210));
        assert_eq!((found.provider.as_str(), found.name.as_str()), ("who", "what"));
        assert_eq!(found.arguments, [Operand::parse("-4@%edi"), Operand::parse("8@$7")]);
        let unmoved = point(&note([0x100, 0x1000, 0], b"who\0what\0\0"), 0).unwrap();
        assert_eq!((unmoved.address, unmoved.semaphore), (0x100, 0));
        assert!(unmoved.arguments.is_empty());
    }

    #[test]
    fn places_stand_apart() {
        let places = |text| apart(text).collect::<Vec<_>>();
        assert_eq!(places("-4@[x0]  8@[sp, 8] 4@w1 "), ["-4@[x0]", "8@[sp, 8]", "4@w1"]);
        assert_eq!(places("8@] -4@%edi"), ["8@]", "-4@%edi"]);
        assert_eq!(places("8@[ 1"), ["8@[ 1"]);
        assert!(places(" ").is_empty());
    }

    #[test]
    fn half_a_note_is_none() {
        let said = note([1, 2, 3], b"who\0what\0");
        for end in [0, 8, 23, 24, 28] {
            assert_eq!(point(&said[..end], 0), None, "{end}");
        }
        assert_eq!(point(&note([1, 2, 3], b"\0what\0\0"), 0), None);
    }
}
