//! The kernel's types, as it tells them itself: BTF (Documentation/bpf/btf.rst).
//!
//! Reads the bytes of `/sys/kernel/btf/vmlinux`, and of a module's beside it, whose types go on where the
//! kernel's end; emits types by their number. Refuses bytes that are no BTF, kinds that are newer than this reader, for their length is not known, and references that
//! lead nowhere or in a circle.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memmem;
use thiserror::Error;

/// Why type information cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    /// Something else.
    #[error("it is no little-endian BTF")]
    NoBtf,
    /// It ends too early.
    #[error("it is cut short at byte {0}")]
    CutShort(usize),
    /// A kind from the future.
    #[error("type {id} is of kind {kind}; kinds up to 19 are known")]
    TypeKind {
        /// Which type.
        id: usize,
        /// Its kind.
        kind: u32,
    },
    /// A reference that leads nowhere, or in a circle.
    #[error("type {0} leads nowhere")]
    Astray(u32),
}

/// A member of a structure, or an argument of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'b> {
    /// Its name; empty if it has none.
    pub name: &'b str,
    /// Its type.
    pub kind: u32,
    /// Where it begins, in bits.
    pub bit: u32,
    /// Its width, if it is a field of bits; otherwise 0.
    pub bits: u32,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// Nothing.
    Void,
    /// A whole number of so many bytes.
    Int {
        /// Its size.
        bytes: u32,
        /// Whether it can be below 0.
        signed: bool,
        /// Whether it is true or false.
        is_bool: bool,
    },
    /// A number with a point.
    Float(u32),
    /// A pointer to that.
    Pointer(u32),
    /// So many of those.
    Array {
        /// Of which type.
        of: u32,
        /// How many.
        count: u32,
    },
    /// A structure, or a union, of so many bytes.
    Struct {
        /// Its size.
        bytes: u32,
        /// Whether its members lie on top of each other.
        is_union: bool,
    },
    /// An enumeration of so many bytes.
    Enum {
        /// Its size.
        bytes: u32,
        /// Whether it can be below 0.
        signed: bool,
    },
    /// A structure of which nothing but the name is known.
    Forward,
    /// Another name for that.
    Typedef(u32),
    /// const, volatile, restrict.
    Qualified(u32),
    /// A remark about that, as "user" or "percpu".
    Tagged(u32),
    /// A function of that prototype.
    Function(u32),
    /// A prototype that returns that.
    Prototype(u32),
    /// Something that no value is of.
    Other,
}

/// The types of a kernel, or of one of its modules.
pub struct Btf {
    /// Of a module: its name, and the kernel's types, which it goes on from.
    of: Option<(String, Arc<Btf>)>,
    bytes: Cow<'static, [u8]>,
    strings: (usize, usize),
    /// Where names begin in all strings: those of the kernel come first.
    first_string: usize,
    /// Where each [`STRIDE`]th type begins: of all of them this would be more memory than it takes time to step on.
    types: Vec<u32>,
    /// The name of each: what is looked for by a name is found there sooner than among the types.
    names: Vec<u32>,
    /// The number of the first of them.
    first: u32,
    /// Where names stand that were looked for.
    offsets: Mutex<HashMap<String, u32>>,
}

const HEADER: usize = 24;
const STRIDE: usize = 16;
/// Of a type with what follows it, about: the kernel's have some more.
const BYTES_OF_TYPE: usize = 24;
const TYPE: usize = 12;
/// How the kernel names the type of a tracepoint's record.
const OF_RECORD: &str = "trace_event_raw_";
/// How the kernel names the type of a tracepoint's programs.
const OF_TRACEPOINT: &str = "btf_trace_";
/// And the function that calls them.
const CALLS_TRACEPOINT: &str = "__traceiter_";
/// More references than any type of C has in a row.
const FARTHEST: usize = 64;

