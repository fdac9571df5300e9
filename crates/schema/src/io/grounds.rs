//! How far what is told of reads and writes can be trusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Transferred;
use crate::quality::{Mechanism, Quality};

/// What the kernel has counted for the whole job by itself, beside what was seen of that by file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// The kernel's own count: read, write and their like, sendfile, copy_file_range.
    pub kernel: Transferred,
    /// What was seen of these.
    pub seen: Transferred,
}

impl Witness {
    /// What was not seen.
    pub fn unseen(&self) -> Transferred {
        let (kernel, seen) = (&self.kernel, &self.seen);
        Transferred {
            read_bytes: kernel.read_bytes.saturating_sub(seen.read_bytes),
            read_calls: kernel.read_calls.saturating_sub(seen.read_calls),
            written_bytes: kernel.written_bytes.saturating_sub(seen.written_bytes),
            write_calls: kernel.write_calls.saturating_sub(seen.write_calls),
        }
    }
}

/// What a report stands on.
#[derive(Clone, Debug, PartialEq)]
pub struct Grounds {
    /// How calls were seen.
    pub mechanism: Mechanism,
    /// How far bytes and calls can be trusted, all together.
    pub quality: Quality,
    /// The kernel's own count, where it is needed as a witness.
    pub witness: Option<Witness>,
    /// Kinds of transfer, and numbers, that are not known, and why: a 0 there says nothing.
    pub unavailable: BTreeMap<String, String>,
    /// What else is missing.
    pub notes: Vec<String>,
}

impl Default for Grounds {
    fn default() -> Grounds {
        Grounds {
            mechanism: Mechanism::Bpf,
            quality: Quality::Exact,
            witness: None,
            unavailable: BTreeMap::new(),
            notes: Vec::new(),
        }
    }
}
