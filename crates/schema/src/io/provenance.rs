//! How far what is told of reads and writes can be trusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::transferred::{Transferred, Trust, Unseen};
use crate::quality::{Mechanism, Quality};

/// What the kernel has counted for the whole job by itself, beside what was seen of that by file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// The kernel's own count: read, write and their like, sendfile, copy_file_range.
    pub kernel: Transferred,
    /// What was seen of these.
    pub seen: Transferred,
    /// What was read to start programs, by the kernel and the dynamic loader, before anything of them ran.
    #[serde(default)]
    pub start: Transferred,
}

impl Witness {
    /// What was not seen.
    pub fn unseen(&self) -> Transferred {
        let left = |of: fn(&Transferred) -> u64| {
            of(&self.kernel).saturating_sub(of(&self.seen)).saturating_sub(of(&self.start))
        };
        Transferred {
            read_bytes: left(|t| t.read_bytes),
            read_calls: left(|t| t.read_calls),
            written_bytes: left(|t| t.written_bytes),
            write_calls: left(|t| t.write_calls),
            ..Transferred::default()
        }
    }
}

/// What the job was made to wait for, so that its calls could be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// How often a thread was stopped: at calls, and where one is born, executes a program, gets a signal or ends.
    pub stops_total: u64,
    /// What one stop takes without a look: measured with a process that does nothing else, before the command began.
    pub stop_seconds: f64,
    /// What all looks at stopped threads took, by weigh's own clock.
    pub look_seconds: f64,
    /// All together: stops times what one takes, and the looks.
    pub seconds: f64,
}

/// What a report stands on.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportBasis {
    /// How calls were seen.
    pub mechanism: Mechanism,
    /// How far bytes and calls can be trusted, all together.
    pub quality: Quality,
    /// The kernel's own count, where it is needed as a witness.
    pub witness: Option<Witness>,
    /// What seeing cost the job, where that is known call by call.
    pub price: Option<Price>,
    /// Kinds of transfer, and numbers, that are not exact, and why.
    pub qualities: BTreeMap<String, Trust>,
    /// What else is missing.
    pub notes: Vec<String>,
}

impl ReportBasis {
    /// Whether reads, or writes, are not seen at all.
    pub fn unseen(&self) -> Unseen {
        let is = |key: &str| {
            self.qualities.get(key).is_some_and(|trust| trust.quality == Quality::Unavailable)
        };
        Unseen { reads: is("read_bytes"), writes: is("written_bytes") }
    }
}

impl Default for ReportBasis {
    fn default() -> ReportBasis {
        ReportBasis {
            mechanism: Mechanism::Bpf,
            quality: Quality::Exact,
            witness: None,
            price: None,
            qualities: BTreeMap::new(),
            notes: Vec::new(),
        }
    }
}
