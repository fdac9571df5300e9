//! The files that rows are written to as they come: of files and processes, and of calls.
//!
//! Refuses files that cannot be made before anything is followed; the first error after that is kept, and reported
//! when the command has ended.

use std::path::Path;

use anyhow::{Context as _, Error, anyhow};
use weigh_account::io::{Files, IoBook, Run};
use weigh_keep::{IoCallsWriter, IoWriter, KeepError};
use weigh_schema::update::Update;
use weigh_session::{Sink, SourceError, unless_medium_failed};

use weigh_arguments::IoTelling;

/// The options that name them.
pub const PARQUET: &str = "--parquet";
pub const CALLS: &str = "--calls";

/// Those that were asked for.
pub struct RowFiles {
    parquet: Option<Result<IoWriter, SourceError>>,
    calls: Option<Result<IoCallsWriter, SourceError>>,
}

impl RowFiles {
    /// Makes them.
    pub fn create(telling: &IoTelling, calls: Option<&Path>) -> anyhow::Result<RowFiles> {
        let parquet = telling.parquet.as_deref().map(IoWriter::create).transpose();
        let calls = calls.map(IoCallsWriter::create).transpose();
        Ok(RowFiles { parquet: opened(PARQUET, parquet)?, calls: opened(CALLS, calls)? })
    }

    /// Writes the rest; if one of them cannot be written, the other one is all the same. `name` names a call by
    /// its number.
    pub fn finish(
        self,
        command: &str,
        book: &IoBook,
        run: &Run,
        name: &dyn Fn(u64) -> String,
    ) -> anyhow::Result<()> {
        let calls = self.calls.map_or(Ok(()), |calls| -> anyhow::Result<()> {
            let calls = calls.map_err(Error::from_boxed)?;
            calls.finish(command, run.tally.untold, &run.grounds.notes)?;
            Ok(())
        });
        let parquet = self.parquet.map_or(Ok(()), |parquet| -> anyhow::Result<()> {
            let mut parquet = parquet.map_err(Error::from_boxed)?;
            Files::of(book, name).iter().try_for_each(|file| parquet.push(&file))?;
            parquet.finish(command)?;
            Ok(())
        });
        together([calls.context(CALLS), parquet.context(PARQUET)])
    }
}

impl Sink for RowFiles {
    fn emit(&mut self, update: &Update) {
        match update {
            Update::FileUse(row) => push(&mut self.parquet, |file| file.push(row)),
            Update::Syscall(row) => push(&mut self.calls, |file| file.push(row)),
            _ => {}
        }
    }

    fn error(&self) -> Option<String> {
        let parquet = self.parquet.as_ref().and_then(|file| file.as_ref().err());
        let calls = || self.calls.as_ref().and_then(|file| file.as_ref().err());
        parquet.or_else(calls).map(ToString::to_string)
    }
}

/// A file that the medium does not take is an error for the end.
fn opened<W>(
    option: &'static str,
    file: Result<Option<W>, KeepError>,
) -> anyhow::Result<Option<Result<W, SourceError>>> {
    Ok(match unless_medium_failed(file.context(option))? {
        Ok(file) => file.map(Ok),
        // There the option is named by `finish`.
        Err(error) => Some(Err(match error.downcast::<KeepError>() {
            Ok(error) => error.into(),
            Err(error) => error.into(),
        })),
    })
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
    file: &mut Option<Result<W, SourceError>>,
    row: impl FnOnce(&mut W) -> Result<(), KeepError>,
) {
    if let Some(Ok(writer)) = file
        && let Err(error) = row(writer)
    {
        *file = Some(Err(error.into()));
    }
}
