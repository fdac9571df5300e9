//! Where records go. A format is a module here, and a line in [`of_file`].

mod chrome;
mod ctf;
mod firefox;
mod joined;
mod jsonl;
mod page;
pub mod parquet;
mod pcapng;
mod perfetto;
mod protobuf;
mod table;
mod whole;

use std::path::Path;

use anyhow::{Context as _, bail};
use weigh_trace::probe::Probe;
use weigh_trace::sink::RecordSink;

/// The formats of files, by the end of their names.
const FORMATS: &str = ".parquet, .jsonl, .perfetto-trace, .chrome.json, .trace.json, .firefox.json, .html, .ctf or .pcapng";

/// The end of a page's name.
const PAGE: &str = "html";

/// Whether a file is a page.
pub fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == PAGE)
}

/// A file, of the format that its name says. Fields of these names are drawn as counters where a format can.
pub fn of_file(
    path: &Path,
    probes: &[&Probe],
    counters: &[String],
) -> anyhow::Result<Box<dyn RecordSink>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(jsonl::Jsonl::on_output()?));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // speedscope takes the first ending for a format of its own, and knows the second by what is in it.
    if name.ends_with(".chrome.json") || name.ends_with(".trace.json") {
        return Ok(Box::new(chrome::Chrome::create(path, probes)?));
    }
    if name.ends_with(".firefox.json") {
        return Ok(Box::new(firefox::Firefox::create(path, probes)?));
    }
    Ok(match path.extension().and_then(|end| end.to_str()) {
        Some("parquet") => Box::new(parquet::Columns::create(path, probes).context("-o")?),
        Some("jsonl") => Box::new(jsonl::Jsonl::create(path)?),
        Some(PAGE) => Box::new(page::Page::create(path, probes)?),
        Some("ctf") => Box::new(ctf::Ctf::create(path, probes)?),
        Some("pcapng") => Box::new(pcapng::Pcapng::create(path, probes)?),
        Some("perfetto-trace") => Box::new(perfetto::Perfetto::create(path, probes, counters)?),
        _ => bail!(
            "-o {}: the name of the file says its format, and ends in {FORMATS}",
            path.display()
        ),
    })
}

/// The terminal: standard output, unless that is the command's.
pub fn of_terminal(has_output: bool) -> Box<dyn RecordSink> {
    Box::new(table::Table::new(has_output))
}