impl Btf {
    /// Takes the bytes of a kernel in.
    pub fn new(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Btf, BtfError> {
        Btf::read(bytes.into(), None)
    }

    /// Takes the bytes of one of its modules in.
    pub fn of_module(name: &str, bytes: Vec<u8>, kernel: &Arc<Btf>) -> Result<Btf, BtfError> {
        Btf::read(bytes.into(), Some((name.to_string(), Arc::clone(kernel))))
    }

    /// The module that it is of, unless it is the kernel's own.
    pub fn module(&self) -> Option<&str> {
        self.of.as_ref().map(|(name, _)| name.as_str())
    }

    fn kernel(&self) -> Option<&Btf> {
        self.of.as_ref().map(|(_, kernel)| &**kernel)
    }

    fn read(bytes: Cow<'static, [u8]>, of: Option<(String, Arc<Btf>)>) -> Result<Btf, BtfError> {
        if !bytes.starts_with(&[0x9f, 0xeb, 1]) {
            return Err(BtfError::NoBtf);
        }
        let begin = (word(&bytes, 4)? as usize).max(HEADER);
        let part = |offset: usize, length: usize| -> Result<(usize, usize), BtfError> {
            let start = begin.saturating_add(word(&bytes, offset)? as usize);
            let end = start.saturating_add(word(&bytes, length)? as usize);
            if end > bytes.len() { Err(BtfError::CutShort(end)) } else { Ok((start, end)) }
        };
        let (at, strings) = (part(8, 12)?, part(16, 20)?);
        let (types, names) = find_types(&bytes, at)?;
        let end_of = |kernel: &Btf| {
            let names = kernel.strings.1 - kernel.strings.0;
            (kernel.ids().end, kernel.first_string + names)
        };
        let (first, first_string) = of.as_ref().map_or((1, 0), |(_, kernel)| end_of(kernel));
        let offsets = Mutex::default();
        Ok(Btf { of, bytes, strings, first_string, types, names, first, offsets })
    }

    /// Its own types.
    fn ids(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.names.len() as u32
    }

    /// Whose type it is, and where it lies there.
    fn place(&self, id: u32) -> Option<(&Btf, usize)> {
        match id.checked_sub(self.first) {
            Some(number) if (number as usize) < self.names.len() => {
                let (before, behind) = (number as usize / STRIDE, number as usize % STRIDE);
                let at = *self.types.get(before)? as usize;
                Some((self, (0..behind).fold(at, |at, _| self.next(at))))
            }
            Some(_) => None,
            None => self.kernel()?.place(id),
        }
    }

    /// Where the type behind one begins.
    fn next(&self, at: usize) -> usize {
        let (_, words) = words_of(self.word(at + 4)).unwrap_or_default();
        at + WORD * words
    }

    /// A word of a type, all of which have been seen to lie within the bytes.
    fn word(&self, at: usize) -> u32 {
        word(&self.bytes, at).unwrap_or(0)
    }

    fn raw_kind(&self, id: u32) -> u32 {
        self.place(id).map_or(0, |(own, at)| (own.word(at + 4) >> 24) & 0x1f)
    }

    /// All strings from this one on.
    fn strings_from(&self, offset: u32) -> &[u8] {
        let Some(offset) = (offset as usize).checked_sub(self.first_string) else {
            return self.kernel().map_or(&[], |kernel| kernel.strings_from(offset));
        };
        let (start, end) = self.strings;
        self.bytes.get(start.saturating_add(offset)..end).unwrap_or_default()
    }

    fn text(&self, offset: u32) -> &str {
        let text = self.strings_from(offset).split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// The first type of its own of that kind and name.
    fn find(&self, kind: u32, name: &str) -> Option<u32> {
        let is_it = |place: usize| {
            let id = self.first + place as u32;
            (self.raw_kind(id) == kind && self.name(id) == name).then_some(id)
        };
        // A name stands once in all strings, and of a module's some stand in the kernel's.
        let kernel = self.kernel();
        let offset = self.offset_of(name).or_else(|| kernel.and_then(|of| of.offset_of(name)))?;
        let mut from = 0;
        while let Some(next) = position(&self.names[from..], offset) {
            if let Some(id) = is_it(from + next) {
                return Some(id);
            }
            from += next + 1;
        }
        None
    }

    /// Where a name stands in its own strings: one that is there is looked for once.
    fn offset_of(&self, name: &str) -> Option<u32> {
        let offsets = || self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let known = offsets().get(name).copied();
        known.or_else(|| {
            let offset = self.find_name(name)?;
            offsets().insert(name.to_string(), offset);
            Some(offset)
        })
    }

    fn find_name(&self, name: &str) -> Option<u32> {
        let strings = self.bytes.get(self.strings.0..self.strings.1)?;
        let whole = [&[0], name.as_bytes(), &[0]].concat();
        let at = memmem::find(strings, &whole)? + 1;
        u32::try_from(self.first_string + at).ok()
    }

    /// The names of its own types of that kind that begin so, without that beginning.
    fn names_of(&self, kind: u32, before: &'static str) -> impl Iterator<Item = (u32, &str)> {
        let first = self.types.first().map_or(0, |at| *at as usize);
        let places = std::iter::successors(Some(first), |at| Some(self.next(*at)));
        let all = self.ids().zip(places).zip(&self.names);
        let all = all.filter(move |((_, at), _)| (self.word(at + 4) >> 24) & 0x1f == kind);
        all.filter_map(move |((id, _), name)| Some((id, self.text(*name).strip_prefix(before)?)))
    }

    /// The name of a type; empty if it has none.
    pub fn name(&self, id: u32) -> &str {
        self.place(id).map_or("", |(own, at)| own.text(own.word(at)))
    }

    /// The names of all tracepoints.
    pub fn tracepoints(&self) -> impl Iterator<Item = &str> {
        self.names_of(TYPEDEF, OF_TRACEPOINT).map(|(_, name)| name)
    }

    /// The type of the programs of a tracepoint: what they are attached by.
    pub fn tracepoint(&self, name: &str) -> Option<u32> {
        self.find(TYPEDEF, &format!("{OF_TRACEPOINT}{name}"))
    }

    /// The type of a tracepoint's record in the kernel's own ring, if it has one of its name.
    pub fn record(&self, tracepoint: &str) -> Option<u32> {
        self.find(STRUCT, &format!("{OF_RECORD}{tracepoint}"))
    }

    /// The function that calls the programs of a tracepoint: its arguments have names.
    pub fn caller(&self, tracepoint: &str) -> Option<u32> {
        self.find(FUNCTION, &format!("{CALLS_TRACEPOINT}{tracepoint}"))
    }

    /// All functions; of a module, its own.
    pub fn functions(&self) -> impl Iterator<Item = (u32, &str)> {
        self.names_of(FUNCTION, "")
    }

    /// A function by its name.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.find(FUNCTION, name)
    }

    /// A structure by its name.
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.find(STRUCT, name)
    }

