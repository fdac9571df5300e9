//! From a path as it is written to the loads that follow it.
//!
//! Reads a path, the event's arguments and the kernel's types; emits a [`PathEnd`]. Refuses members
//! that are not there, with the nearest that are, and steps that a type does not allow.

use crate::btf::{Btf, BtfError, TypeKind};
use crate::error::{Refusal, Span, Wrong};
use crate::event::TEXT_BYTES;
use crate::packet_header;
use crate::path::{Cast, Path, Step};
use crate::signature::{Argument, CallArgument, CallPlace};
use crate::suggest::nearest;
use crate::syscall::ArgumentKind;
use crate::vocabulary::Vocabulary;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A whole number that is never below 0.
    Unsigned,
    /// A whole number.
    Signed,
    /// True or false.
    Bool,
    /// An address.
    Pointer,
    /// One of an enumeration's constants: the enumeration's type.
    Enum(u32),
    /// Characters, up to the first that is 0.
    Text,
    /// Bytes.
    Bytes,
    /// Addresses of code.
    Stack,
    /// An address of IP.
    Address,
}

/// Some bits of what was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// The lowest of them.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// A pointer that is loaded on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where it lies behind the pointer before it.
    pub offset: u32,
    /// Whether the kernel's verifier knows the structure that it lies in.
    pub is_typed: bool,
}

/// What is taken at the end of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The argument itself.
    Argument,
    /// What lies behind the last pointer is loaded.
    Loaded {
        /// Where.
        hop: Hop,
        /// The bits of it that count, if not all do.
        bits: Option<Bits>,
    },
    /// Where something lies behind the last pointer: an array, a structure.
    Inside {
        /// Where.
        hop: Hop,
    },
    /// A text that was kept as a system call began.
    SavedText {
        /// Where, behind the beginning of what was kept.
        at: u32,
        /// Where its address is there.
        address_at: u32,
        /// The register that its address was in, behind the beginning of the registers.
        register: u32,
    },
    /// A register that was kept then.
    SavedRegister {
        /// Where, behind the beginning of what was kept.
        at: u32,
        /// Which, behind the beginning of the registers.
        register: u32,
    },
    /// How long a system call took.
    Duration,
}

/// What a number or an address stands for, where the kernel's types do not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    /// For itself.
    #[default]
    Plain,
    /// For a text in the program's memory.
    UserText,
    /// For an address there.
    UserAddress,
    /// For a text that was kept.
    SavedText,
    /// For one of these names, or for several.
    Names(Vocabulary),
}

impl Meaning {
    /// Whether what it stands for lies in the program's memory.
    pub fn is_of_program(self) -> bool {
        matches!(self, Meaning::UserText | Meaning::UserAddress)
    }
}

/// The end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEnd {
    /// Where the argument lies.
    pub slot: i16,
    /// The pointers on the way.
    pub hops: Vec<Hop>,
    /// What is taken there.
    pub end: End,
    /// How many bytes it has.
    pub bytes: u32,
    /// What it is.
    pub shape: Shape,
    /// Whether it can be below 0.
    pub is_signed: bool,
    /// Its type; 0 where nobody knows it.
    pub kind: u32,
    /// What it stands for.
    pub meaning: Meaning,
}

/// Follows paths: the event's arguments, and the text that they are written in.
pub struct Walker<'a> {
    /// The kernel's types.
    pub btf: &'a Btf,
    /// What the event hands over.
    pub arguments: &'a [Argument],
    /// The event's name.
    pub event: &'a str,
    /// The text.
    pub text: &'a str,
    /// Whether it happens in a program, not in the kernel.
    pub is_in_program: bool,
}

/// Where a walk stands: at a value of a type, which may lie somewhere behind a pointer.
struct Stand {
    hops: Vec<Hop>,
    /// Behind the last pointer; none while it is the argument itself.
    at: Option<Hop>,
    bits: Option<Bits>,
    kind: u32,
}

