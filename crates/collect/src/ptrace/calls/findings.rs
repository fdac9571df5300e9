//! What calls have told.

use std::collections::BTreeSet;

use super::opens::Opens;

/// What is known of the calls of the whole job.
#[derive(Debug, Default)]
pub struct Findings {
    /// The files that were opened.
    pub opens: Opens,
    /// Programs whose descriptors are hidden.
    pub hidden: BTreeSet<String>,
    /// Programs that let the kernel read and write by itself.
    pub by_kernel: BTreeSet<String>,
    /// Programs whose calls have unknown numbers.
    pub unknown: BTreeSet<String>,
}
