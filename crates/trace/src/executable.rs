//! Programs and libraries, as probes need them: where their functions lie, and the points that were
//! compiled into them.
//!
//! Reads the bytes of an ELF file; emits places in it, in bytes from its beginning, as the kernel wants
//! them. Refuses files of another kind of machine, functions that the file does not name, names that
//! several have, and places where no instruction begins: a probe there would break the program.

mod symbols;

use std::io::{Read, Seek};

use object::elf::{self, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{ElfFile, FileHeader as _, ProgramHeader as _};
use object::read::{ReadCache, ReadRef};

pub use crate::error::ExecutableError;
use crate::error::{NoSignature, Wrong};
use crate::suggest::nearest;
use crate::usdt::{self, UsdtPoint};
pub use symbols::Function;

/// Where bytes come from.
pub trait Bytes: Read + Seek {}

impl<T: Read + Seek> Bytes for T {}

/// A part of the file that is put into memory.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
    is_code: bool,
}

/// A program, or a library.
pub struct Executable {
    file: ReadCache<Box<dyn Bytes>>,
    /// Where it is, for people.
    path: String,
    segments: Vec<Segment>,
    functions: Vec<Function>,
    points: Vec<UsdtPoint>,
    /// Whether it is written in Go, whose stacks move.
    is_go: bool,
}

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = elf::EM_AARCH64;

/// The longest function whose instructions are looked at.
const LONGEST: u64 = 1 << 20;

impl Executable {
    /// Reads one; `path` is what it is called in refusals.
    pub fn read(path: &str, file: Box<dyn Bytes>) -> Result<Executable, ExecutableError> {
        let file = ReadCache::new(file);
        let mut executable = Executable {
            file: ReadCache::new(Box::new(std::io::empty())),
            path: path.to_string(),
            segments: Vec::new(),
            functions: Vec::new(),
            points: Vec::new(),
            is_go: false,
        };
        executable.fill(&file)?;
        executable.file = file;
        Ok(executable)
    }

    fn fill(&mut self, file: &ReadCache<Box<dyn Bytes>>) -> Result<(), ExecutableError> {
        if !matches!(file.read_bytes_at(0, 4), Ok(magic) if magic == elf::ELFMAG) {
            return Err(ExecutableError::NoElf);
        }
        if !matches!(file.read_bytes_at(4, 1), Ok([elf::ELFCLASS64])) {
            return Err(ExecutableError::OtherMachine);
        }
        let elf: ElfFile<'_, FileHeader64<Endianness>, _> = ElfFile::parse(file)?;
        let endian = elf.endian();
        if elf.elf_header().e_machine(endian) != MACHINE {
            return Err(ExecutableError::OtherMachine);
        }
        for header in elf.elf_program_headers() {
            if header.p_type(endian) == elf::PT_LOAD {
                self.segments.push(Segment {
                    address: header.p_vaddr(endian),
                    offset: header.p_offset(endian),
                    bytes: header.p_filesz(endian),
                    is_code: header.p_flags(endian) & elf::PF_X != 0,
                });
            }
        }
        let sections = elf.elf_section_table();
        for section in sections.iter() {
            let name = sections.section_name(endian, section);
            self.is_go |= matches!(name, Ok(b".note.go.buildid" | b".gopclntab"));
        }
        let mut functions = symbols::of(&elf)?;
        functions.retain(|function| self.offset(function.address, true).is_some());
        self.functions = functions;
        self.points = usdt::of(&elf)?;
        Ok(())
    }

    /// Its functions, by name.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The points that were compiled into it.
    pub fn points(&self) -> &[UsdtPoint] {
        &self.points
    }

