//! The symbols that an image holds for its own `/proc/kallsyms`: nothing but the image is needed.
//!
//! `scripts/kallsyms.c` of the kernel writes them into `.rodata`, without symbols of their own:
//! names as numbers of 256 tokens, the beginning of each 256th name (markers), the tokens, where
//! each token begins, and each symbol's offset to a base. The tokens are found by the digits, which
//! stand for themselves; their beginnings must be what follows. From there each part is where the
//! layouts have it: addresses before the names up to 6.3, behind the tokens since 6.4; between markers
//! and tokens may lie three bytes for each name, the order of the names (6.2, and 6.1 as it is kept
//! up). Each step is checked by the next. Refuses an image in which one is not found: CONFIG_KALLSYMS
//! is off, or another layout.

use thiserror::Error;

use super::list::{Symbol, Symbols, kind_of};
use crate::elf::Elf;

const TOKENS: usize = 256;
const GROUP: usize = 256;
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";
/// The most names that are looked for: Debian's kernel has 150,000.
const MOST: usize = 1 << 20;
/// The most places that look like tokens.
const MOST_PLACES: usize = 64;
/// What a name takes in the order of the names.
const ORDER: usize = 3;
/// The most that a name may take, packed or not.
const LONGEST: usize = 1024;

/// Why an image's own symbols cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EmbeddedError {
    /// There is nowhere to look.
    #[error("there is no section .rodata")]
    NoData,
    /// No tokens, or not followed by where they begin.
    #[error("no tokens of names (kallsyms_token_table) are in .rodata")]
    NoTokens,
    /// No markers before the tokens.
    #[error("no markers (kallsyms_markers) are before the tokens")]
    NoMarkers,
    /// No number of names, or not so many names.
    #[error("no names (kallsyms_names) are before the markers")]
    NoNames,
    /// No addresses in either place.
    #[error("no addresses (kallsyms_offsets) are before the names or behind the tokens")]
    NoAddresses,
}

/// Finds them.
pub fn find(elf: &Elf) -> Result<Symbols, EmbeddedError> {
    let data = elf.section(".rodata").ok_or(EmbeddedError::NoData)?.data;
    let tokens = Tokens::find(data).ok_or(EmbeddedError::NoTokens)?;
    let markers = Markers::find(data, tokens.start).ok_or(EmbeddedError::NoMarkers)?;
    let names = Names::find(data, &markers).ok_or(EmbeddedError::NoNames)?;
    let is_kernel = |address| elf.section_at(address).is_some();
    let places = [names.before_offsets(), Some(tokens.end)];
    let addresses = places
        .into_iter()
        .flatten()
        .find_map(|at| addresses(data, at, names.count, is_kernel))
        .ok_or(EmbeddedError::NoAddresses)?;
    let mut list = Vec::with_capacity(names.count);
    let mut at = names.start;
    for address in addresses {
        let (name, next) = packed_name(data, at).ok_or(EmbeddedError::NoNames)?;
        at = next;
        // What is per CPU has no address.
        let Some(address) = address else { continue };
        let (kind, name) = tokens.name(name).ok_or(EmbeddedError::NoNames)?;
        let Some(kind) = kind_of(kind) else { continue };
        list.push(Symbol { address, name, kind });
    }
    let text = list.iter().find(|symbol| symbol.name == "_text").map(|symbol| symbol.address);
    Ok(Symbols::new(list, text.unwrap_or_else(|| elf.text())))
}

/// What names are made of.
struct Tokens<'a> {
    list: Vec<&'a [u8]>,
    start: usize,
    /// Behind the table of where they begin.
    end: usize,
}

impl<'a> Tokens<'a> {
    fn find(data: &'a [u8]) -> Option<Self> {
        let digits = data.windows(DIGITS.len()).enumerate();
        let mut places = digits.filter(|(_, window)| *window == DIGITS).take(MOST_PLACES);
        places.find_map(|(at, _)| Self::around(data, at))
    }

    /// Those whose 48th is the digit 0 that lies there.
    fn around(data: &'a [u8], zero: usize) -> Option<Self> {
        let mut start = zero;
        for _ in 0..usize::from(b'0') {
            let before = data.get(..start.checked_sub(1)?)?;
            let nearest = &before[before.len().saturating_sub(LONGEST)..];
            start = before.len() - nearest.iter().rev().position(|byte| *byte == 0)?;
        }
        let mut list = Vec::with_capacity(TOKENS);
        let (mut at, mut begins) = (start, Vec::with_capacity(TOKENS * 2));
        for _ in 0..TOKENS {
            let length = data.get(at..)?.iter().take(LONGEST).position(|byte| *byte == 0)?;
            begins.extend(u16::try_from(at - start).ok()?.to_le_bytes());
            list.push(&data[at..at + length]);
            at += length + 1;
        }
        let index = aligned(at);
        let end = index + begins.len();
        (data.get(index..end)? == begins).then_some(Self { list, start, end })
    }