impl Walker<'_> {
    fn refuse(&self, span: Span, wrong: Wrong) -> Refusal {
        span.refuse(self.text, wrong)
    }

    fn damaged(&self, span: Span) -> impl Fn(BtfError) -> Refusal {
        move |error| self.refuse(span, Wrong::Btf(error))
    }

    /// The argument of that name, or of that number: `arg0`. In a program those are their names.
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        let number =
            || name.strip_prefix("arg")?.parse::<usize>().ok().filter(|_| !self.is_in_program);
        let named = self.arguments.iter().find(|argument| argument.name == name);
        named.or_else(|| self.arguments.get(number()?))
    }

    /// Follows a path to its end.
    pub fn follow(&self, path: &Path) -> Result<PathEnd, Refusal> {
        let Some(argument) = self.argument(&path.base) else {
            let (event, name) = (self.event.to_string(), path.base.clone());
            let refusal = self.refuse(path.base_span, Wrong::NoArgument { event, name });
            let names = || self.arguments.iter().map(|argument| argument.name.as_str());
            let is_packet = self.packet_argument().is_some();
            let packet: Vec<&str> =
                if is_packet { packet_header::names().collect() } else { Vec::new() };
            let known = names().chain(["tgid", "tid", "cpu", "comm"]).chain(packet);
            let near = nearest(&path.base, known);
            let all = || names().map(str::to_string).collect();
            return Err(refusal.near(if near.is_empty() { all() } else { near }));
        };
        if let Some(why) = &argument.why_not {
            let wrong = Wrong::Unsupported(format!("{}: {why}", path.base));
            return Err(self.refuse(path.base_span, wrong));
        }
        if let Some(of_call) = argument.of_call {
            return self.of_call(argument, of_call, path);
        }
        let mut stand = Stand { hops: Vec::new(), at: None, bits: None, kind: argument.kind };
        let mut so_far = path.base_span;
        for (step, span) in &path.steps {
            self.take(&mut stand, step, *span, so_far)?;
            so_far = so_far.to(*span);
        }
        let place = self.end(argument, stand, path.span)?;
        match path.cast {
            None => Ok(place),
            Some(cast) => self.cast(place, cast, path),
        }
    }

    /// What a system call hands over: a number, an address or a text, and nothing behind it.
    fn of_call(
        &self,
        argument: &Argument,
        of: CallArgument,
        path: &Path,
    ) -> Result<PathEnd, Refusal> {
        if let Some((_, span)) = path.steps.first() {
            let (what, kind) = (path.base.clone(), "a system call's argument".to_string());
            let why = "what is behind it is not known; ubytes() takes bytes, ustr() a text";
            return Err(self.refuse(*span, Wrong::Type { what, kind, why }));
        }
        let (bytes, shape, meaning) = match (of.kind, of.place) {
            (ArgumentKind::Text, CallPlace::SavedText { .. }) => {
                (TEXT_BYTES, Shape::Text, Meaning::SavedText)
            }
            (ArgumentKind::Text, _) => (8, Shape::Text, Meaning::UserText),
            (ArgumentKind::Pointer, _) => (8, Shape::Pointer, Meaning::UserAddress),
            (ArgumentKind::Number { bytes, is_signed, names }, _) => {
                let shape = match (names, is_signed) {
                    (Some(Vocabulary::Syscalls), _) => Shape::Enum(0),
                    (_, true) => Shape::Signed,
                    (_, false) => Shape::Unsigned,
                };
                (bytes, shape, names.map_or(Meaning::Plain, Meaning::Names))
            }
        };
        let end = match of.place {
            CallPlace::Given => End::Argument,
            CallPlace::Register(offset) => {
                End::Loaded { hop: Hop { offset, is_typed: true }, bits: None }
            }
            CallPlace::SavedText { saved, saved_register, register } => {
                End::SavedText { at: saved, address_at: saved_register, register }
            }
            CallPlace::SavedRegister { saved, register } => {
                End::SavedRegister { at: saved, register }
            }
            CallPlace::Duration => End::Duration,
        };
        let is_signed = matches!(of.kind, ArgumentKind::Number { is_signed: true, .. });
        let slot = argument.slot;
        let place =
            PathEnd { slot, hops: Vec::new(), end, bytes, shape, is_signed, kind: 0, meaning };
        match (path.cast, shape) {
            (None, _) => Ok(place),
            (Some(cast), Shape::Unsigned | Shape::Signed | Shape::Pointer) => {
                Ok(PathEnd { meaning: Meaning::Plain, ..self.cast(place, cast, path)? })
            }
            (Some(_), _) => {
                let (what, kind) = (path.base.clone(), "a text or a name".to_string());
                let why = "it is not taken for a number";
                Err(self.refuse(path.span, Wrong::Type { what, kind, why }))
            }
        }
    }

    /// What of a number counts, if nobody knows its type.
    fn cast(&self, place: PathEnd, cast: Cast, path: &Path) -> Result<PathEnd, Refusal> {
        if place.kind != 0 {
            let (what, kind) = (path.base.clone(), self.btf.describe(place.kind));
            let why = "its type is known, so it is not taken for another";
            return Err(self.refuse(path.span, Wrong::Type { what, kind, why }));
        }
        let shape = if cast.is_signed { Shape::Signed } else { Shape::Unsigned };
        Ok(PathEnd { bytes: cast.bytes, shape, is_signed: cast.is_signed, ..place })
    }

    fn take(
        &self,
        stand: &mut Stand,
        step: &Step,
        span: Span,
        so_far: Span,
    ) -> Result<(), Refusal> {
        let damaged = self.damaged(span);
        let (_, kind) = self.btf.bare(stand.kind).map_err(&damaged)?;
        if let TypeKind::Pointer(to) = kind {
            self.go_behind(stand, to).map_err(&damaged)?;
        }
        let (bare, kind) = self.btf.bare(stand.kind).map_err(&damaged)?;
        let why = match (step, &kind, stand.at) {
            (Step::Member(name), TypeKind::Struct { .. }, Some(_)) => {
                return self.enter(stand, bare, name, span);
            }
            (Step::Index(index), TypeKind::Array { of, count }, Some(_)) => {
                if *count > 0 && *index >= u64::from(*count) {
                    let allowed = format!("{} has {count}", self.written(so_far));
                    return Err(
                        self.refuse(span, Wrong::Range { number: index.to_string(), allowed })
                    );
                }
                return self.advance(stand, *of, *index, span);
            }
            // A pointer to several of them.
            (Step::Index(index), _, Some(at)) if at.offset == 0 && stand.bits.is_none() => {
                return self.advance(stand, stand.kind, *index, span);
            }
            (Step::Member(_), ..) => "it has no members",
            (Step::Index(_), ..) => "it has no elements",
        };
        let (what, kind) = (self.written(so_far), self.btf.describe(stand.kind));
        Err(self.refuse(so_far, Wrong::Type { what, kind, why }))
    }

    fn written(&self, span: Span) -> String {
        self.text.get(span.at..span.at + span.length).unwrap_or_default().to_string()
    }

    /// The value is a pointer: from now on it is what lies behind.
    fn go_behind(&self, stand: &mut Stand, to: u32) -> Result<(), BtfError> {
        let (_, behind) = self.btf.bare(to)?;
        let is_typed = matches!(behind, TypeKind::Struct { .. })
            && !self.btf.is_tagged(to, "percpu")
            && !self.btf.is_tagged(to, "user");
        stand.hops.extend(stand.at);
        stand.at = Some(Hop { offset: 0, is_typed });
        stand.kind = to;
        Ok(())
    }

    fn advance(&self, stand: &mut Stand, of: u32, index: u64, span: Span) -> Result<(), Refusal> {
        let size = self.btf.size(of).map_err(self.damaged(span))?;
        self.shift(stand, size.saturating_mul(index), span)?;
        stand.kind = of;
        Ok(())
    }

    fn shift(&self, stand: &mut Stand, bytes: u64, span: Span) -> Result<(), Refusal> {
        let from = stand.at.map_or(0, |at| u64::from(at.offset));
        let Ok(offset) = i32::try_from(from.saturating_add(bytes)) else {
            let allowed = "offsets below 2 GiB".to_string();
            return Err(self.refuse(span, Wrong::Range { number: bytes.to_string(), allowed }));
        };
        if let Some(at) = &mut stand.at {
            at.offset = offset.cast_unsigned();
        }
        Ok(())
    }

    fn enter(&self, stand: &mut Stand, of: u32, name: &str, span: Span) -> Result<(), Refusal> {
        let mut names = Vec::new();
        let Some((bit, bits, kind)) = self.member(of, name, &mut names, 0) else {
            let of = self.btf.describe(of);
            let refusal = self.refuse(span, Wrong::NoMember { of, name: name.to_string() });
            let near = nearest(name, names.iter().copied());
            let all = || names.iter().take(8).map(|name| (*name).to_string()).collect();
            return Err(refusal.near(if near.is_empty() { all() } else { near }));
        };
        if bits > 0 {
            // The smallest aligned number that holds all of it.
            let bytes =
                [1, 2, 4, 8].into_iter().find(|bytes| bit % (bytes * 8) + bits <= bytes * 8);
            let bytes = bytes.unwrap_or(8);
            stand.bits = Some(Bits { first: bit % (bytes * 8), count: bits });
            self.shift(stand, u64::from(bit / (bytes * 8) * bytes), span)?;
        } else {
            self.shift(stand, u64::from(bit / 8), span)?;
        }
        stand.kind = kind;
        Ok(())
    }

    /// A member, also of structures without a name inside: its first bit, its width, its type.
    fn member<'s>(
        &'s self,
        of: u32,
        name: &str,
        names: &mut Vec<&'s str>,
        depth: usize,
    ) -> Option<(u32, u32, u32)> {
        if depth > 16 {
            return None;
        }
        for member in self.btf.members(of) {
            if member.name == name && !name.is_empty() {
                return Some((member.bit, member.bits, member.kind));
            }
            if !member.name.is_empty() {
                names.push(member.name);
            } else if let Ok((inner, TypeKind::Struct { .. })) = self.btf.bare(member.kind)
                && let Some((bit, bits, kind)) = self.member(inner, name, names, depth + 1)
            {
                return Some((member.bit.checked_add(bit)?, bits, kind));
            }
        }
        None
    }

    fn end(&self, argument: &Argument, stand: Stand, span: Span) -> Result<PathEnd, Refusal> {
        let damaged = self.damaged(span);
        let (slot, kind) = (argument.slot, stand.kind);
        let Stand { hops, at, bits, .. } = stand;
        let (bare, what) = self.btf.bare(kind).map_err(&damaged)?;
        let (bytes, shape) = match what {
            // Of a register nobody knows the type.
            TypeKind::Void if argument.kind == 0 => {
                (8, if argument.is_signed { Shape::Signed } else { Shape::Unsigned })
            }
            TypeKind::Int { bytes, is_bool: true, .. } if bytes <= 8 => (bytes, Shape::Bool),
            TypeKind::Int { bytes, signed: true, .. } if bytes <= 8 => (bytes, Shape::Signed),
            TypeKind::Int { bytes, .. } if bytes <= 8 => (bytes, Shape::Unsigned),
            TypeKind::Enum { bytes, .. } if bytes <= 8 => (bytes, Shape::Enum(bare)),
            TypeKind::Pointer(_) => (8, Shape::Pointer),
            TypeKind::Array { of, count } if at.is_some() => {
                let is_text = matches!(self.btf.bare(of), Ok((_, TypeKind::Int { bytes: 1, .. })));
                let size = self.btf.size(of).map_err(&damaged)?.saturating_mul(u64::from(count));
                let bytes = u32::try_from(size).unwrap_or(u32::MAX);
                (bytes, if is_text { Shape::Text } else { Shape::Bytes })
            }
            TypeKind::Struct { bytes, .. } if at.is_some() => (bytes, Shape::Bytes),
            _ => {
                let (what, kind) = (self.written(span), self.btf.describe(kind));
                let why = "no value can be taken of that";
                return Err(self.refuse(span, Wrong::Type { what, kind, why }));
            }
        };
        let end = match (at, shape) {
            (None, _) => End::Argument,
            (Some(hop), Shape::Text | Shape::Bytes) => End::Inside { hop },
            (Some(hop), _) => End::Loaded { hop, bits },
        };
        // A field of bits is as wide as what is loaded to get it, not as its declared type.
        let bytes = match bits {
            Some(Bits { first, count }) => (first + count).div_ceil(8).next_power_of_two(),
            None => bytes,
        };
        let is_signed = kind == 0 && argument.is_signed
            || matches!(
                what,
                TypeKind::Int { signed: true, .. } | TypeKind::Enum { signed: true, .. }
            );
        let meaning = Meaning::Plain;
        Ok(PathEnd { slot, hops, end, bytes, shape, is_signed, kind: bare, meaning })
    }
}
