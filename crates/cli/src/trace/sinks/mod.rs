//! Where records go: the formats of `weigh-export`, and what is weigh's own: the Parquet file that it reads again, the
//! page, standard output and the terminal.

mod output;
mod page;
mod table;
pub mod triggers;

use std::path::Path;

use anyhow::{Context as _, bail};
use weigh_export::stream::{FORMATS, StreamFile, StreamFormat};
use weigh_keep::TraceWriter;
use weigh_trace::probe::Probe;
use weigh_trace::sink::RecordSink;

/// Columns, which weigh reads again.
const PARQUET: StreamFormat = StreamFormat {
    endings: &[".parquet"],
    create: |file| Ok(Box::new(TraceWriter::create(file.path, file.probes).context("-o")?)),
};

/// All formats of files, in the order in which people are told of them.
fn formats() -> impl Iterator<Item = &'static StreamFormat> {
    [&PARQUET].into_iter().chain(FORMATS).chain([&page::FORMAT])
}

/// A file, of the format that its name says. Fields of these names are drawn as counters where a format can.
pub fn of_file(
    path: &Path,
    probes: &[&Probe],
    counters: &[String],
) -> anyhow::Result<Box<dyn RecordSink>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(output::Output::open()?));
    }
    match formats().find(|format| format.is_of(path)) {
        Some(format) => (format.create)(&StreamFile { path, probes, counters }),
        None => bail!(
            "-o {}: the name of the file says its format, and ends in {}",
            path.display(),
            all_endings()
        ),
    }
}

/// How the name of a file may end.
fn all_endings() -> String {
    let mut endings: Vec<&str> = formats().flat_map(|format| format.endings).copied().collect();
    let last = endings.pop().unwrap_or_default();
    format!("{} or {last}", endings.join(", "))
}

/// The terminal: standard output, unless that is the command's.
pub fn of_terminal(has_output: bool) -> Box<dyn RecordSink> {
    Box::new(table::Table::new(has_output))
}
