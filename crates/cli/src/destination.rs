//! Where JSON goes: a file, standard output, or a descriptor that weigh was given.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};

use anyhow::{Context as _, bail};
use serde::Serialize;

/// Whether such a name is that of a stream, and of no file.
pub fn is_stream(name: &str) -> bool {
    name == "-" || name.starts_with("fd:")
}

/// A place for what is told as JSON, opened before the command runs.
pub struct Destination {
    name: String,
    /// None: standard output.
    file: Option<File>,
}

impl Destination {
    /// Opens it: a file, `-`, or `fd:N`.
    pub fn open(name: &str) -> anyhow::Result<Destination> {
        let file = match name.strip_prefix("fd:") {
            None if name == "-" => None,
            None => Some(File::create(name).with_context(|| format!("--json {name}"))?),
            Some(number) => {
                let Ok(number) = number.parse::<u32>() else {
                    bail!(
                        "--json {name}: '{number}' is no descriptor; expected a number as in fd:3"
                    )
                };
                let place = format!("/proc/self/fd/{number}");
                let opened = File::options().write(true).open(place);
                Some(opened.with_context(|| {
                    format!("--json {name}: descriptor {number} can not be written")
                })?)
            }
        };
        Ok(Destination { name: name.to_string(), file })
    }

    /// Whether it is standard output, where nothing else may stand then.
    pub fn is_standard_output(&self) -> bool {
        self.file.is_none()
    }

    /// Writes it as JSON, as it comes: it is never in memory as a whole.
    pub fn write_json(self, what: &impl Serialize) -> anyhow::Result<()> {
        let Destination { name, file } = self;
        let mut out: BufWriter<Box<dyn Write>> = BufWriter::new(match file {
            None => Box::new(std::io::stdout()),
            Some(file) => Box::new(file),
        });
        let written = serde_json::to_writer_pretty(&mut out, what).map_err(std::io::Error::from);
        match written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
            // Whoever reads standard output may have read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && name == "-" => Ok(()),
            other => other.with_context(|| format!("--json {name}")),
        }
    }

    /// Writes the text.
    pub fn write(self, text: &str) -> anyhow::Result<()> {
        match self.file {
            None => crate::show::print(text),
            Some(mut file) => {
                file.write_all(text.as_bytes()).with_context(|| format!("--json {}", self.name))
            }
        }
    }
}
