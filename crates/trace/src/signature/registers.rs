//! Registers, as the kernel hands them over to programs at functions and instructions.

/// Where the first six arguments, and what is returned, lie in the registers that are handed over.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: ([i16; 6], i16) = ([112, 104, 96, 88, 72, 64], 80);
#[cfg(target_arch = "aarch64")]
pub(super) const REGISTERS: ([i16; 6], i16) = ([0, 8, 16, 24, 32, 40], 0);

/// All registers by their names, as they are handed over.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTER_NAMES: [(&str, i16); 17] = [
    ("ax", 80),
    ("bx", 40),
    ("cx", 88),
    ("dx", 96),
    ("si", 104),
    ("di", 112),
    ("bp", 32),
    ("sp", 152),
    ("r8", 72),
    ("r9", 64),
    ("r10", 56),
    ("r11", 48),
    ("r12", 24),
    ("r13", 16),
    ("r14", 8),
    ("r15", 0),
    ("ip", 128),
];
#[cfg(target_arch = "aarch64")]
pub(super) const REGISTER_NAMES: [(&str, i16); 17] = [
    ("x0", 0),
    ("x1", 8),
    ("x2", 16),
    ("x3", 24),
    ("x4", 32),
    ("x5", 40),
    ("x6", 48),
    ("x7", 56),
    ("x8", 64),
    ("x19", 152),
    ("x20", 160),
    ("x21", 168),
    ("x22", 176),
    ("x29", 232),
    ("x30", 240),
    ("sp", 248),
    ("pc", 256),
];
