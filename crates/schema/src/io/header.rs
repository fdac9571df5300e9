//! The header that the BPF programs and the preload library take their structures from.

use std::fmt::Write as _;

use super::counting::{DIRECT_BLOCK, SMALL_SYNC};
use super::field::{FIELDS, SIZES};
use super::offset_histogram::{PLACE_SHIFT, PLACES};
use super::transfer::Transfer;
use super::usage::{SEEN, STRIDES};

/// What is remembered of the reads, or of the writes.
const DIRECTION: &str = "\
struct io_stretch {
	__u64 from, to;
};

struct io_stride {
	__s64 bytes;
	__u64 times;
};

struct io_direction {
	__u64 last_from, last_to;
	__s64 last_stride;
	__u64 accesses;
	struct io_stretch seen[IO_SEEN];
	struct io_stride strides[IO_STRIDES];
};

#endif
";

/// The structure of the numbers, and its bounds, in C.
pub fn c_header() -> String {
    let mut text = String::from(
        "/* Derived from crates/schema/src/io. */\n#ifndef WEIGH_IO_NUMBERS_H\n#define WEIGH_IO_NUMBERS_H\n",
    );
    let _ = writeln!(text, "#define IO_SIZES {SIZES}\n#define IO_SEEN {SEEN}");
    let _ = writeln!(text, "#define IO_STRIDES {STRIDES}\n#define IO_PLACES {PLACES}");
    let _ = writeln!(text, "#define IO_PLACE_BITS {}", PLACES.trailing_zeros());
    let _ = writeln!(
        text,
        "#define IO_DIRECT_BLOCK {DIRECT_BLOCK}\n#define IO_SMALL_SYNC {SMALL_SYNC}"
    );
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
    text.push_str("};\n\n");
    text.push_str(DIRECTION);
    text
}
