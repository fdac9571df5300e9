//! What a configuration has made of the parts of the kernel, as the server tells programs with
//! libweigh: which are left out and why, the names of those that it defines, and of their numbers.
//!
//! Emits the bytes of a structure, and that structure as C. Refuses nothing: a text that is too long is cut.

use std::fmt::Write as _;

use crate::custom_subsystem::{CustomParts, OWN_NUMBERS};
use crate::subsystem::{PARTS, SUBSYSTEMS};

/// Room for a name: the longest is of what comes later of a part, in nanoseconds.
pub const NAME_BYTES: usize = 48;
/// Room for why a part is not seen: it may name a file.
pub const WHY_BYTES: usize = 464;

/// What the name of a number of what comes later begins with.
pub const LATER_PREFIX: &str = "later.";

/// Bytes of the whole.
pub const CONFIGURED_BYTES: usize =
    8 + PARTS * (NAME_BYTES + WHY_BYTES) + OWN_NUMBERS * (16 + NAME_BYTES);

/// What is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// The set of the built-in parts that are left out.
    pub removed: u64,
    /// Why parts are not seen, by their numbers.
    pub whys: Vec<(usize, String)>,
    /// The parts that the configuration defines, if it does.
    pub own: Option<CustomParts>,
}

impl Configured {
    /// As it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let own = self.own.as_deref().unwrap_or_default();
        let mut bytes = self.removed.to_ne_bytes().to_vec();
        for number in 0..PARTS {
            let defined = number.checked_sub(SUBSYSTEMS.len()).and_then(|place| own.get(place));
            put(&mut bytes, defined.map_or("", |part| &part.name), NAME_BYTES);
            let why = self.whys.iter().find(|(part, _)| *part == number);
            put(&mut bytes, why.map_or("", |(_, why)| why), WHY_BYTES);
        }
        let mut numbers = vec![(0, 0, String::new()); OWN_NUMBERS];
        for (part, place) in own.iter().zip(SUBSYSTEMS.len()..) {
            let sums = part.sums.iter().map(|number| ("", number));
            let later = part.later.iter().map(|number| (LATER_PREFIX, number));
            for (prefix, number) in sums.chain(later) {
                let name = number.c_name();
                let is_ns = u64::from(name.ends_with("_ns") && number.key.ends_with("_seconds"));
                if let Some(told) = numbers.get_mut(number.slot) {
                    *told = (place as u64, is_ns, format!("{prefix}{name}"));
                }
            }
        }
        for (part, is_ns, name) in numbers {
            bytes.extend(part.to_ne_bytes());
            bytes.extend(is_ns.to_ne_bytes());
            put(&mut bytes, &name, NAME_BYTES);
        }
        bytes
    }
}

/// A text in its room, which ends with a zero.
fn put(bytes: &mut Vec<u8>, text: &str, room: usize) {
    let end = bytes.len() + room;
    let mut length = text.len().min(room - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    bytes.extend(&text.as_bytes()[..length]);
    bytes.resize(end, 0);
}

/// The structure as C.
pub(crate) fn c_text() -> String {
    let mut text = String::new();
    let _ = write!(
        text,
        "#define WEIGH_NAME_BYTES {NAME_BYTES}\n#define WEIGH_WHY_BYTES {WHY_BYTES}\n\
         #define WEIGH_LATER_PREFIX \"{LATER_PREFIX}\"\n\n\
         /* What a configuration has made of the parts of the kernel, by number. */\n\
         struct weigh_configured {{\n\
         \tWEIGH_U64 removed; /* bit set of the built-in parts that it leaves out */\n\
         \tstruct {{\n\
         \t\tchar name[WEIGH_NAME_BYTES]; /* of a part that it defines */\n\
         \t\tchar why[WEIGH_WHY_BYTES]; /* it is not seen */\n\
         \t}} parts[WEIGH_SUBSYSTEMS];\n\
         \tstruct {{\n\
         \t\tWEIGH_U64 part; /* whose it is; 0: there is no such number */\n\
         \t\tWEIGH_U64 is_ns; /* nanoseconds; else bytes, or things */\n\
         \t\tchar name[WEIGH_NAME_BYTES]; /* with WEIGH_LATER_PREFIX if it comes later */\n\
         \t}} numbers[WEIGH_OWN_NUMBERS]; /* in the order of `own` of an account */\n\
         }};\n\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::parse;

    /// A text that ends with a zero.
    fn text(bytes: &[u8]) -> &str {
        let end = bytes.iter().position(|byte| *byte == 0).expect("it ends");
        std::str::from_utf8(&bytes[..end]).expect("text")
    }

    #[test]
    fn names_and_reasons_lie_where_c_looks_for_them() {
        let example = include_str!("../../../examples/link-layer.toml");
        let own = parse("f.toml", example).expect("it is one").own();
        let long = "ü".repeat(WHY_BYTES);
        let whys = vec![(4, "removed by f.toml".to_string()), (20, long)];
        let told = Configured { removed: 1 << 4, whys, own: Some(own) };
        let bytes = told.bytes();
        assert_eq!(bytes.len(), CONFIGURED_BYTES);
        assert_eq!(bytes[..8], (1_u64 << 4).to_ne_bytes());
        let part = |number: usize| {
            let start = 8 + number * (NAME_BYTES + WHY_BYTES);
            (text(&bytes[start..]), text(&bytes[start + NAME_BYTES..]))
        };
        assert_eq!((part(4), part(5)), (("", "removed by f.toml"), ("", "")));
        let (name, why) = part(SUBSYSTEMS.len());
        assert_eq!((name, why.chars().count()), ("link_layer", (WHY_BYTES - 1) / 2));
        assert_eq!(part(SUBSYSTEMS.len() + 1), ("", ""));
        let number = |slot: usize| {
            let start = 8 + PARTS * (NAME_BYTES + WHY_BYTES) + slot * (16 + NAME_BYTES);
            let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
            (word(start), word(start + 8), text(&bytes[start + 16..]))
        };
        let part = SUBSYSTEMS.len() as u64;
        assert_eq!(number(0), (part, 0, "bytes"));
        assert_eq!(number(1), (part, 0, "later.link_layer"));
        assert_eq!(number(2), (part, 1, "later.link_layer_ns"));
        assert_eq!(number(3), (0, 0, ""));
    }

    #[test]
    fn the_longest_name_has_room() {
        let name = "a".repeat(32);
        let later = "later = { start = \"f\", end = \"g\", match = \"a\" }";
        let own =
            parse("f.toml", &format!("[subsystem.{name}]\n{later}\n")).expect("it is one").own();
        let bytes = Configured { own: Some(own), ..Configured::default() }.bytes();
        let start = 8 + PARTS * (NAME_BYTES + WHY_BYTES) + 16 + NAME_BYTES;
        assert_eq!(text(&bytes[start + 16..]), format!("later.{name}_ns"));
    }
}
