//! The ELF file of a kernel: its sections, its build id, its symbols if it still has them.
//!
//! Reads bytes; emits where what lies. Refuses other formats and machines, and a kernel without
//! code.

use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::ElfFile;
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind};
use object::{SectionFlags, SymbolKind};
use thiserror::Error;

use crate::symbols::list::{Symbol, SymbolContent, Symbols};

/// Why an ELF file is no kernel that can be analysed.
#[derive(Debug, Error)]
pub enum ElfError {
    /// It cannot be read.
    #[error("its ELF file cannot be read: {0}")]
    Malformed(String),
    /// It is for another machine.
    #[error("it is for {0}; x86_64 was expected: no other machine's instructions are read")]
    Machine(String),
    /// A section that every kernel has is not there.
    #[error("it has no section {0}, which a kernel has")]
    Section(&'static str),
}

/// A section that is loaded.
pub struct Section<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it is linked to.
    pub address: u64,
    /// What is in it.
    pub data: &'a [u8],
    /// Whether it holds instructions.
    pub is_code: bool,
}

impl Section<'_> {
    /// Whether an address lies in it.
    pub fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|offset| offset < self.data.len() as u64)
    }

    /// Whether what is in it is gone once the kernel has started.
    pub fn is_for_start(&self) -> bool {
        [".init", ".exit", ".alt"].iter().any(|start| self.name.starts_with(start))
    }
}

/// An ELF file of a kernel.
pub struct Elf<'a> {
    file: ElfFile<'a, FileHeader64<LittleEndian>>,
    /// What is loaded of it, by address.
    pub sections: Vec<Section<'a>>,
}

impl<'a> Elf<'a> {
    /// Reads it.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ElfError> {
        let malformed = |error: object::Error| ElfError::Malformed(error.to_string());
        let file = ElfFile::<FileHeader64<LittleEndian>>::parse(bytes).map_err(malformed)?;
        match file.elf_header().e_machine.get(LittleEndian) {
            EM_X86_64 => {}
            EM_AARCH64 => return Err(ElfError::Machine("aarch64".to_string())),
            other => return Err(ElfError::Machine(format!("machine {other}"))),
        }
        let mut sections = Vec::new();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
            let is_loaded = sh_flags & u64::from(object::elf::SHF_ALLOC) != 0;
            // Those per CPU are linked to 0: their addresses are none.
            if !is_loaded || section.address() == 0 {
                continue;
            }
            sections.push(Section {
                name: section.name().map_err(malformed)?,
                address: section.address(),
                data: section.data().map_err(malformed)?,
                is_code: section.kind() == SectionKind::Text,
            });
        }
        sections.sort_by_key(|section| section.address);
        let elf = Self { file, sections };
        elf.section(".text").filter(|text| text.is_code).ok_or(ElfError::Section(".text"))?;
        Ok(elf)
    }

    /// The loaded section of that name.
    pub fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Any section's content, loaded or not; empty where there is none.
    pub fn content(&self, name: &str) -> &'a [u8] {
        let section = self.file.section_by_name(name);
        section.and_then(|section| section.data().ok()).unwrap_or_default()
    }

    /// Where the kernel begins: what its symbol `_text` says.
    pub fn text(&self) -> u64 {
        self.section(".text").map_or(0, |section| section.address)
    }

    /// The loaded section at an address.
    pub fn section_at(&self, address: u64) -> Option<&Section<'a>> {
        let after = self.sections.partition_point(|section| section.address <= address);
        self.sections[..after].iter().rev().find(|section| section.holds(address))
    }

    /// What tells this kernel from every other, in hexadecimal.
    pub fn build_id(&self) -> Option<String> {
        build_id(self.content(".notes"))
    }

    /// Its symbols; none if it has been stripped.
    pub fn symbols(&self) -> Option<Symbols> {
        let list: Vec<Symbol> = self
            .file
            .symbols()
            .filter(|symbol| !symbol.is_undefined())
            .filter_map(|symbol| {
                let is_code = self.section_at(symbol.address()).map(|section| section.is_code);
                let kind = match (symbol.kind(), is_code?) {
                    (SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown, true) => {
                        SymbolContent::Code
                    }
                    (SymbolKind::Data, _) => SymbolContent::Data,
                    _ => return None,
                };
                let name = symbol.name().ok().filter(|name| !name.is_empty())?;
                Some(Symbol { address: symbol.address(), name: name.to_string(), kind })
            })
            .collect();
        (!list.is_empty()).then(|| Symbols::new(list, self.text()))
    }
}

/// The build id in a section of notes, such as `/sys/kernel/notes`.
pub fn build_id(notes: &[u8]) -> Option<String> {
    let word = |at: usize| {
        let bytes = notes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let padded = |length: usize| length.checked_add(3).map(|length| length & !3);
    let mut at = 0;
    loop {
        let (name, content, kind) = (word(at)?, word(at + 4)?, word(at + 8)?);
        let content_at = (at + 12).checked_add(padded(name)?)?;
        let end = content_at.checked_add(content)?;
        if kind == NT_GNU_BUILD_ID as usize && notes.get(at + 12..at + 16) == Some(b"GNU\0") {
            let id = notes.get(content_at..end)?;
            return Some(id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        at = content_at.checked_add(padded(content)?)?;
    }
}
