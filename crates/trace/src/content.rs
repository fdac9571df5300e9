//! What fills a field: a number, a text, bytes or a stack, by what is wanted and the kernel's types.

use crate::btf::Btf;
use crate::condition::{self, NAME_BYTES, Source, TextSource};
use crate::error::{Refusal, Wrong};
use crate::event::{Field, FieldContent, TEXT_BYTES};
use crate::packet_header::{PacketField, Side};
use crate::path::Path;
use crate::path_resolve::{Meaning, PathEnd, Shape, Walker};
use crate::vocabulary::Vocabulary;

/// What a field is filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A number.
    Number(Source),
    /// A text.
    Text {
        /// Where it comes from.
        source: TextSource,
        /// Whether it lies in the program's memory.
        is_user: bool,
    },
    /// Bytes that lie there, or where that pointer leads to.
    Bytes {
        /// Where.
        place: PathEnd,
        /// How far behind that.
        plus: Option<PathEnd>,
        /// Whether they lie in the program's memory.
        is_user: bool,
    },
    /// An address of a packet, of [`crate::ip_prefix::ADDRESS_BYTES`].
    Address(Side),
    /// Addresses of the functions that were being executed.
    Stack {
        /// The program's, not the kernel's.
        is_user: bool,
    },
}

impl Content {
    /// Whether it is a part of a packet's headers.
    pub fn is_of_packet(&self) -> bool {
        match self {
            Content::Number(source) => source.is_of_packet(),
            Content::Address(_) => true,
            _ => false,
        }
    }
}

/// Whether a text is in the program's memory, if the text itself says so: that of a system call's argument.
fn is_in_program_of(source: &TextSource) -> Option<bool> {
    match source {
        TextSource::PathEnd(place) if place.meaning.is_of_program() => Some(true),
        TextSource::PathEnd(PathEnd { meaning: Meaning::SavedText, .. }) => Some(false),
        _ => None,
    }
}

pub(crate) fn content(
    walker: &Walker<'_>,
    field: &Field,
) -> Result<(Content, Shape, u32), Refusal> {
    Ok(match &field.wanted {
        FieldContent::Value(path) => return value(walker, path),
        FieldContent::Text { path, is_user } => {
            let (source, room) = condition::text_source(walker, path, *is_user)?;
            let is_user = &is_in_program_of(&source).unwrap_or(*is_user);
            let room = if matches!(source, TextSource::Comm) { room } else { room.min(TEXT_BYTES) };
            (Content::Text { source, is_user: *is_user }, Shape::Text, room)
        }
        FieldContent::Bytes { path, plus, length, is_user } => {
            let place = walker.follow(path)?;
            let is_place = matches!(place.shape, Shape::Pointer | Shape::Bytes | Shape::Text);
            if !is_place && place.kind != 0 {
                let what = path.base.clone();
                let kind = walker.btf.describe(place.kind);
                let why = "it leads nowhere";
                return Err(path.span.refuse(walker.text, Wrong::Type { what, kind, why }));
            }
            let plus = plus.as_ref().map(|plus| distance(walker, plus)).transpose()?;
            let is_user = *is_user || place.meaning.is_of_program();
            (Content::Bytes { place, plus, is_user }, Shape::Bytes, *length)
        }
        FieldContent::Stack { is_user: false, .. } if walker.is_in_program => {
            let wrong = Wrong::Unsupported(
                "at a place in a program nothing of the kernel is being executed".to_string(),
            );
            return Err(field.span.refuse(walker.text, wrong));
        }
        FieldContent::Counter { counter, .. } => {
            let source = Source::Counter(*counter);
            let (shape, bytes) = (source.shape(), source.bytes());
            (Content::Number(source), shape, bytes)
        }
        FieldContent::Stack { frames, is_user } => {
            (Content::Stack { is_user: *is_user }, Shape::Stack, frames * 8)
        }
    })
}

/// How far something lies behind a pointer.
fn distance(walker: &Walker<'_>, path: &Path) -> Result<PathEnd, Refusal> {
    let place = walker.follow(path)?;
    if place.shape == Shape::Unsigned {
        return Ok(place);
    }
    let (what, kind) = (path.base.clone(), walker.btf.describe(place.kind));
    let why = "it is no distance: a whole number that is never below 0";
    Err(path.span.refuse(walker.text, Wrong::Type { what, kind, why }))
}

fn value(walker: &Walker<'_>, path: &Path) -> Result<(Content, Shape, u32), Refusal> {
    if let Some(source) = path.word().and_then(Source::of_header) {
        let (shape, bytes) = (source.shape(), source.bytes());
        return Ok((Content::Number(source), shape, bytes));
    }
    if path.word() == Some("comm") && walker.argument("comm").is_none() {
        let content = Content::Text { source: TextSource::Comm, is_user: false };
        return Ok((content, Shape::Text, NAME_BYTES));
    }
    if let Some(source) = condition::cast(walker, path)? {
        let (shape, bytes) = (source.shape(), source.bytes());
        return Ok((Content::Number(source), shape, bytes));
    }
    if let Some(field) = walker.packet_field(path)? {
        let content = match field {
            PacketField::Address(side) => Content::Address(side),
            field => Content::Number(Source::Packet(field)),
        };
        return Ok((content, field.shape(), field.bytes()));
    }
    let place = walker.follow(path)?;
    let (shape, bytes) = (place.shape, place.bytes);
    let most = crate::event::MOST_BYTES as u32;
    Ok(match shape {
        Shape::Text => {
            let bytes = if place.meaning == Meaning::UserText { TEXT_BYTES } else { bytes };
            let source = TextSource::PathEnd(place);
            let is_user = is_in_program_of(&source).unwrap_or(false);
            (Content::Text { source, is_user }, shape, bytes.min(most))
        }
        Shape::Bytes if bytes == 0 || bytes > most => {
            let allowed = format!("bytes() takes a part of it, up to {most}");
            let wrong = Wrong::Range { number: format!("{bytes} bytes"), allowed };
            return Err(path.span.refuse(walker.text, wrong));
        }
        Shape::Bytes => (Content::Bytes { place, plus: None, is_user: false }, shape, bytes),
        _ => (Content::Number(Source::PathEnd(place)), shape, bytes),
    })
}

pub(crate) fn constants(btf: &Btf, shape: Shape, content: &Content) -> Vec<(i64, String)> {
    let names: Option<Vocabulary> = match content {
        Content::Number(source) => source.names(),
        _ => None,
    };
    match (names, shape) {
        (Some(names), _) => names.constants(),
        (None, Shape::Enum(kind)) => {
            btf.constants(kind).into_iter().map(|(name, value)| (value, name.to_string())).collect()
        }
        _ => Vec::new(),
    }
}
