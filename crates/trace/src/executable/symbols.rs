//! The functions that a file names: of both of its tables of symbols.

use std::collections::HashSet;

use object::elf::{self, FileHeader64};
use object::endian::Endianness;
use object::read::ReadRef;
use object::read::elf::{ElfFile, Sym as _, SymbolTable};

use crate::error::ExecutableError;

/// The most functions that are looked at.
const MOST: usize = 4 << 20;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Its name, without a version.
    pub name: String,
    /// Of several with the name the least is meant: versions that are there for old programs come last.
    pub rank: u8,
    /// Where it lies, as `nm` and `objdump` show it.
    pub address: u64,
    /// How long it is; 0 where nobody says.
    pub bytes: u64,
    /// Whether it only chooses which function it is to be.
    pub is_chosen_later: bool,
}

/// What both tables name, by name.
pub(super) fn of<'d, R: ReadRef<'d>>(
    elf: &ElfFile<'d, FileHeader64<Endianness>, R>,
) -> Result<Vec<Function>, ExecutableError> {
    let endian = elf.endian();
    let versions = elf.elf_section_table().versions(endian, elf.data())?;
    let dynamic = functions(endian, elf.elf_dynamic_symbol_table(), |index| {
        versions.as_ref().is_some_and(|all| all.version_index(endian, index).is_hidden())
    });
    let all = functions(endian, elf.elf_symbol_table(), |_| false);
    // The second has the first's again, old versions under their plain name, too.
    let known: HashSet<&str> = dynamic.iter().map(|function| function.name.as_str()).collect();
    let mut functions: Vec<Function> =
        all.into_iter().filter(|function| !known.contains(function.name.as_str())).collect();
    functions.extend(dynamic);
    functions.sort_unstable();
    functions.dedup();
    Ok(functions)
}

fn functions<'d, R: ReadRef<'d>>(
    endian: Endianness,
    table: &SymbolTable<'d, FileHeader64<Endianness>, R>,
    is_old: impl Fn(object::SymbolIndex) -> bool,
) -> Vec<Function> {
    let mut functions = Vec::new();
    for (index, symbol) in table.enumerate().take(MOST) {
        let is_chosen_later = symbol.st_type() == elf::STT_GNU_IFUNC;
        if symbol.st_type() != elf::STT_FUNC && !is_chosen_later
            || symbol.st_shndx(endian) == elf::SHN_UNDEF
        {
            continue;
        }
        let Ok(Ok(name)) = table.symbol_name(endian, symbol).map(std::str::from_utf8) else {
            continue;
        };
        // `name@@VERSION` is the one that programs get now, `name@VERSION` an old one.
        let (plain, version) = name.split_once('@').unwrap_or((name, "@"));
        let rank = u8::from(is_old(index) || !version.starts_with('@'));
        if !plain.is_empty() {
            functions.push(Function {
                name: plain.to_string(),
                rank,
                address: symbol.st_value(endian),
                bytes: symbol.st_size(endian),
                is_chosen_later,
            });
        }
    }
    functions
}
