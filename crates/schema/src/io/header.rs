//! The header that the BPF programs take their structures from.

use std::fmt::Write as _;

use super::field::{FIELDS, SIZES};
use super::offset_histogram::{PLACE_SHIFT, PLACES};
use super::transfer::Transfer;
use super::usage::{SEEN, STRIDES};

/// The structure of the numbers, and its bounds, in C.
pub fn c_header() -> String {
    let mut text = String::from("/* Derived from crates/schema/src/io. */\n");
    let _ = writeln!(text, "#define IO_SIZES {SIZES}\n#define IO_SEEN {SEEN}");
    let _ = writeln!(text, "#define IO_STRIDES {STRIDES}\n#define IO_PLACES {PLACES}");
    let _ = writeln!(text, "#define IO_PLACE_BITS {}", PLACES.trailing_zeros());
    let _ = writeln!(text, "#define IO_PLACE_SHIFT {PLACE_SHIFT}\n\nenum io_transfer {{");
    for transfer in Transfer::ALL {
        let _ = writeln!(text, "\tIO_{},", transfer.name().to_uppercase());
    }
    text.push_str("\tIO_TRANSFERS,\n};\n\n");
    text.push_str("struct io_numbers {\n");
    text.push_str("\t__u64 bytes[IO_TRANSFERS][2], calls[IO_TRANSFERS][2];\n");
    text.push_str("\t__u64 sizes[2][IO_SIZES];\n");
    for field in FIELDS {
        let _ = writeln!(text, "\t__u64 {};", field.slot());
    }
    text.push_str("};\n");
    text
}
