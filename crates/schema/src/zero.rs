//! Numbers that JSON leaves out where they are 0.

/// For `skip_serializing_if`.
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
