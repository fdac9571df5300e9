//! Values of a record that tell things apart: a thread, a packet, a command.
//!
//! Reads records and the fields of their probes; emits keys as bytes, which are the same for the same
//! values wherever they come from, and reads these again for people. Refuses fields that an event has not,
//! and values that are no key: stacks.

use weigh_schema::synthesis::KeyPart;

use crate::error::{Refusal, Wrong};
use crate::event::Field;
use crate::path_resolve::Shape;
use crate::probe::{ID, Probe};
use crate::record::Record;
use crate::suggest::nearest;
use crate::value::Value;

/// Words of the header, and the event itself.
const WORDS: [(&str, Part); 5] = [
    ("event", Part::Event),
    (ID, Part::Id),
    ("cpu", Part::Cpu),
    ("tgid", Part::Tgid),
    ("tid", Part::Tid),
];

/// What can be asked of every event.
pub fn words<'w>() -> [&'w str; 5] {
    WORDS.map(|(word, _)| word)
}

/// Where a part of a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Which event it is.
    Event,
    /// What the event is about.
    Id,
    /// The CPU.
    Cpu,
    /// The process.
    Tgid,
    /// The thread.
    Tid,
    /// A field.
    Field(usize),
}

/// How a part is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Address,
    Bool,
    /// By a name, if the number has one.
    Named(Vec<(i64, String)>),
}

/// What a key is made of.
#[derive(Clone, Debug)]
pub struct Key {
    parts: Vec<Part>,
    forms: Vec<Form>,
}

/// What begins a part of a key: a number that is not below 0, one that is, a text or bytes.
const NUMBER: u8 = 0;
const BELOW: u8 = 1;
const TEXT: u8 = 2;
const BYTES: u8 = 3;

impl Part {
    /// The part of an event that is written so, unless it needs a field that the event has not.
    pub fn find(name: &str, probe: &Probe) -> Option<Part> {
        let field = || probe.fields.iter().position(|field| field.name == name).map(Part::Field);
        let word = WORDS.iter().find(|(word, _)| *word == name);
        field().or(word.map(|(_, part)| *part))
    }

    /// The same, or why not.
    pub fn need(field: &Field, probe: &Probe, text: &str) -> Result<Part, Refusal> {
        let Some(part) = Part::find(&field.name, probe) else {
            let names = probe.fields.iter().map(|field| field.name.as_str());
            let near = nearest(&field.name, names.chain(words()));
            let (event, name) = (probe.name.clone(), field.name.clone());
            return Err(field.span.refuse(text, Wrong::NoArgument { event, name }).near(near));
        };
        if part.shape(probe) == Shape::Stack {
            let wrong = Wrong::Unsupported("a stack is no key, and no number".to_string());
            return Err(field.span.refuse(text, wrong));
        }
        Ok(part)
    }

    /// What it is.
    pub(crate) fn shape(self, probe: &Probe) -> Shape {
        match self {
            Part::Field(place) => probe.fields[place].shape,
            Part::Id if !probe.has_own_id => Shape::Pointer,
            Part::Id if probe.has_signed_id() => Shape::Signed,
            _ => Shape::Unsigned,
        }
    }

    /// Whether it is a number, in the widest sense.
    pub fn is_number(self, probe: &Probe) -> bool {
        !matches!(self.shape(probe), Shape::Text | Shape::Bytes | Shape::Stack | Shape::Address)
    }

    /// What it is called.
    pub(crate) fn name(self, probe: &Probe) -> String {
        let word = || WORDS.iter().find(|(_, part)| *part == self).map(|(word, _)| *word);
        match self {
            Part::Field(place) => probe.fields[place].name.clone(),
            _ => word().unwrap_or_default().to_string(),
        }
    }

    /// How many bits it has, and whether it can be below 0.
    pub(crate) fn width(self, probe: &Probe) -> (u32, bool) {
        match self {
            Part::Field(place) => {
                let field = &probe.fields[place];
                (8 * field.bytes.min(8), self.shape(probe) == Shape::Signed || field.is_signed)
            }
            Part::Id => (64, self.shape(probe) == Shape::Signed),
            _ => (32, false),
        }
    }

