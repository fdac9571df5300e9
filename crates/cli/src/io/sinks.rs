//! The files that rows are written to as they come: of files and processes, and of calls.
//!
//! Refuses files that can not be made before anything is followed; the first error after that is kept, and told
//! when the command has ended.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use weigh_account::io::{Files, IoBook, Run};
use weigh_keep::{IoCallsWriter, IoWriter, KeepError};
use weigh_schema::update::Update;

use crate::arguments::IoTelling;

/// The options that name them.
pub const PARQUET: &str = "--parquet";
pub const CALLS: &str = "--calls";

/// Those that were asked for.
pub struct Sinks {
    parquet: Option<Result<IoWriter, KeepError>>,
    calls: Option<Result<IoCallsWriter, KeepError>>,
}

impl Sinks {
    /// Makes them.
    pub fn open(telling: &IoTelling, calls: Option<&Path>) -> anyhow::Result<Sinks> {
        let parquet = telling.parquet.as_deref().map(IoWriter::create).transpose();
        let calls = calls.map(IoCallsWriter::create).transpose();
        let (parquet, calls) = (parquet.context(PARQUET)?, calls.context(CALLS)?);
        Ok(Sinks { parquet: parquet.map(Ok), calls: calls.map(Ok) })
    }

    /// Writes what cannot wait.
    pub fn keep(&mut self, update: &Update) {
        match update {
            Update::FileUse(row) => {
                if let Some(used) = &row.used {
                    push(&mut self.parquet, |file| file.push(used));
                }
            }
            Update::Syscall(row) => push(&mut self.calls, |file| file.push(row)),
            _ => {}
        }
    }

    /// Writes the rest; if one of them can not be written, the other one is all the same. `name` names a call by
    /// its number.
    pub fn finish(
        self,
        command: &str,
        book: &IoBook,
        run: &Run,
        name: &dyn Fn(u64) -> String,
    ) -> anyhow::Result<()> {
        let calls: Result<(), KeepError> = self.calls.map_or(Ok(()), |calls| {
            calls?.finish(command, run.tally.untold, &run.grounds.notes).map(drop)
        });
        let parquet: Result<(), KeepError> = self.parquet.map_or(Ok(()), |parquet| {
            let mut parquet = parquet?;
            Files::of(book, name).iter().try_for_each(|file| parquet.push(&file))?;
            parquet.finish(command).map(drop)
        });
        together([calls.context(CALLS), parquet.context(PARQUET)])
    }
}

/// All that went wrong, each on a line of its own.
pub fn together(outcomes: [anyhow::Result<()>; 2]) -> anyhow::Result<()> {
    match outcomes {
        [Err(one), Err(other)] => {
            Err(anyhow!("{}\nweigh: {}", crate::in_full(&one), crate::in_full(&other)))
        }
        [one, other] => one.and(other),
    }
}

fn push<W>(
    file: &mut Option<Result<W, KeepError>>,
    row: impl FnOnce(&mut W) -> Result<(), KeepError>,
) {
    if let Some(Ok(writer)) = file
        && let Err(error) = row(writer)
    {
        *file = Some(Err(error));
    }
}
