//! What a field of a record is, as readers are told that are other programs: words in the description of a
//! stream, numbers in libweigh's header. Declared once; the header is derived.

use std::fmt::Write as _;

use crate::condition::{Source, TextSource};
use crate::packet_header::Side;
use crate::path_resolve::{End, Meaning, PathEnd, Shape};
use crate::probe::{Content, ProbeField};
use crate::record::{HEADER, HeaderPart};

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number that is never below 0.
    Unsigned,
    /// A number.
    Signed,
    /// 0 or 1.
    Bool,
    /// An address.
    Pointer,
    /// A number with names.
    Enumeration,
    /// Characters, up to the first that is 0.
    Text,
    /// Bytes.
    Bytes,
    /// Addresses of functions of the kernel, the innermost first.
    Stack,
    /// The same of the program.
    UserStack,
    /// An address of IP.
    Address,
}

/// All of them: word, name in C, what it is.
const KINDS: &[(FieldKind, &str, &str, &str)] = &[
    (FieldKind::Unsigned, "unsigned", "UNSIGNED", "a number that is never below 0"),
    (FieldKind::Signed, "signed", "SIGNED", "a number"),
    (FieldKind::Bool, "bool", "BOOL", "0 or 1"),
    (FieldKind::Pointer, "pointer", "POINTER", "an address"),
    (FieldKind::Enumeration, "enum", "ENUM", "a number whose names the description has"),
    (FieldKind::Text, "text", "TEXT", "characters, up to the first that is 0"),
    (FieldKind::Bytes, "bytes", "BYTES", "bytes"),
    (
        FieldKind::Stack,
        "stack",
        "STACK",
        "addresses of the kernel's functions, the innermost first, up to the first that is 0",
    ),
    (FieldKind::UserStack, "ustack", "USTACK", "the same of the program's functions"),
    (
        FieldKind::Address,
        "ip",
        "IP",
        "an address of IP, 16 bytes in the order of the network; before one of IPv4 stands ::ffff:",
    ),
];

impl FieldKind {
    /// Of a field.
    pub fn of(field: &ProbeField) -> FieldKind {
        match field.shape {
            Shape::Unsigned => FieldKind::Unsigned,
            Shape::Signed => FieldKind::Signed,
            Shape::Bool => FieldKind::Bool,
            Shape::Pointer => FieldKind::Pointer,
            Shape::Enum(_) => FieldKind::Enumeration,
            Shape::Text => FieldKind::Text,
            Shape::Bytes => FieldKind::Bytes,
            Shape::Address => FieldKind::Address,
            Shape::Stack => match field.content {
                Content::Stack { is_user: true } => FieldKind::UserStack,
                _ => FieldKind::Stack,
            },
        }
    }

    /// As it is told.
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("bytes", |(_, word, ..)| word)
    }

    /// The one that is told so.
    pub fn named(word: &str) -> Option<FieldKind> {
        KINDS.iter().find(|(_, other, ..)| *other == word).map(|(kind, ..)| *kind)
    }

    /// A number of that kind that comes from somewhere.
    pub fn as_number(self) -> Source {
        match self.as_read(8, self == FieldKind::Signed) {
            (_, Content::Number(source)) => source,
            _ => Source::Tid,
        }
    }

    /// How such a field is read by a reader that did not ask for it: where its value came from is not known.
    pub fn as_read(self, bytes: u32, is_signed: bool) -> (Shape, Content) {
        let shape = match self {
            FieldKind::Unsigned => Shape::Unsigned,
            FieldKind::Signed => Shape::Signed,
            FieldKind::Bool => Shape::Bool,
            FieldKind::Pointer => Shape::Pointer,
            FieldKind::Enumeration => Shape::Enum(0),
            FieldKind::Text => Shape::Text,
            FieldKind::Bytes => Shape::Bytes,
            FieldKind::Address => Shape::Address,
            FieldKind::Stack | FieldKind::UserStack => Shape::Stack,
        };
        let place = || PathEnd {
            slot: 0,
            hops: Vec::new(),
            end: End::Argument,
            bytes,
            shape,
            is_signed,
            kind: 0,
            meaning: Meaning::Plain,
        };
        let content = match self {
            FieldKind::Text => {
                Content::Text { source: TextSource::PathEnd(place()), is_user: false }
            }
            FieldKind::Address => Content::Address(Side::Source),
            FieldKind::Bytes => Content::Bytes { place: place(), plus: None, is_user: false },
            FieldKind::Stack => Content::Stack { is_user: false },
            FieldKind::UserStack => Content::Stack { is_user: true },
            _ => Content::Number(Source::PathEnd(place())),
        };
        (shape, content)
    }
}