    /// A name from the numbers of its tokens; its first letter says what it names.
    fn name(&self, packed: &[u8]) -> Option<(u8, String)> {
        let whole: Vec<u8> =
            packed.iter().flat_map(|token| self.list[usize::from(*token)]).copied().collect();
        let (kind, name) = whole.split_first()?;
        (name.len() <= LONGEST).then(|| (*kind, String::from_utf8_lossy(name).into_owned()))
    }
}

/// Where each 256th name begins.
struct Markers {
    start: usize,
    list: Vec<u32>,
}

impl Markers {
    /// Those that end where the tokens begin, or where the order of the names does before them.
    fn find(data: &[u8], tokens: usize) -> Option<Self> {
        let with_order = |count: &usize| {
            let groups = count.div_ceil(GROUP);
            let end = tokens.checked_sub(aligned(count * ORDER))?;
            Self::before(data, end, groups).filter(|found| found.list.len() == groups)
        };
        Self::before(data, tokens, MOST / GROUP)
            .or_else(|| (1..MOST.min(tokens / ORDER)).find_map(|count| with_order(&count)))
    }

    /// The words that end there, and grow from 0; no more than so many.
    fn before(data: &[u8], end: usize, most: usize) -> Option<Self> {
        let mut at = end.checked_sub(4)?;
        let mut last = word(data, at)?;
        if last == 0 {
            at = at.checked_sub(4)?;
            last = word(data, at)?;
        }
        let mut list = vec![last];
        while last != 0 {
            at = at.checked_sub(4)?;
            let before = word(data, at)?;
            // A group of names takes its 256 lengths at least, and has a greatest size.
            let group = last.checked_sub(before)? as usize;
            if !(GROUP..=GROUP * LONGEST).contains(&group) || list.len() >= most {
                return None;
            }
            list.push(before);
            last = before;
        }
        list.reverse();
        Some(Self { start: at, list })
    }
}

/// The names, packed.
struct Names {
    start: usize,
    count: usize,
}

impl Names {
    /// They end where the markers begin, and how many they are stands before them.
    fn find(data: &[u8], markers: &Markers) -> Option<Self> {
        let groups = markers.list.len();
        let last = *markers.list.last()? as usize;
        let latest = markers.start.checked_sub(last)? & !7;
        let earliest = latest.saturating_sub(GROUP * LONGEST).max(8);
        (earliest..=latest).rev().filter(|start| start % 8 == 0).find_map(|start| {
            let count = word(data, start - 8)? as usize;
            let fits = count.div_ceil(GROUP) == groups && word(data, start - 4)? == 0;
            let names = Self { start, count };
            (fits && names.reach(data, markers)).then_some(names)
        })
    }

    /// Whether the last group, walked through, ends where the markers begin, and the first where the
    /// second is said to begin.
    fn reach(&self, data: &[u8], markers: &Markers) -> bool {
        let walk = |from: usize, names: usize| {
            (0..names).try_fold(from, |at, _| packed_name(data, at).map(|(_, next)| next))
        };
        let (last, groups) = (markers.list[markers.list.len() - 1] as usize, markers.list.len());
        let ends = walk(self.start + last, self.count - (groups - 1) * GROUP).map(aligned);
        let second = markers.list.get(1).map(|second| self.start + *second as usize);
        ends == Some(markers.start) && (second.is_none() || walk(self.start, GROUP) == second)
    }

    /// Where the offsets begin, if they end, with their base, before the number of names.
    fn before_offsets(&self) -> Option<usize> {
        self.start.checked_sub(16)?.checked_sub(aligned(self.count * 4))
    }
}

/// The tokens' numbers of the name there, and where the next is. Lengths from 128 take two bytes.
fn packed_name(data: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let first = usize::from(*data.get(at)?);
    let (start, length) = match first & 0x80 {
        0 => (at + 1, first),
        _ => (at + 2, (first & 0x7f) | usize::from(*data.get(at + 1)?) << 7),
    };
    let name = data.get(start..start + length).filter(|_| (1..=LONGEST).contains(&length))?;
    Some((name, start + length))
}

/// Offsets, and behind them the base that they count from. Kernels with symbols per CPU say the
/// others by negative numbers; then what is not negative is one of those.
fn addresses(
    data: &[u8],
    at: usize,
    count: usize,
    is_kernel: impl Fn(u64) -> bool,
) -> Option<Vec<Option<u64>>> {
    let end = at.checked_add(count.checked_mul(4)?)?;
    let offsets = data.get(at..end)?.chunks_exact(4);
    let offsets: Vec<i32> =
        offsets.filter_map(|word| Some(i32::from_le_bytes(word.try_into().ok()?))).collect();
    let base = data.get(aligned(end)..aligned(end) + 8)?.try_into().ok()?;
    let base = u64::from_le_bytes(base);
    if !is_kernel(base) {
        return None;
    }
    let is_signed = offsets.iter().filter(|offset| **offset < 0).count() > count / 2;
    let address = |offset: &i32| match (is_signed, *offset) {
        (true, 0..) => None,
        (true, offset) => Some(base.wrapping_add(u64::from(offset.unsigned_abs()) - 1)),
        (false, offset) => Some(base.wrapping_add(u64::from(offset as u32))),
    };
    Some(offsets.iter().map(address).collect())
}

fn aligned(at: usize) -> usize {
    at.next_multiple_of(8)
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}
