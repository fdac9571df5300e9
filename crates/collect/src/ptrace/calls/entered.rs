//! A call that has not returned.

use super::descriptor::Referred;
use super::table::CallAction;

/// A call that a thread is in.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    pub(in crate::ptrace) kind: CallAction,
    pub(in crate::ptrace) arguments: [u64; 6],
    pub(in crate::ptrace) is_32_bit: bool,
    /// What its first descriptor refers to.
    pub(in crate::ptrace) subject: Referred,
    /// Whether this one has been counted as a connection already.
    pub(in crate::ptrace) is_connected: bool,
    /// Whether it writes, of those calls of which the descriptors decide that.
    pub(in crate::ptrace) writes: bool,
}