    /// How far behind its beginning a `struct task_struct` has its name; none if that is another place than loads reach.
    pub fn task_name(&self) -> Option<i16> {
        let members = self.members(self.structure("task_struct")?);
        let name = members.iter().find(|member| member.name == "comm")?;
        i16::try_from(name.bit / 8).ok()
    }

    /// What a type is.
    pub fn kind(&self, id: u32) -> Result<TypeKind, BtfError> {
        if id == 0 {
            return Ok(TypeKind::Void);
        }
        let (own, at) = self.place(id).ok_or(BtfError::Astray(id))?;
        let (info, size) = (own.word(at + 4), own.word(at + 8));
        let flag = info >> 31 == 1;
        Ok(match (info >> 24) & 0x1f {
            1 => {
                let encoding = own.word(at + TYPE) >> 24;
                TypeKind::Int { bytes: size, signed: encoding & 1 != 0, is_bool: encoding & 4 != 0 }
            }
            2 => TypeKind::Pointer(size),
            3 => TypeKind::Array { of: own.word(at + TYPE), count: own.word(at + TYPE + 8) },
            kind @ (4 | 5) => TypeKind::Struct { bytes: size, is_union: kind == 5 },
            6 | 19 => TypeKind::Enum { bytes: size, signed: flag },
            7 => TypeKind::Forward,
            TYPEDEF => TypeKind::Typedef(size),
            9..=11 => TypeKind::Qualified(size),
            FUNCTION => TypeKind::Function(size),
            13 => TypeKind::Prototype(size),
            16 => TypeKind::Float(size),
            18 => TypeKind::Tagged(size),
            _ => TypeKind::Other,
        })
    }

