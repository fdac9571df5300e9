//! An event that has been checked: all that is needed to make a program of it, and to read what that
//! writes.
//!
//! Reads an event as it is written and the kernel's types; emits a [`Probe`]. Refuses what the kernel
//! has not, before anything is attached.

use std::rc::Rc;

use weigh_schema::ring;

use crate::btf::Btf;
use crate::condition::{self, Source, Test, TextSource};
pub use crate::content::Content;
use crate::content::{constants, content};
use crate::counter::Counter;
use crate::defaults;
use crate::error::{Refusal, Wrong};
use crate::event::{Event, Field, MOST_FIELDS, Point};
use crate::executable::Executable;
use crate::filter::Filter;
use crate::owner::Owner;
use crate::packet_resolve::PacketPlaces;
use crate::path::Path;
use crate::path_resolve::{End, PathEnd, Shape, Walker};
use crate::record::HEADER_BYTES;
use crate::sampling::Sampling;
use crate::sets::SETS;
use crate::signature::{self, Attach, NoSignature, OneCall, Signature};
use crate::suggest::nearest;
use crate::syscall;
use crate::thread_bits::ThreadBits;

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeField {
    /// Its name.
    pub name: String,
    /// What it is.
    pub shape: Shape,
    /// Whether it can be below 0.
    pub is_signed: bool,
    /// Where it lies in the record.
    pub offset: u32,
    /// How many bytes it has.
    pub bytes: u32,
    /// What it is filled with.
    pub content: Content,
    /// Its constants by number, if it is one of an enumeration's.
    pub constants: Vec<(i64, String)>,
}

/// One system call among all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlyCall {
    /// Its number.
    pub number: u32,
    /// Where the number is at the begin of a call, and where at its end or at the only place.
    pub id: [PathEnd; 2],
}

/// A checked event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its name.
    pub name: String,
    /// How its program comes to be called.
    pub attach: Attach,
    /// What fills the header's id.
    pub id: Option<Source>,
    /// Whether that is a field of this name, and not the first argument.
    pub has_own_id: bool,
    /// Its fields, as they were asked for.
    pub fields: Vec<ProbeField>,
    /// Which of the events.
    pub test: Option<Test>,
    /// How many of them.
    pub sampling: Option<Sampling>,
    /// The system call alone that it sees, of all that pass there.
    pub only: Option<OnlyCall>,
    /// At system calls: the bits of a thread that say that its numbers are those of 32-bit programs.
    pub compatible: Option<ThreadBits>,
    /// Where the headers of its packet are, if it looks at them.
    pub packet: Option<PacketPlaces>,
    /// Whose threads alone it sees; none: everybody's.
    pub owner: Option<Owner>,
    /// Bytes of a record.
    pub record_bytes: u32,
}

/// The field that goes into the header.
pub const ID: &str = "id";
/// Stores have offsets of 15 bits, too.
const MOST_RECORD_BYTES: u32 = ring::MOST_RECORD as u32;

