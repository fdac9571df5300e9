//! Formats of files that the records of a stream are written into.
//!
//! A format is a module here that says how its files' names end, and a line in [`FORMATS`].

mod chrome;
mod ctf;
mod firefox;
mod json;
pub mod jsonl;
pub mod pairs;
mod pcapng;
mod perfetto;
mod protobuf;
mod whole_file;

use std::path::Path;

use weigh_trace::probe::Probe;
use weigh_trace::sink::RecordSink;

/// All of them, in the order in which people are told of them.
pub const FORMATS: &[StreamFormat] = &[
    jsonl::FORMAT,
    perfetto::FORMAT,
    chrome::FORMAT,
    firefox::FORMAT,
    ctf::FORMAT,
    pcapng::FORMAT,
];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_says_its_format() {
        let format = |name: &str| {
            let found = FORMATS.iter().filter(|format| format.is_of(Path::new(name)));
            found.flat_map(|format| format.endings[..1].to_vec()).collect::<Vec<_>>()
        };
        for (name, ending) in [
            ("a.jsonl", ".jsonl"),
            ("x.y/a.b.chrome.json", ".chrome.json"),
            ("a.trace.json", ".chrome.json"),
            ("a.firefox.json", ".firefox.json"),
            ("a.perfetto-trace", ".perfetto-trace"),
            ("a.ctf", ".ctf"),
            ("a.pcapng", ".pcapng"),
        ] {
            assert_eq!(format(name), [ending], "{name}");
        }
        for name in ["", "a", ".jsonl", "a.json", "a.jsonl/b", "jsonl"] {
            assert!(format(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn no_two_formats_have_one_ending() {
        let endings: Vec<&str> =
            FORMATS.iter().flat_map(|format| format.endings).copied().collect();
        for (number, ending) in endings.iter().enumerate() {
            let others = endings[number + 1..].iter();
            assert!(
                others.clone().all(|other| !other.ends_with(ending) && !ending.ends_with(other))
            );
        }
    }
}
