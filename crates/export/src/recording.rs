//! Forms of a whole recording, made from its rows.
//!
//! A form is a module here that says what it is called, and a line in [`FORMATS`].

pub mod darshan;
pub mod dot;
pub mod phases;
pub mod speedscope;
pub mod wfformat;
pub mod workflow;

use weigh_schema::io::{FileUse, Flow};
use weigh_schema::recording::ProcessRow;
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::summary::Summary;

/// All of them, in the order in which people are told of them.
pub const FORMATS: &[RecordingFormat] =
    &[darshan::FORMAT, wfformat::FORMAT, dot::FORMAT, speedscope::FORMAT, phases::FORMAT];

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

/// The form of this name.
pub fn format(name: &str) -> Option<&'static RecordingFormat> {
    FORMATS.iter().find(|format| format.name == name)
}
