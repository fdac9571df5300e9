//! Values of a control group. Those of `cpu.stat`, `memory.events` and `memory.oom_control` are pairs.

use super::text::{lines, number, words};

/// The number at the beginning of a file: `memory.current`, `cpuacct.usage`. `max` is none.
pub fn first_number(text: &[u8]) -> Option<u64> {
    lines(text).next().and_then(|line| words(line).next()).and_then(number)
}

/// What a group has read from and written to devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// Sums over devices: of `io.stat` (`8:0 rbytes=1 wbytes=2`) and of `blkio.throttle.io_service_bytes` (`8:0 Read 1`). An
/// empty file is a group that did nothing; one with no line of a device is none of these.
pub fn io_bytes(text: &[u8]) -> Option<IoBytes> {
    let mut sums = IoBytes::default();
    let mut is_understood = text.is_empty();
    for line in lines(text) {
        let mut words = words(line);
        let Some(device) = words.next() else { continue };
        is_understood |= device == b"Total" || device.contains(&b':');
        let mut is_of = None;
        for word in words {
            add(&mut sums, &mut is_of, word)?;
        }
    }
    is_understood.then_some(sums)
}

/// None where the sum is more than 64 bits hold.
fn add<'a>(sums: &mut IoBytes, is_of: &mut Option<&'a [u8]>, word: &'a [u8]) -> Option<()> {
    let (name, value) = match word.iter().position(|byte| *byte == b'=') {
        Some(at) => (&word[..at], number(&word[at + 1..])),
        None => (is_of.replace(word).unwrap_or_default(), number(word)),
    };
    let sum = match name {
        b"rbytes" | b"Read" => &mut sums.read,
        b"wbytes" | b"Write" => &mut sums.written,
        _ => return Some(()),
    };
    *sum = sum.checked_add(value?)?;
    Some(())
}