impl Probe {
    /// Whether one of its fields is a stack of the program's.
    pub fn has_user_stack(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.content, Content::Stack { is_user: true }))
    }

    /// The field whose content alone takes room in a record, by its place among the fields: it lies behind all others.
    pub fn tail(&self) -> Option<usize> {
        tail_of(&self.fields)
    }

    /// Whether one of its fields is the thread's name.
    pub fn has_thread_name(&self) -> bool {
        let is =
            |content: &Content| matches!(content, Content::Text { source: TextSource::Comm, .. });
        self.fields.iter().any(|field| is(&field.content))
    }

    /// Whether one of its fields is a packet.
    pub fn has_packet(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.content, Content::Packet(_)))
    }

    /// Whether the kernel has a function that reads a packet's pages, and its packet lies where that can be called.
    pub fn has_packet_reader(&self) -> bool {
        let has = |field: &ProbeField| matches!(&field.content, Content::Packet(packet) if packet.has_reader());
        self.fields.iter().any(has)
    }

    /// Whether what fills the header's id can be below 0.
    pub fn has_signed_id(&self) -> bool {
        self.id.as_ref().is_some_and(Source::is_signed)
    }

    /// The counters that its program reads.
    pub fn counters(&self) -> impl Iterator<Item = Counter> {
        let fields = self.fields.iter().filter_map(|field| match &field.content {
            Content::Number(source) => Some(source),
            _ => None,
        });
        fields.chain(&self.id).filter_map(Source::counter)
    }

    /// Checks an event, and the filters that are said for all of them.
    pub fn check(btf: &Btf, event: &Event, filters: &[(String, Filter)]) -> Result<Probe, Refusal> {
        let no_file = |path: &str| {
            let why = "no files are at hand".to_string();
            Err((Wrong::Executable { path: path.to_string(), why }, Vec::new()))
        };
        Probe::of(btf, event, &signature_of(btf, event, &no_file)?, filters)
    }

    /// Checks one whose signature is known: looking for that among all of the kernel's takes longer than
    /// the rest.
    pub fn of(
        btf: &Btf,
        event: &Event,
        signature: &Signature,
        filters: &[(String, Filter)],
    ) -> Result<Probe, Refusal> {
        let name = event.name();
        let is_in_program = signature.is_in_program();
        let arguments = &signature.arguments;
        let own = Walker { btf, arguments, event: &name, text: &event.text, is_in_program };
        let mut test = event.filter.as_ref().map(|f| condition::check(&own, f)).transpose()?;
        for (text, filter) in filters {
            let common = Walker { text, ..own };
            let next = condition::check(&common, filter)?;
            test = Some(match test {
                None => next,
                Some(test) => Test::And(Box::new(next), Box::new(test)),
            });
        }
        let mut id = None;
        let mut fields = Vec::new();
        for field in &chosen(btf, event, signature) {
            match content(&own, field)? {
                (Content::Number(source), ..) if field.name == ID => id = Some(source),
                (content, shape, bytes) => {
                    let name = field.name.clone();
                    let constants = constants(btf, shape, &content);
                    let is_signed =
                        matches!(&content, Content::Number(source) if source.is_signed());
                    let offset = 0;
                    if matches!(content, Content::Packet(_)) {
                        fields.extend(sizes_of_packet(&name));
                    }
                    fields.push(ProbeField {
                        name,
                        shape,
                        is_signed,
                        offset,
                        bytes,
                        content,
                        constants,
                    });
                }
            }
        }
        if fields.len() > MOST_FIELDS {
            let wrong = Wrong::TooMuch(format!("more than {MOST_FIELDS} fields"));
            return Err(event.span.refuse(&event.text, wrong));
        }
        if fields.iter().filter(|field| matches!(field.content, Content::Packet(_))).count() > 1 {
            let wrong = Wrong::TooMuch("more than one packet()".to_string());
            return Err(event.span.refuse(&event.text, wrong));
        }
        let record_bytes = lay_out(&mut fields);
        if record_bytes > MOST_RECORD_BYTES {
            let wrong = Wrong::TooMuch(format!(
                "a record of {record_bytes} bytes, of {MOST_RECORD_BYTES} at most"
            ));
            return Err(event.span.refuse(&event.text, wrong));
        }
        let has_own_id = id.is_some();
        let id = id.or_else(|| id_of_call(&own, signature)).or_else(|| first_argument(&own));
        let is_of_calls = arguments.iter().any(|argument| argument.of_call.is_some());
        let compatible = if is_of_calls { ThreadBits::compatible(btf) } else { None };
        let only = signature.call.as_ref().and_then(|call| only(&own, call));
        let sampling = event.sampling;
        let is_of_packet = test.as_ref().is_some_and(Test::is_of_packet)
            || id.as_ref().is_some_and(Source::is_of_packet)
            || fields.iter().any(|field| field.content.is_of_packet());
        let packet = if is_of_packet { own.packet_places()? } else { None };
        Ok(Probe {
            name,
            attach: signature.attach.clone(),
            id,
            has_own_id,
            fields,
            test,
            sampling,
            owner: None,
            packet,
            only,
            compatible,
            record_bytes,
        })
    }
}

/// How the files of programs are had, by what they are called in events.
pub type Files<'f> = &'f dyn Fn(&str) -> Result<Rc<Executable>, NoSignature>;

/// What is handed over at an event.
pub fn signature_of(btf: &Btf, event: &Event, files: Files<'_>) -> Result<Signature, Refusal> {
    let found = match &event.point {
        Point::Tracepoint { name, .. } => signature::of_tracepoint(btf, name),
        // How many arguments it has only the kernel knows.
        Point::Raw { name } => Ok(signature::of_raw(name, 0)),
        Point::Call { name, moment } => signature::of_call(btf, name, *moment),
        Point::Function { name, plus, .. } if *plus > 0 => {
            signature::of_instruction(btf, name, *plus)
        }
        Point::Function { name, returns, .. } => signature::of_function(btf, name, *returns),
        Point::User { path, name, plus, returns } => {
            files(path).and_then(|file| signature::of_user(&file, name, *plus, *returns))
        }
        Point::Usdt { path, provider, name } => {
            files(path).and_then(|file| signature::of_usdt(&file, provider, name))
        }
    };
    found.map_err(|(wrong, mut near)| {
        if let Some(word) = Event::word(&event.text) {
            near.extend(nearest(word, SETS.iter().map(|set| set.name)));
            near.extend(nearest(word, syscall::all().map(|(_, name)| name)));
        }
        event.span.refuse(&event.text, wrong).near(near)
    })
}