    /// What a type is when other names and qualifiers are taken off, and which that is.
    pub fn bare(&self, mut id: u32) -> Result<(u32, TypeKind), BtfError> {
        for _ in 0..FARTHEST {
            match self.kind(id)? {
                TypeKind::Typedef(next) | TypeKind::Qualified(next) | TypeKind::Tagged(next) => {
                    id = next
                }
                kind => return Ok((id, kind)),
            }
        }
        Err(BtfError::Astray(id))
    }

    /// Whether a remark of that name is made about a type.
    pub fn is_tagged(&self, mut id: u32, tag: &str) -> bool {
        for _ in 0..FARTHEST {
            match self.kind(id) {
                Ok(TypeKind::Tagged(_)) if self.name(id) == tag => return true,
                Ok(
                    TypeKind::Typedef(next) | TypeKind::Qualified(next) | TypeKind::Tagged(next),
                ) => id = next,
                _ => return false,
            }
        }
        false
    }

    /// The members of a structure, or the arguments of a prototype.
    pub fn members(&self, id: u32) -> Vec<Member<'_>> {
        let Some((own, at)) = self.place(id) else { return Vec::new() };
        let info = own.word(at + 4);
        let (count, has_bits) = ((info & 0xffff) as usize, info >> 31 == 1);
        let length = match (info >> 24) & 0x1f {
            4 | 5 => 12,
            13 => 8,
            _ => return Vec::new(),
        };
        let member = |n: usize| {
            let at = at + TYPE + n * length;
            let place = if length == 12 { own.word(at + 8) } else { 0 };
            let (bit, bits) = if has_bits { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
            Member { name: own.text(own.word(at)), kind: own.word(at + 4), bit, bits }
        };
        (0..count).map(member).collect()
    }

    /// The constants of an enumeration.
    pub fn constants(&self, id: u32) -> Vec<(&str, i64)> {
        let Some((own, at)) = self.place(id) else { return Vec::new() };
        let info = own.word(at + 4);
        let (count, signed) = ((info & 0xffff) as usize, info >> 31 == 1);
        let length = match (info >> 24) & 0x1f {
            6 => 8,
            19 => 12,
            _ => return Vec::new(),
        };
        let constant = |n: usize| {
            let at = at + TYPE + n * length;
            let low = own.word(at + 4);
            let value = match (length, signed) {
                (12, _) => (u64::from(own.word(at + 8)) << 32 | u64::from(low)).cast_signed(),
                (_, true) => i64::from(low.cast_signed()),
                (_, false) => i64::from(low),
            };
            (own.text(own.word(at)), value)
        };
        (0..count).map(constant).collect()
    }

    /// How many bytes a value takes.
    pub fn size(&self, id: u32) -> Result<u64, BtfError> {
        let mut times = 1u64;
        let mut id = id;
        for _ in 0..FARTHEST {
            let (bare, kind) = self.bare(id)?;
            let bytes = match kind {
                TypeKind::Int { bytes, .. } | TypeKind::Float(bytes) => bytes,
                TypeKind::Struct { bytes, .. } | TypeKind::Enum { bytes, .. } => bytes,
                TypeKind::Pointer(_) => 8,
                TypeKind::Array { of, count } => {
                    times = times.saturating_mul(u64::from(count));
                    id = of;
                    continue;
                }
                _ => return Err(BtfError::Astray(bare)),
            };
            return Ok(times.saturating_mul(u64::from(bytes)));
        }
        Err(BtfError::Astray(id))
    }

    /// A type as C writes it.
    pub fn describe(&self, id: u32) -> String {
        self.describe_to(id, FARTHEST)
    }