    /// Names that its numbers have.
    pub(crate) fn constants(self, probe: &Probe) -> Vec<(i64, String)> {
        let named = |names: &[(&str, i64)]| {
            names.iter().map(|(name, value)| (*value, name.to_string())).collect()
        };
        match (self, self.shape(probe)) {
            (Part::Field(place), Shape::Enum(_) | Shape::Signed | Shape::Unsigned) => {
                probe.fields[place].constants.clone()
            }
            (_, Shape::Bool) => named(&[("true", 1), ("false", 0)]),
            (_, Shape::Pointer) => named(&[("NULL", 0)]),
            _ => Vec::new(),
        }
    }

    /// Its value.
    pub fn of<'r>(self, probe: &'r Probe, record: Record<'r>) -> Value<'r> {
        match self {
            Part::Event => Value::Unsigned(record.event().into()),
            Part::Id if probe.has_signed_id() => Value::Signed(record.id().cast_signed()),
            Part::Id => Value::Unsigned(record.id()),
            Part::Cpu => Value::Unsigned(record.cpu().into()),
            Part::Tgid => Value::Unsigned(record.tgid().into()),
            Part::Tid => Value::Unsigned(record.tid().into()),
            Part::Field(place) => probe.value(record, place),
        }
    }

    fn form(self, probe: &Probe, events: &[&Probe]) -> Form {
        match (self, self.shape(probe)) {
            (Part::Event, _) => {
                Form::Named((0..).zip(events.iter().map(|event| event.name.clone())).collect())
            }
            (_, Shape::Pointer) => Form::Address,
            (_, Shape::Bool) => Form::Bool,
            (Part::Field(place), Shape::Enum(_) | Shape::Signed) => {
                Form::Named(probe.fields[place].constants.clone())
            }
            _ => Form::Plain,
        }
    }
}

/// A number as it is, whatever it is taken for; none for what is no number.
pub fn number(value: &Value<'_>) -> Option<i128> {
    match *value {
        Value::Unsigned(number) | Value::Pointer(number) => Some(number.into()),
        Value::Signed(number) | Value::Constant(number, _) => Some(number.into()),
        Value::Bool(truth) => Some(truth.into()),
        _ => None,
    }
}

impl Key {
    /// A key that is made of these fields. `events` are all that there are.
    pub fn bind(
        fields: &[&Field],
        probe: &Probe,
        events: &[&Probe],
        text: &str,
    ) -> Result<Key, Refusal> {
        let parts = fields.iter().map(|field| Part::need(field, probe, text));
        let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        let forms = parts.iter().map(|part| part.form(probe, events)).collect();
        Ok(Key { parts, forms })
    }

    /// Its parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Writes the key of a record; whether it could be had.
    pub fn write(&self, probe: &Probe, record: Record<'_>, to: &mut Vec<u8>) -> bool {
        to.clear();
        self.parts.iter().all(|part| {
            let value = part.of(probe, record);
            match value {
                Value::Text(text) => put(to, TEXT, text),
                Value::Bytes(bytes) => put(to, BYTES, bytes),
                Value::Address(address) => put(to, TEXT, address.to_string().as_bytes()),
                _ => {
                    let Some(number) = number(&value) else { return false };
                    to.push(if number < 0 { BELOW } else { NUMBER });
                    to.extend((number as u64).to_le_bytes());
                }
            }
            true
        })
    }

    /// What a key says.
    pub fn read(&self, mut key: &[u8]) -> Vec<KeyPart> {
        let part = |form: &Form| part(&mut key, form);
        self.forms.iter().map_while(part).collect()
    }
}

fn put(to: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    to.push(kind);
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

fn part(key: &mut &[u8], form: &Form) -> Option<KeyPart> {
    let (kind, rest) = key.split_first()?;
    if matches!(*kind, TEXT | BYTES) {
        let (length, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *key = rest;
        return Some(KeyPart::Text(match *kind {
            TEXT => String::from_utf8_lossy(bytes).into_owned(),
            _ => Value::Bytes(bytes).to_string(),
        }));
    }
    let (number, rest) = rest.split_first_chunk()?;
    *key = rest;
    let number = u64::from_le_bytes(*number);
    let signed = number.cast_signed();
    Some(match form {
        Form::Address => KeyPart::Text(format!("{number:#x}")),
        Form::Bool => KeyPart::Bool(number != 0),
        Form::Named(names) if names.iter().any(|(value, _)| *value == signed) => {
            let name = names.iter().find(|(value, _)| *value == signed);
            KeyPart::Text(name.map(|(_, name)| name.clone()).unwrap_or_default())
        }
        _ if *kind == BELOW => KeyPart::Signed(signed),
        _ => KeyPart::Unsigned(number),
    })
}