/// The fields that were asked for, else those of [`defaults`]; and those that are needed besides.
pub(crate) fn chosen(btf: &Btf, event: &Event, signature: &Signature) -> Vec<Field> {
    let own = event.fields.clone().unwrap_or_else(|| defaults::fields(btf, event, signature));
    own.into_iter().chain(event.more.iter().cloned()).collect()
}

/// An event of one system call is about that.
fn id_of_call(walker: &Walker<'_>, signature: &Signature) -> Option<Source> {
    let path = Path::of_word(signature.call.as_ref()?.number_of, crate::error::Span::default());
    walker.follow(&path).ok().map(Source::PathEnd)
}

fn only(walker: &Walker<'_>, call: &OneCall) -> Option<OnlyCall> {
    let path = Path::of_word(call.number_of, crate::error::Span::default());
    let end = walker.follow(&path).ok()?;
    let begin = PathEnd {
        slot: signature::call_number_slot(),
        hops: Vec::new(),
        end: End::Argument,
        ..end.clone()
    };
    let begin = PathEnd { bytes: 8, ..begin };
    Some(OnlyCall { number: call.number, id: [begin, end] })
}

/// Unless something else was chosen, an event is about its first argument.
fn first_argument(walker: &Walker<'_>) -> Option<Source> {
    let path = Path::of_word(&walker.arguments.first()?.name, crate::error::Span::default());
    walker.follow(&path).ok().map(Source::PathEnd)
}

/// What a record says of its packet besides: how many bytes were kept, and how many it had.
fn sizes_of_packet(name: &str) -> [ProbeField; 2] {
    let size = |what: &str, source: Source| ProbeField {
        name: format!("{name}_{what}"),
        shape: Shape::Unsigned,
        is_signed: false,
        offset: 0,
        bytes: source.bytes(),
        content: Content::Number(source),
        constants: Vec::new(),
    };
    [size("kept", Source::PacketKept), size("length", Source::PacketLength)]
}

/// Where each kind of field may begin.
fn alignment(field: &ProbeField) -> u32 {
    match &field.content {
        Content::Number(_) => field.bytes,
        Content::Stack { .. } | Content::Address(_) => 8,
        Content::Text { .. } | Content::Bytes { .. } | Content::Packet(_) => 1,
    }
}

/// A packet, else the longest of the texts and stacks, whose records end where their content does.
fn tail_of(fields: &[ProbeField]) -> Option<usize> {
    let room = |field: &ProbeField| match &field.content {
        Content::Packet(_) => Some((true, field.bytes)),
        Content::Stack { .. } => Some((false, field.bytes)),
        Content::Text { source: TextSource::PathEnd(_), .. } => Some((false, field.bytes)),
        _ => None,
    };
    let places = fields.iter().enumerate();
    places.filter_map(|(place, field)| Some((room(field)?, place))).max().map(|(_, place)| place)
}

/// Gives each field its place, the widest first so that nothing lies between them, and behind all others the one whose
/// content alone takes room; returns the size of a record.
pub(crate) fn lay_out(fields: &mut [ProbeField]) -> u32 {
    let tail = tail_of(fields);
    let mut end = HEADER_BYTES as u32;
    for wanted in [8, 4, 2, 1] {
        let others = fields.iter_mut().enumerate().filter(|(place, _)| Some(*place) != tail);
        for (_, field) in others.filter(|(_, field)| alignment(field) == wanted) {
            field.offset = end;
            end = end.saturating_add(field.bytes);
        }
    }
    if let Some(tail) = tail {
        let kept = fields.iter().find(|f| f.content == Content::Number(Source::PacketKept));
        let kept_at = kept.map_or(0, |field| field.offset);
        let field = &mut fields[tail];
        field.offset = end.next_multiple_of(alignment(field));
        end = field.offset.saturating_add(field.bytes);
        if let Content::Packet(packet) = &mut field.content {
            packet.kept_at = kept_at;
        }
    }
    end.next_multiple_of(8)
}
