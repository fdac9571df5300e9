//! A kernel's image: from what a boot loader reads to the ELF file inside it.
//!
//! Reads a bzImage (the setup header says where the compressed kernel lies) or an ELF file, which
//! is taken as it is. Emits the bytes of the ELF file. Refuses what is neither, compressions that
//! are not known, a payload that does not unpack to the size that it states, and anything that
//! would unpack to more than [`LARGEST`].

mod field;
mod unpack;

use std::borrow::Cow;

pub use field::{ImageError, LARGEST};
use field::{short, u16_at, u32_at};
const ELF: &[u8] = b"\x7fELF";

/// Where the fields of the setup header lie (Documentation/arch/x86/boot.rst).
mod header {
    pub const SETUP_SECTORS: usize = 0x1f1;
    pub const SIGNATURE: usize = 0x202;
    pub const VERSION: usize = 0x206;
    pub const KERNEL_VERSION: usize = 0x20e;
    pub const PAYLOAD_OFFSET: usize = 0x248;
    pub const PAYLOAD_LENGTH: usize = 0x24c;

    /// The first version that says where the payload is.
    pub const OLDEST: u16 = 0x208;
    pub const SECTOR: usize = 512;
    /// What the number of setup sectors means where it is 0.
    pub const SETUP_SECTORS_IF_0: u8 = 4;
}

/// The ELF file in an image.
pub fn vmlinux(image: &[u8]) -> Result<Cow<'_, [u8]>, ImageError> {
    if image.starts_with(ELF) {
        return Ok(Cow::Borrowed(image));
    }
    let packed = payload(image)?;
    if packed.starts_with(ELF) {
        return Ok(Cow::Borrowed(packed));
    }
    let length = packed.len();
    let size = length.checked_sub(4).map_or(Err(short("the payload's size", 4, length)), |at| {
        u32_at(packed, at, "the payload's size")
    })?;
    let unpacked = unpack::unpack(packed, LARGEST)?;
    if unpacked.len() != size as usize {
        return Err(ImageError::Size { expected: size as usize, found: unpacked.len() });
    }
    Ok(Cow::Owned(unpacked))
}

/// What a boot image says of its version: `6.1.0-56-cloud-amd64 (…) #1 SMP …`.
pub fn version(image: &[u8]) -> Option<String> {
    is_boot_image(image).then_some(())?;
    let at = u16_at(image, header::KERNEL_VERSION, "").ok().filter(|at| *at != 0)?;
    let text = image.get(usize::from(at) + 0x200..)?.split(|byte| *byte == 0).next()?;
    let text = &text[..text.len().min(256)];
    Some(String::from_utf8_lossy(text).into_owned())
}

fn is_boot_image(image: &[u8]) -> bool {
    image.get(header::SIGNATURE..header::SIGNATURE + 4) == Some(b"HdrS".as_slice())
}

fn payload(image: &[u8]) -> Result<&[u8], ImageError> {
    if !is_boot_image(image) {
        return Err(ImageError::NoImage);
    }
    let version = u16_at(image, header::VERSION, "the setup header")?;
    if version < header::OLDEST {
        return Err(ImageError::TooOld(version));
    }
    let sectors = match image[header::SETUP_SECTORS] {
        0 => header::SETUP_SECTORS_IF_0,
        stated => stated,
    };
    let offset = u32_at(image, header::PAYLOAD_OFFSET, "the setup header")? as usize;
    let length = u32_at(image, header::PAYLOAD_LENGTH, "the setup header")? as usize;
    let start = (usize::from(sectors) + 1) * header::SECTOR + offset;
    image.get(start..start.saturating_add(length)).ok_or(short(
        "the payload",
        start.saturating_add(length),
        image.len(),
    ))
}

#[cfg(test)]
#[path = "image/tests.rs"]
mod tests;
