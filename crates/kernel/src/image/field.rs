//! Numbers in an image, and why no kernel could be got out of one.

use thiserror::Error;

/// The most that an image may unpack to. Debian's kernels unpack to 55 MB.
pub const LARGEST: usize = 256 << 20;

/// Why no kernel could be got out of an image.
#[derive(Debug, Error)]
pub enum ImageError {
    /// Neither of the two forms.
    #[error("neither an ELF file nor an x86 boot image (no `HdrS` at byte 514)")]
    NoImage,
    /// A boot image from before the payload could be found.
    #[error("the boot protocol is {0:#x}; 0x208 or newer was expected (Linux 2.6.24)")]
    TooOld(u16),
    /// It ends before what its header speaks of.
    #[error("{what} lies beyond its end (byte {end}, of {length})")]
    CutShort {
        /// What was looked for.
        what: &'static str,
        /// Where that would end.
        end: usize,
        /// Where the image does.
        length: usize,
    },
    /// A compression that is not read.
    #[error("the kernel in it is compressed by {0}; gzip, xz, zstd and lz4 can be read")]
    Compression(&'static str),
    /// What follows the header is nothing known.
    #[error("the kernel in it begins with {0:02x?}, which is no compression known")]
    UnknownCompression([u8; 4]),
    /// The compressed data is wrong.
    #[error("the kernel in it cannot be unpacked by {by}: {why}")]
    Unpack {
        /// The compression.
        by: &'static str,
        /// What its decoder says.
        why: String,
    },
    /// The compressed data is right, and more than there can be.
    #[error("the kernel in it is larger than {LARGEST} bytes")]
    TooLarge,
    /// The payload's last four bytes say another size.
    #[error("the kernel in it unpacks to {found} bytes; it says {expected}")]
    Size {
        /// What it says.
        expected: usize,
        /// What came out.
        found: usize,
    },
}

pub(super) fn short(what: &'static str, end: usize, length: usize) -> ImageError {
    ImageError::CutShort { what, end, length }
}

pub(super) fn u16_at(bytes: &[u8], at: usize, what: &'static str) -> Result<u16, ImageError> {
    let field = bytes.get(at..at + 2).and_then(|field| field.try_into().ok());
    field.map(u16::from_le_bytes).ok_or(short(what, at + 2, bytes.len()))
}

pub(super) fn u32_at(bytes: &[u8], at: usize, what: &'static str) -> Result<u32, ImageError> {
    let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
    field.map(u32::from_le_bytes).ok_or(short(what, at + 4, bytes.len()))
}
