//! What a form of a recording is, and the rows that it is made from.

use weigh_schema::io::{FileUse, Flow};
use weigh_schema::recording::ProcessRow;
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::summary::Summary;

/// Takes a piece of text that is complete in itself.
pub type Piece<'a> = &'a mut dyn FnMut(&str) -> anyhow::Result<()>;

/// A form in which another program takes a recording.
#[derive(Clone, Copy, Debug)]
pub struct RecordingFormat {
    /// By what it is asked for.
    pub name: &'static str,
    /// What it is, for people.
    pub help: &'static str,
    /// What a terminal may be shown of it.
    pub text: TextKind,
    /// Of what in the recording it tells.
    pub part: RecordingPart,
    /// Writes it; false if nothing in the recording can be told in it: then nothing was written.
    pub write: fn(&dyn RecordingRows, Piece<'_>) -> anyhow::Result<bool>,
}

/// What a form tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingPart {
    /// Files that were read and written.
    Files,
    /// Regions that programs named.
    Regions,
    /// The job, its processes and phases: each recording has some.
    Spans,
}

/// What a text consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// Lines.
    Lines,
    /// Lines of columns, with tabs between them.
    Columns,
    /// A JSON document.
    Json,
}

/// A recording that can be read several times, or the part of it that was chosen.
pub trait RecordingRows {
    /// What it says of the whole job.
    fn summary(&self) -> &Summary;

    /// Whether files were left out.
    fn is_part(&self) -> bool;

    /// Shows every process.
    fn each_process(&self, visit: &mut dyn FnMut(ProcessRow)) -> anyhow::Result<()>;

    /// Shows what each process did with each file.
    fn each_use(&self, visit: &mut dyn FnMut(&FileUse)) -> anyhow::Result<()>;

    /// Shows every region.
    fn each_region(&self, _visit: &mut dyn FnMut(RegionRow)) -> anyhow::Result<()> {
        Ok(())
    }

    /// Shows every phase.
    fn each_phase(&self, _visit: &mut dyn FnMut(PhaseRow)) -> anyhow::Result<()> {
        Ok(())
    }

    /// Who wrote what others read.
    fn flows(&self) -> Vec<&Flow>;
}