    /// What it is called.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where an address lies in the file.
    pub(crate) fn offset(&self, address: u64, is_code: bool) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| {
            let into = address.checked_sub(segment.address);
            into.is_some_and(|into| into < segment.bytes) && segment.is_code == is_code
        })?;
        segment.offset.checked_add(address - segment.address)
    }

    /// Where a function lies in the file, or what lies so far behind its beginning; without a name: behind
    /// the address 0 of the file's own addresses.
    pub fn place(&self, name: &str, plus: u64, returns: bool) -> Result<u64, NoSignature> {
        let (address, is_begin) = match name {
            "" => (plus, self.functions.iter().any(|function| function.address == plus)),
            name => (self.function(name)?.address.saturating_add(plus), plus == 0),
        };
        if returns && !is_begin {
            return Err((self.no_place("only a whole function returns".to_string()), Vec::new()));
        }
        if returns && self.is_go {
            let why = "it is written in Go, whose stacks move: a probe at a return would break it";
            return Err((self.no_place(why.to_string()), Vec::new()));
        }
        if !is_begin {
            self.check_instruction(name, address)?;
        }
        self.offset(address, true)
            .ok_or_else(|| (self.no_place(format!("{address:#x} is not in its code")), Vec::new()))
    }

    fn function(&self, name: &str) -> Result<&Function, NoSignature> {
        let named = || self.functions.iter().filter(|function| function.name == name);
        let best = named().map(|function| function.rank).min();
        let mut found: Vec<&Function> =
            named().filter(|function| Some(function.rank) == best).collect();
        found.dedup_by_key(|function| function.address);
        match found[..] {
            [function] if function.is_chosen_later => {
                let why = format!(
                    "{name} is one of several functions, chosen when the program is loaded (IFUNC); name \
                     that one"
                );
                let is_other =
                    |function: &&Function| !function.is_chosen_later && function.name != name;
                let near = self.functions.iter().filter(is_other);
                Err((self.no_place(why), nearest(name, near.map(|f| f.name.as_str()))))
            }
            [function] => Ok(function),
            [] => {
                let wrong = Wrong::NoUserFunction {
                    path: self.path.clone(),
                    name: name.to_string(),
                    all: self.functions.len(),
                };
                Err((wrong, nearest(name, self.functions.iter().map(|f| f.name.as_str()))))
            }
            _ => {
                let why = format!("{} functions are named {name}; say which", found.len());
                let places = found.iter().map(|function| format!("+{:#x}", function.address));
                Err((self.no_place(why), places.collect()))
            }
        }
    }

    /// That an instruction begins there: instructions are followed from the function's beginning.
    fn check_instruction(&self, name: &str, address: u64) -> Result<(), NoSignature> {
        let holds = |function: &&Function| {
            address.checked_sub(function.address).is_some_and(|into| into < function.bytes)
                && (name.is_empty() || function.name == name)
        };
        let refuse = |why: String| Err((self.no_place(why), Vec::new()));
        let Some(function) = self.functions.iter().find(holds) else {
            return refuse(format!("{address:#x} is in no function that it names"));
        };
        let code = match self.offset(function.address, true) {
            Some(offset) if function.bytes <= LONGEST => {
                (&self.file).read_bytes_at(offset, function.bytes).unwrap_or_default()
            }
            _ => &[],
        };
        let mut begins = begins(code, function.address).skip_while(|begin| *begin < address);
        match begins.next() {
            Some(begin) if begin == address => Ok(()),
            _ => refuse(format!("no instruction of {} begins at {address:#x}", function.name)),
        }
    }

    fn no_place(&self, why: String) -> Wrong {
        Wrong::Executable { path: self.path.clone(), why }
    }
}

/// Where instructions begin.
#[cfg(target_arch = "x86_64")]
fn begins(code: &[u8], address: u64) -> impl Iterator<Item = u64> {
    let mut decoder = iced_x86::Decoder::with_ip(64, code, address, iced_x86::DecoderOptions::NONE);
    std::iter::from_fn(move || {
        let begin = decoder.ip();
        (decoder.can_decode() && !decoder.decode().is_invalid()).then_some(begin)
    })
}

/// Where instructions begin: each has four bytes.
#[cfg(target_arch = "aarch64")]
fn begins(code: &[u8], address: u64) -> impl Iterator<Item = u64> {
    (address..address + code.len() as u64).step_by(4)
}
