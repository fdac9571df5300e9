//! A part of the kernel, as it is declared.

use super::field::Field;

/// One part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// Its name in options, keys and code.
    pub name: &'static str,
    /// What belongs to it, and how it is seen.
    pub help: &'static str,
    /// What time in it is, in a sentence: "8 ms …".
    pub busy: &'static str,
    /// What waiting in it is, in a sentence.
    pub waits: &'static str,
    /// What is kept of it, beside the time in it.
    pub fields: &'static [Field],
}
