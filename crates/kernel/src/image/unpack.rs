//! The compressions that kernels come in, told by their first bytes.
//!
//! Reads the payload of a boot image, whose last four bytes are the size unpacked (gzip has that of
//! itself). Emits no more bytes than it is told. What a decoder sets aside for itself is bounded, too.

use std::io::Read;

use super::field::{ImageError, u32_at};

/// What a dictionary or a window may take: what the kernel's own build asks for is 128 MiB.
const LARGEST_WINDOW: u32 = 128 << 10;

/// The kernel's blocks of LZ4 unpack to this much, the last one to less.
const LZ4_BLOCK: usize = 8 << 20;

type Unpack = fn(&[u8], usize) -> Result<Vec<u8>, ImageError>;

/// How the payload begins, and what that means.
const KNOWN: &[(&[u8], Unpack)] = &[
    (b"\x1f\x8b", gzip),
    (b"\xfd7zXZ\0", xz),
    (b"\x28\xb5\x2f\xfd", zstd),
    (b"\x02\x21\x4c\x18", lz4),
    (b"BZh", |_, _| Err(ImageError::Compression("bzip2"))),
    (b"\x5d\0\0", |_, _| Err(ImageError::Compression("lzma"))),
    (b"\x89LZO", |_, _| Err(ImageError::Compression("lzo"))),
];

/// Unpacks a payload of at most so many bytes.
pub fn unpack(packed: &[u8], most: usize) -> Result<Vec<u8>, ImageError> {
    match KNOWN.iter().find(|(start, _)| packed.starts_with(start)) {
        Some((_, unpack)) => unpack(packed, most),
        None => {
            let mut start = [0; 4];
            start.iter_mut().zip(packed).for_each(|(to, from)| *to = *from);
            Err(ImageError::UnknownCompression(start))
        }
    }
}

fn gzip(packed: &[u8], most: usize) -> Result<Vec<u8>, ImageError> {
    bounded("gzip", most, flate2::read::GzDecoder::new(packed))
}

fn xz(packed: &[u8], most: usize) -> Result<Vec<u8>, ImageError> {
    bounded("xz", most, lzma_rust2::XzReader::new_mem_limit(packed, false, LARGEST_WINDOW + 1024))
}

fn zstd(packed: &[u8], most: usize) -> Result<Vec<u8>, ImageError> {
    let reader = ruzstd::decoding::StreamingDecoder::new(packed);
    bounded("zstd", most, reader.map_err(|error| broken("zstd", error))?)
}

/// The legacy frame: a size and a block, again and again. It has no end of its own: what is left
/// when only the unpacked size remains is that.
fn lz4(packed: &[u8], most: usize) -> Result<Vec<u8>, ImageError> {
    let mut unpacked = Vec::new();
    let mut block = vec![0; LZ4_BLOCK];
    let mut at = 4;
    while packed.len().saturating_sub(at) > 4 {
        let length = u32_at(packed, at, "a block's size")? as usize;
        let end = (at + 4).saturating_add(length);
        let cut = ImageError::CutShort { what: "a block of LZ4", end, length: packed.len() };
        let data = packed.get(at + 4..end).ok_or(cut)?;
        let size = lz4_flex::block::decompress_into(data, &mut block)
            .map_err(|error| broken("lz4", error))?;
        if unpacked.len() + size > most {
            return Err(ImageError::TooLarge);
        }
        unpacked.extend_from_slice(&block[..size]);
        at = end;
    }
    Ok(unpacked)
}

fn bounded(by: &'static str, most: usize, reader: impl Read) -> Result<Vec<u8>, ImageError> {
    let mut unpacked = Vec::new();
    reader.take(most as u64 + 1).read_to_end(&mut unpacked).map_err(|error| broken(by, error))?;
    if unpacked.len() > most {
        return Err(ImageError::TooLarge);
    }
    Ok(unpacked)
}

fn broken(by: &'static str, why: impl std::fmt::Display) -> ImageError {
    ImageError::Unpack { by, why: why.to_string() }
}
