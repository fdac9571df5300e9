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

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::value::Value;

use super::counts::Totals;
use super::names::Names;
use super::threads::Threads;

/// Somewhere that records go to.
pub trait Sink {
    /// Takes a record, where it lies in the ring.
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()>;

    /// The record that is taken next belongs to others that are joined by the same number.
    fn join(&mut self, _flow: u64) {}

    /// Records of another probe will come, with this number; an error if they can not be taken.
    fn add(&mut self, _: usize, _: &Probe) -> anyhow::Result<()> {
        Ok(())
    }

    /// All that are there for now have been taken.
    fn end_batch(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// No more will come. What was taken is whole and readable, even after a failure.
    fn finish(self: Box<Self>, totals: &Totals, meaning: &Meaning) -> anyhow::Result<()>;
}

/// What numbers in records mean.
#[derive(Default)]
pub struct Meaning {
    /// What the records' clock showed when the stream began.
    pub began_ns: u64,
    /// The clock of the day when it showed 0.
    pub epoch_ns: i64,
    /// Names of functions.
    pub names: RefCell<Names>,
    /// Names of threads.
    pub threads: RefCell<Threads>,
}

impl Meaning {
    /// The name of a record's thread may have to be known later.
    fn meet(&self, probe: &Probe, record: Record<'_>) {
        self.threads.borrow_mut().meet(record.tgid(), record.tid(), || comm(probe, record));
    }

    /// A stack as the names of its functions, the innermost first; none if the value is no stack.
    fn stack(&self, value: &Value<'_>, record: Record<'_>) -> Option<Vec<Rc<str>>> {
        let Value::Stack { bytes, is_user } = value else { return None };
        Some(self.names.borrow_mut().of_stack(bytes, *is_user, record.tgid()))
    }
}

/// The name of the thread, if it was asked for.
fn comm(probe: &Probe, record: Record<'_>) -> Option<String> {
    let place = probe.fields.iter().position(|field| field.name == "comm")?;
    match probe.value(record, place) {
        Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

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
) -> anyhow::Result<Box<dyn Sink>> {
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
pub fn of_terminal(has_output: bool) -> Box<dyn Sink> {
    Box::new(table::Table::new(has_output))
}
