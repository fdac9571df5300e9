//! Whether the code of a program calls ptrace(2): for static programs whose names were taken out.
//!
//! Reads the parts of the file that are executed, up to a bound; looks for the instruction that
//! C libraries have there: the call's number as a constant, and right behind it the one that enters
//! the kernel. A program that has the number in a variable, or hands it to a function that makes any
//! call (as those in Go do), is not recognised. The other way round is no harm: no other
//! sense is made of these bytes but by chance, and a program that is let go is looked at in `/proc`.

use memchr::memmem;
use object::elf::{EM_386, EM_AARCH64, EM_X86_64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::{Endian as _, ReadRef};

/// More of a file is not looked through: its process is waiting meanwhile.
const MOST_BYTES: u64 = 4 << 20;

/// Between the number and the call other registers may be filled.
const BETWEEN: usize = 16;

/// How a machine makes the call.
struct Call {
    machine: u16,
    /// Puts the number where the kernel looks for it.
    number: &'static [&'static [u8]],
    /// Enters the kernel.
    enter: &'static [&'static [u8]],
}

const CALLS: &[Call] = &[
    // mov $101, %eax; syscall
    Call {
        machine: EM_X86_64,
        number: &[b"\xb8\x65\0\0\0", b"\x48\xc7\xc0\x65\0\0\0"],
        enter: &[b"\x0f\x05"],
    },
    // mov $26, %eax; int $0x80, or call *%gs:0x10
    Call {
        machine: EM_386,
        number: &[b"\xb8\x1a\0\0\0"],
        enter: &[b"\xcd\x80", b"\x65\xff\x15\x10\0\0\0"],
    },
    // mov x8, #117, or w8; svc #0
    Call {
        machine: EM_AARCH64,
        number: &[b"\xa8\x0e\x80\xd2", b"\xa8\x0e\x80\x52"],
        enter: &[b"\x01\0\0\xd4"],
    },
];

/// Whether the call is somewhere in what is executed.
pub fn calls_ptrace<'a, H: FileHeader, R: ReadRef<'a>>(header: &H, file: R) -> bool {
    let Ok(endian) = header.endian() else { return false };
    let machine = header.e_machine(endian);
    let Some(call) = CALLS.iter().find(|call| call.machine == machine) else { return false };
    if endian.is_big_endian() {
        return false;
    }
    let Ok(segments) = header.program_headers(endian, file) else { return false };
    let mut left = MOST_BYTES;
    segments.iter().filter(|s| s.p_type(endian) == PT_LOAD && s.p_flags(endian) & PF_X != 0).any(
        |segment| {
            let length = Into::<u64>::into(segment.p_filesz(endian)).min(left);
            left -= length;
            let code = file.read_bytes_at(segment.p_offset(endian).into(), length);
            code.is_ok_and(|code| call.is_in(code))
        },
    )
}

impl Call {
    fn is_in(&self, code: &[u8]) -> bool {
        self.number.iter().any(|number| {
            memmem::find_iter(code, number).any(|place| {
                let behind = &code[place + number.len()..];
                let near = &behind[..behind.len().min(BETWEEN)];
                self.enter.iter().any(|enter| memmem::find(near, enter).is_some())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_and_the_call_belong_together() {
        let call = &CALLS[0];
        assert!(call.is_in(b"\x90\xb8\x65\0\0\0\x0f\x05\xc3"));
        assert!(call.is_in(b"\xb8\x65\0\0\0\x4c\x8d\x54\x24\x60\x0f\x05"));
        // Another number; the call elsewhere; the number at the very end.
        assert!(!call.is_in(b"\xb8\x64\0\0\0\x0f\x05"));
        let apart = [&b"\xb8\x65\0\0\0"[..], &[0x90; BETWEEN], b"\x0f\x05"].concat();
        assert!(!call.is_in(&apart));
        assert!(!call.is_in(b"\x0f\x05\xb8\x65\0\0\0"));
    }
}
