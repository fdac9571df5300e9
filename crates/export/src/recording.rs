//! Forms of a whole recording, made from its rows.
//!
//! A form is a module here that says what it is called, and a line in [`FORMATS`].

pub mod darshan;
pub mod dot;
mod form;
pub mod otlp;
pub mod phases;
pub mod speedscope;
pub mod wfformat;
pub mod workflow;

pub use form::{Piece, RecordingFormat, RecordingPart, RecordingRows, TextKind};

/// All of them, in the order in which people are told of them.
pub const FORMATS: &[RecordingFormat] = &[
    darshan::FORMAT,
    wfformat::FORMAT,
    dot::FORMAT,
    speedscope::FORMAT,
    phases::FORMAT,
    otlp::FORMAT,
];

/// The form of this name.
pub fn format(name: &str) -> Option<&'static RecordingFormat> {
    FORMATS.iter().find(|format| format.name == name)
}
