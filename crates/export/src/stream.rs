//! Formats of files that the records of a stream are written into.
//!
//! A format is a module here that says how its files' names end, and a line in [`FORMATS`].

mod chrome;
mod ctf;
mod firefox;
mod format;
mod json;
pub mod jsonl;
mod packets;
pub mod pairs;
mod perfetto;
mod whole_file;

pub use format::{StreamFile, StreamFormat};
pub use packets::has_processes;

/// All of them, in the order in which people are told of them.
pub const FORMATS: &[StreamFormat] = &[
    jsonl::FORMAT,
    perfetto::FORMAT,
    chrome::FORMAT,
    firefox::FORMAT,
    ctf::FORMAT,
    packets::PCAPNG,
    packets::PCAP,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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
            ("a.pcap", ".pcap"),
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