    fn describe_to(&self, id: u32, left: usize) -> String {
        let Some(left) = left.checked_sub(1) else { return "…".to_string() };
        let name = self.name(id);
        let named = |what: &str| match name {
            "" => what.to_string(),
            name => format!("{what} {name}"),
        };
        match self.kind(id) {
            Ok(TypeKind::Void) => "void".to_string(),
            Ok(TypeKind::Pointer(to)) => match self.bare(to) {
                Ok((_, TypeKind::Prototype(_))) => "function *".to_string(),
                _ => {
                    let to = self.describe_to(to, left);
                    if to.ends_with('*') { format!("{to}*") } else { format!("{to} *") }
                }
            },
            Ok(TypeKind::Array { of, count }) => format!("{}[{count}]", self.describe_to(of, left)),
            Ok(TypeKind::Struct { is_union, .. }) => {
                named(if is_union { "union" } else { "struct" })
            }
            Ok(TypeKind::Enum { .. }) => named("enum"),
            Ok(TypeKind::Forward) => named("struct"),
            Ok(TypeKind::Qualified(of) | TypeKind::Tagged(of)) => self.describe_to(of, left),
            Ok(TypeKind::Prototype(_)) => "function".to_string(),
            _ => name.to_string(),
        }
    }
}

const TYPEDEF: u32 = 8;
const STRUCT: u32 = 4;
const FUNCTION: u32 = 12;

const WORD: usize = 4;
/// Of each kind: how many words follow a type's three, and how many each of what it counts takes. Integers, variables and
/// tags of declarations have one, arrays three; members of structures, of sections and of enumerations of 64 bits take
/// three, those of other enumerations and of prototypes two.
const FOLLOWING: [(u8, u8); 20] = {
    let mut all = [(0, 0); 20];
    (all[1], all[14], all[17], all[3]) = ((1, 0), (1, 0), (1, 0), (3, 0));
    (all[4], all[5], all[15], all[19]) = ((0, 3), (0, 3), (0, 3), (0, 3));
    (all[6], all[13]) = ((0, 2), (0, 2));
    all
};

/// The kind of a type, and how many words it takes, by its second one; the kind alone if that is not known.
fn words_of(info: u32) -> Result<(u32, usize), u32> {
    let (kind, count) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
    match FOLLOWING.get(kind as usize) {
        Some((fixed, each)) if kind != 0 => {
            Ok((kind, TYPE / WORD + usize::from(*fixed) + count * usize::from(*each)))
        }
        _ => Err(kind),
    }
}

/// Where each [`STRIDE`]th type begins, and the names of all.
fn find_types(
    bytes: &[u8],
    (start, end): (usize, usize),
) -> Result<(Vec<u32>, Vec<u32>), BtfError> {
    let (words, rest) = bytes.get(start..end).unwrap_or_default().as_chunks::<WORD>();
    let about = (end - start) / BYTES_OF_TYPE;
    let (mut types, mut names) = (Vec::with_capacity(about / STRIDE), Vec::with_capacity(about));
    let mut at = 0;
    while let Some([name, info]) = words.get(at..).and_then(<[_]>::first_chunk) {
        if names.len() % STRIDE == 0 {
            types.push((start + at * WORD) as u32);
        }
        let taken = words_of(u32::from_le_bytes(*info));
        let (_, taken) = taken.map_err(|kind| BtfError::TypeKind { id: names.len() + 1, kind })?;
        names.push(u32::from_le_bytes(*name));
        at += taken;
    }
    match at == words.len() && rest.is_empty() {
        true => Ok((types, names)),
        false => Err(BtfError::CutShort(start + at * WORD)),
    }
}

/// Where a number first stands: a piece is compared as a whole, several numbers at once.
fn position(numbers: &[u32], wanted: u32) -> Option<usize> {
    const PIECE: usize = 64;
    let has_it = |piece: &[u32]| piece.iter().fold(false, |has, number| has | (*number == wanted));
    let piece = numbers.chunks(PIECE).position(has_it)? * PIECE;
    Some(piece + numbers[piece..].iter().position(|number| *number == wanted)?)
}

fn word(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    let field = bytes.get(at..at.saturating_add(4)).and_then(|field| field.try_into().ok());
    field.map(u32::from_le_bytes).ok_or(BtfError::CutShort(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_where_it_first_stands() {
        let numbers: Vec<u32> = (0..200).map(|number| number / 2).collect();
        for wanted in [0, 31, 32, 33, 63, 64, 99] {
            assert_eq!(position(&numbers, wanted), Some(wanted as usize * 2), "{wanted}");
        }
        assert_eq!((position(&numbers, 100), position(&[], 0)), (None, None));
    }
}
