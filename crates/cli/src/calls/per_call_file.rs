//! `--per-call`: every call as a row of a Parquet file.

use anyhow::{Context as _, anyhow};
use weigh_account::shell_words;
use weigh_keep::{CallsNote, CallsWriter};
use weigh_schema::base64;
use weigh_schema::call::{LateCost, Tally};
use weigh_schema::call_row::CallRow;
use weigh_session::products::calls::CallSink;
use weigh_session::unless_medium_failed;

use weigh_arguments::CallsArguments;

/// The option that names it.
pub const PER_CALL: &str = "--per-call";

/// The file of all calls.
pub struct PerCallFile {
    writer: anyhow::Result<CallsWriter>,
    command: String,
    command_base64: Option<String>,
}

impl PerCallFile {
    /// The file that was asked for, if one was.
    pub fn create(arguments: &CallsArguments) -> anyhow::Result<Option<Box<dyn CallSink>>> {
        let Some(path) = &arguments.per_call else { return Ok(None) };
        let words = arguments.command.iter().map(|a| a.to_string_lossy().into_owned());
        let command = match arguments.pid {
            Some(pid) => format!("process {pid}"),
            None => shell_words(&words.collect::<Vec<_>>()),
        };
        let command_base64 = base64::of_words_ended(&arguments.command);
        let writer = unless_medium_failed(CallsWriter::create(path).context(PER_CALL))?;
        Ok(Some(Box::new(PerCallFile { writer, command, command_base64 })))
    }

    /// The error is for the end, and told once.
    fn writer(&mut self) -> anyhow::Result<&mut CallsWriter> {
        self.writer.as_mut().map_err(|error| anyhow!("{}", crate::in_full(error)))
    }
}

impl CallSink for PerCallFile {
    fn emit(&mut self, row: &CallRow) -> anyhow::Result<()> {
        self.writer()?.push(row).context(PER_CALL)
    }

    fn emit_deferred(&mut self, LateCost { sequence, growth }: &LateCost) -> anyhow::Result<()> {
        self.writer()?.push_later(*sequence, growth).context(PER_CALL)
    }

    fn lose_deferred(&mut self, from_ns: i64, until_ns: i64) {
        if let Ok(writer) = &mut self.writer {
            writer.lost_later(from_ns, until_ns);
        }
    }

    fn finish(self: Box<Self>, tally: Tally) -> anyhow::Result<u64> {
        let PerCallFile { writer, command, command_base64 } = *self;
        let note = CallsNote {
            command,
            command_base64,
            untold: tally.untold,
            lost: tally.lost,
            untold_later: tally.untold_later,
            merged_later: tally.merged_later,
            unknown_later: 0,
        };
        Ok(writer?.finish(&note).context(PER_CALL)?.unknown_later)
    }
}
