//! Fields of an event that names none: those that perf shows, and the thread's name.
//!
//! Reads a table of tracepoints, else the kernel's type of the tracepoint's record (`struct trace_event_raw_NAME`) and
//! the arguments; emits fields. A field of the record is taken from the argument of its name, or from the member of its
//! name that an argument leads to. Raw pointers are taken only where nothing else is there.

use crate::btf::{Btf, TypeKind};
use crate::content::content;
use crate::error::Span;
use crate::event::{Event, Field, FieldContent, MOST_FIELDS, Point, fields_of};
use crate::path::Path;
use crate::path_resolve::Walker;
use crate::signature::{Argument, Signature};

mod table;

/// The name of the thread, which every event has.
const COMM: &str = "comm";
/// What the kernel puts before the name of a text of a record's type.
const TEXT: &str = "__data_loc_";
/// The first member of a record's type, and the last.
const NOT_FIELDS: [&str; 2] = ["ent", "__data"];

/// Fields where none are named.
pub(crate) fn fields(btf: &Btf, event: &Event, signature: &Signature) -> Vec<Field> {
    let name = event.name();
    let (arguments, is_in_program) = (&signature.arguments, signature.is_in_program());
    let finder = Finder { btf, arguments, event: &name, is_in_program, span: event.span };
    let mut fields = match &event.point {
        Point::Call { .. } => finder.of_call(),
        Point::Tracepoint { name, .. } => finder.of_tracepoint(name),
        // Of an instruction the registers that functions are given their arguments in.
        Point::Function { plus: 1.., .. } => finder.plain(|a| a.name.starts_with("arg")),
        // What a function is given is what it is about, addresses as well.
        Point::Raw { .. } | Point::Function { .. } | Point::User { .. } | Point::Usdt { .. } => {
            finder.plain(|_| true)
        }
    };
    if fields.is_empty() {
        fields = finder.plain(|_| true);
    }
    fields.truncate(MOST_FIELDS - 1);
    if !fields.iter().any(|field| field.name == COMM) {
        fields.push(finder.word(COMM));
    }
    fields
}

struct Finder<'f> {
    btf: &'f Btf,
    arguments: &'f [Argument],
    event: &'f str,
    is_in_program: bool,
    span: Span,
}

impl Finder<'_> {
    fn of_call(&self) -> Vec<Field> {
        let is_default =
            |argument: &&Argument| argument.of_call.is_some_and(|of_call| of_call.is_default);
        self.arguments.iter().filter(is_default).map(|argument| self.word(&argument.name)).collect()
    }

    fn of_tracepoint(&self, name: &str) -> Vec<Field> {
        if let Some((_, declared)) = table::FIELDS.iter().find(|(other, _)| *other == name) {
            let declared = fields_of(declared).unwrap_or_default();
            let can_be_had = |field: &Field| self.can_be_had(field);
            return declared.into_iter().filter(can_be_had).map(|field| self.here(field)).collect();
        }
        let record = self.btf.record(name);
        let members = record.map(|record| self.btf.members(record)).unwrap_or_default();
        let members = members.iter().filter(|member| !NOT_FIELDS.contains(&member.name));
        let mut fields: Vec<Field> =
            members.filter_map(|member| self.of_record(member.name)).collect();
        let is_new = |argument: &Argument| {
            !self.is_pointer(argument) && !fields.iter().any(|field| field.name == argument.name)
        };
        let others = self.plain(is_new);
        fields.extend(others);
        fields
    }

    /// A field of the record, by the arguments.
    fn of_record(&self, member: &str) -> Option<Field> {
        let name = member.strip_prefix(TEXT).unwrap_or(member);
        let is_text = name != member;
        if name == COMM {
            return None;
        }
        let path = |path: String| match is_text {
            true => format!("{name}=str({path})"),
            false => format!("{name}={path}"),
        };
        let own = self.arguments.iter().filter(|argument| argument.name == name);
        let own = own.map(|argument| path(argument.name.clone()));
        let behind = self.arguments.iter().filter(|argument| self.is_pointer(argument));
        let behind = behind.map(|argument| path(format!("{}->{name}", argument.name)));
        own.chain(behind).find_map(|text| self.parsed(&text))
    }

    fn parsed(&self, text: &str) -> Option<Field> {
        let field = fields_of(text).ok()?.into_iter().next()?;
        let can_be_had = self.can_be_had(&field) && !self.is_large(&field);
        can_be_had.then(|| self.here(field))
    }

    fn can_be_had(&self, field: &Field) -> bool {
        content(&self.walker(), field).is_ok()
    }

    /// Whether it is a structure, or an array of anything but characters.
    fn is_large(&self, field: &Field) -> bool {
        let shape = content(&self.walker(), field).map(|(_, shape, _)| shape);
        matches!(shape, Ok(crate::path_resolve::Shape::Bytes))
    }

    fn walker(&self) -> Walker<'_> {
        let Finder { btf, arguments, event, is_in_program, .. } = *self;
        Walker { btf, arguments, event, text: "", is_in_program }
    }

    /// The same, as if it stood where the event is named.
    fn here(&self, field: Field) -> Field {
        Field { span: self.span, ..field }
    }

    /// Arguments that are numbers or addresses.
    fn plain(&self, is_wanted: impl Fn(&Argument) -> bool) -> Vec<Field> {
        let is_plain = |argument: &&Argument| {
            let plain = |kind| {
                matches!(
                    kind,
                    TypeKind::Int { bytes: 1..=8, .. }
                        | TypeKind::Pointer(_)
                        | TypeKind::Enum { .. }
                )
            };
            let kind = argument.kind;
            argument.why_not.is_none()
                && (kind == 0 || self.btf.bare(kind).is_ok_and(|(_, kind)| plain(kind)))
        };
        let plain = self.arguments.iter().filter(is_plain).filter(|argument| is_wanted(argument));
        plain.map(|argument| self.word(&argument.name)).collect()
    }

    fn is_pointer(&self, argument: &Argument) -> bool {
        matches!(self.btf.bare(argument.kind), Ok((_, TypeKind::Pointer(_))))
    }

    fn word(&self, name: &str) -> Field {
        let path = Path::of_word(name, self.span);
        Field { name: name.to_string(), span: self.span, wanted: FieldContent::Value(path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_field_is_one() {
        for (event, declared) in table::FIELDS {
            let fields = fields_of(declared).unwrap_or_else(|refusal| panic!("{event}: {refusal}"));
            assert!(!fields.is_empty(), "{event}");
        }
    }
}