/// `weigh_event.h`: what readers of a stream know of its records.
pub fn header() -> String {
    let mut text = String::from(
        "/* Derived from crates/trace by `weigh generate`. */\n#ifndef WEIGH_EVENT_H\n#define WEIGH_EVENT_H\n\n\
         #include <stdint.h>\n\n/* What every event begins with; its fields follow. */\nstruct weigh_event {\n",
    );
    for HeaderPart { name, bytes, help, .. } in HEADER {
        let _ = writeln!(text, "\tuint{}_t {name}; /* {help} */", bytes * 8);
    }
    text.push_str("};\n\n/* What a field is. */\nenum weigh_trace_kind {\n");
    for (_, _, name, help) in KINDS {
        let _ = writeln!(text, "\tWEIGH_TRACE_{name}, /* {help} */");
    }
    text.push_str("};\n\n/* Their names in descriptions, in this order. */\n#define WEIGH_TRACE_KIND_NAMES \\\n\t{ \\\n");
    for (_, word, ..) in KINDS {
        let _ = writeln!(text, "\t\t\"{word}\", \\");
    }
    text.push_str("\t}\n\n#endif\n");
    text
}

/// `rust/src/event.rs` of libweigh: the same for Rust.
pub fn rust() -> String {
    let mut text = String::from(
        "//! What readers of a stream know of its records. Derived from crates/trace by `weigh generate`.\n\n\
         /// What every event begins with.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub struct Header {\n",
    );
    for HeaderPart { name, bytes, help, .. } in HEADER {
        let _ = writeln!(text, "    /// {}\n    pub {name}: u{},", sentence(help), bytes * 8);
    }
    let _ = writeln!(
        text,
        "}}\n\n/// Bytes of it.\npub(crate) const HEADER_BYTES: usize = {};\n\nimpl Header {{\n    \
         /// That of a record; none if it is shorter.\n    \
         pub(crate) fn of(record: &[u8]) -> Option<Header> {{\n        Some(Header {{",
        HEADER.iter().map(|part| part.bytes).sum::<usize>()
    );
    let mut at = 0;
    for HeaderPart { name, bytes, .. } in HEADER {
        let (from, to, bits) = (at, at + bytes, bytes * 8);
        let _ = writeln!(
            text,
            "            {name}: u{bits}::from_le_bytes(record.get({from}..{to})?.try_into().ok()?),"
        );
        at = to;
    }
    text.push_str(
        "        })\n    }\n}\n\n/// What a field is.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n#[repr(u32)]\n\
         pub enum FieldKind {\n",
    );
    let camel = |name: &str| name[..1].to_string() + &name[1..].to_lowercase();
    for (number, (_, _, name, help)) in KINDS.iter().enumerate() {
        let _ = writeln!(text, "    /// {}\n    {} = {number},", sentence(help), camel(name));
    }
    text.push_str("}\n\nimpl FieldKind {\n    pub(crate) fn numbered(number: u32) -> Option<FieldKind> {\n        Some(match number {\n");
    for (number, (_, _, name, _)) in KINDS.iter().enumerate() {
        let _ = writeln!(text, "            {number} => FieldKind::{},", camel(name));
    }
    text.push_str("            _ => return None,\n        })\n    }\n}\n");
    text
}

fn sentence(help: &str) -> String {
    help[..1].to_uppercase() + &help[1..] + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_word_and_read_as_it_is() {
        for (kind, word, ..) in KINDS {
            assert_eq!((FieldKind::named(word), kind.word()), (Some(*kind), *word));
            let (shape, content) = kind.as_read(8, false);
            let field = ProbeField {
                name: String::new(),
                shape,
                is_signed: false,
                offset: 40,
                bytes: 8,
                content,
                constants: Vec::new(),
            };
            assert_eq!(FieldKind::of(&field), *kind);
        }
        assert_eq!(FieldKind::named("float"), None);
    }
}
