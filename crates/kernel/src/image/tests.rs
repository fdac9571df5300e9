use super::*;
use crate::sample::boot_image;

use std::io::Write as _;

const CONTENT: &[u8] = b"\x7fELF what a kernel is, what a kernel is, what a kernel is";

fn with_size(packed: &[u8], size: usize) -> Vec<u8> {
    let mut payload = packed.to_vec();
    payload.extend((size as u32).to_le_bytes());
    boot_image(&payload)
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).expect("packs");
    encoder.finish().expect("packs")
}

/// One block that is nothing but literals.
fn lz4(content: &[u8]) -> Vec<u8> {
    let block = lz4_flex::block::compress(content);
    let mut packed = b"\x02\x21\x4c\x18".to_vec();
    packed.extend((block.len() as u32).to_le_bytes());
    packed.extend(block);
    packed
}

/// `xz --format=xz --check=crc32 --x86 --lzma2` of [`CONTENT`], as the kernel's build calls it.
const XZ: &[u8] = include_bytes!("content.xz");
/// `zstd -22 --ultra` of the same.
const ZSTD: &[u8] = include_bytes!("content.zst");

#[test]
fn each_compression_gives_what_was_packed() {
    // The last four bytes of gzip's are the size.
    assert_eq!(vmlinux(&boot_image(&gzip(CONTENT))).expect("gzip"), CONTENT);
    for (name, packed) in [("xz", XZ), ("zstd", ZSTD), ("lz4", &lz4(CONTENT))] {
        let image = with_size(packed, CONTENT.len());
        assert_eq!(vmlinux(&image).expect(name), CONTENT, "{name}");
    }
}

#[test]
fn blocks_of_lz4_follow_each_other() {
    let mut packed = lz4(CONTENT);
    packed.extend(&lz4(b" and more")[4..]);
    let image = with_size(&packed, CONTENT.len() + 9);
    assert_eq!(vmlinux(&image).expect("lz4"), [CONTENT, b" and more"].concat());
}

#[test]
fn what_is_not_packed_is_taken_as_it_is() {
    assert_eq!(vmlinux(CONTENT).expect("an ELF file"), CONTENT);
    assert_eq!(vmlinux(&boot_image(CONTENT)).expect("an ELF file"), CONTENT);
    assert_eq!(version(&boot_image(CONTENT)).as_deref(), Some("9.9"));
    assert_eq!(version(CONTENT), None);
}

#[test]
fn each_fault_is_named() {
    let said = |image: &[u8]| vmlinux(image).expect_err("it is refused").to_string();
    assert!(said(b"MZ").contains("neither an ELF file nor an x86 boot image"));
    let mut old = boot_image(CONTENT);
    old[0x206] = 7;
    assert!(said(&old).contains("0x207; 0x208 or newer"));
    let cut = boot_image(CONTENT);
    assert!(said(&cut[..1030]).contains("the payload lies beyond its end"));
    assert!(said(&with_size(b"BZh91AY", 9)).contains("bzip2; gzip, xz, zstd and lz4"));
    assert!(said(&with_size(b"what", 9)).contains("no compression known"));
    let wrong = with_size(&lz4(CONTENT), 7);
    assert!(said(&wrong).contains(&format!("unpacks to {} bytes; it says 7", CONTENT.len())));
    for packed in [gzip(CONTENT), XZ.to_vec(), ZSTD.to_vec(), lz4(CONTENT)] {
        let middle = packed.len() / 2;
        let cut = with_size(&packed[..middle], CONTENT.len());
        assert!(vmlinux(&cut).is_err());
    }
}

#[test]
fn no_more_is_unpacked_than_is_allowed() {
    for packed in [gzip(CONTENT), XZ.to_vec(), ZSTD.to_vec(), lz4(CONTENT)] {
        let payload = [packed.as_slice(), &[0; 4]].concat();
        let less = unpack::unpack(&payload, CONTENT.len() - 1);
        assert!(matches!(less, Err(ImageError::TooLarge)), "{less:?}");
        assert!(unpack::unpack(&payload, CONTENT.len()).is_ok());
    }
    // A block of 4 GiB.
    let mut huge = lz4(CONTENT);
    huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(vmlinux(&with_size(&huge, 9)), Err(ImageError::CutShort { .. })));
}
