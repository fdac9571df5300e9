//! A list of symbols by address, and how it is read.

use thiserror::Error;

/// Most lines of a list that are read: Debian's kernel has 150,000 symbols.
const MOST: usize = 4_000_000;

/// What lies at a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolContent {
    /// Instructions.
    Code,
    /// A variable, a table.
    Data,
}

/// A name and where it points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Where.
    pub address: u64,
    /// The name.
    pub name: String,
    /// What is there.
    pub kind: SymbolContent,
}

/// The symbols of a kernel.
#[derive(Clone, Debug)]
pub struct Symbols {
    /// By address; of those at the same one, as they were listed.
    pub(super) list: Vec<Symbol>,
    /// Where `_text` is among them.
    pub(super) text: u64,
}

/// Why a list of symbols is of no use.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SymbolsError {
    /// A line of another form.
    #[error("line {line} is {found:?}; `ADDRESS TYPE NAME` was expected, as in /proc/kallsyms")]
    Line {
        /// Which, from 1.
        line: usize,
        /// Its beginning.
        found: String,
    },
    /// More than any kernel has.
    #[error("it has more than {MOST} symbols")]
    TooMany,
    /// The kernel shows 0 for each.
    #[error(
        "all its addresses are 0: the kernel hides them (kernel.kptr_restrict, or no CAP_SYSLOG)"
    )]
    Hidden,
    /// Without it nothing tells where the kernel lies.
    #[error("it has no symbol `_text`, which says where the kernel lies")]
    NoText,
    /// Its names do not fall on the image's code.
    #[error(
        "{outside} of its {code} functions lie outside the image's code: it is of another kernel"
    )]
    OtherKernel {
        /// How many do not.
        outside: usize,
        /// Of how many.
        code: usize,
    },
}

impl Symbols {
    /// A list with what it says of `_text`.
    pub fn new(mut list: Vec<Symbol>, text: u64) -> Self {
        list.sort_by_key(|symbol| symbol.address);
        Self { list, text }
    }

    /// Reads `/proc/kallsyms` or a `System.map`.
    pub fn parse(bytes: &[u8]) -> Result<Self, SymbolsError> {
        let mut list = Vec::new();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for (number, line) in lines.enumerate() {
            if number >= MOST {
                return Err(SymbolsError::TooMany);
            }
            let bad = || SymbolsError::Line {
                line: number + 1,
                found: String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned(),
            };
            let text = std::str::from_utf8(line).map_err(|_| bad())?;
            list.extend(parse_line(text).ok_or_else(bad)?);
        }
        if list.iter().all(|symbol| symbol.address == 0) && !list.is_empty() {
            return Err(SymbolsError::Hidden);
        }
        let text = list.iter().find(|symbol| symbol.name == "_text").ok_or(SymbolsError::NoText)?;
        let text = text.address;
        Ok(Self::new(list, text))
    }

    /// All of them, by address.
    pub fn list(&self) -> &[Symbol] {
        &self.list
    }

    /// The address of a name.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.list.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.address)
    }
}

/// One line; nothing if it is a symbol that is not asked for, no line at all if it is none.
#[allow(clippy::option_option)]
fn parse_line(line: &str) -> Option<Option<Symbol>> {
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let [kind] = *fields.next()?.as_bytes() else { return None };
    let name = fields.next()?;
    let module = fields.next();
    let is_right = module.is_none_or(|module| module.starts_with('[')) && fields.next().is_none();
    if !is_right {
        return None;
    }
    let kind = kind_of(kind).filter(|_| module.is_none());
    Some(kind.map(|kind| Symbol { address, name: name.to_string(), kind }))
}

/// What nm's letter says.
pub(super) fn kind_of(letter: u8) -> Option<SymbolContent> {
    match letter.to_ascii_lowercase() {
        b't' | b'w' => Some(SymbolContent::Code),
        b'd' | b'r' | b'b' | b'v' => Some(SymbolContent::Data),
        _ => None,
    }
}
