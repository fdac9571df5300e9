//! What a format of a stream's records is.

use std::path::Path;

use weigh_trace::probe::Probe;
use weigh_trace::sink::RecordSink;

/// A format of files.
pub struct StreamFormat {
    /// How the names of its files end, with the point.
    pub endings: &'static [&'static str],
    /// Makes such a file.
    pub create: fn(&StreamFile<'_>) -> anyhow::Result<Box<dyn RecordSink>>,
}

/// A file that is to be made.
pub struct StreamFile<'a> {
    /// Where.
    pub path: &'a Path,
    /// What its records will be of; there may be more later.
    pub probes: &'a [&'a Probe],
    /// Fields of these names are drawn as counters where a format can.
    pub counters: &'a [String],
}

impl StreamFormat {
    /// Whether a file of this name has this format.
    pub fn is_of(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let ends = |ending: &&str| name.ends_with(ending.as_bytes());
        path.extension().is_some() && self.endings.iter().any(ends)
    }
}
