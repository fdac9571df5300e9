//! The fields of a record, each written where it lies.

use super::writer::{Access, Aside, ID, LEFT, PACKET_LENGTH, TAIL, Writer};
use crate::assemble::{Helper, Label, Op, R, When};
use crate::condition::TextSource;
use crate::path_resolve::{End, Hop, PathEnd};
use crate::probe::{Content, ProbeField};
use crate::record::{CUT, offset};

/// Bytes of a name that is loaded word by word: a helper takes longer.
const SHORT: u32 = 16;

/// `BPF_F_USER_STACK` of `<linux/bpf.h>`.
const USER_STACK: u64 = 1 << 8;

impl Writer<'_> {
    /// The header's id: 0 if it cannot be had.
    pub(super) fn write_id(&mut self) {
        match self.knows_id {
            true => self.code.load(R::R0, R::Frame, ID, 8),
            false => self.id(),
        }
        self.code.store(R::R7, offset::id as i16, R::R0, 8);
    }

    /// The same, on the stack.
    pub(super) fn learn_id(&mut self) {
        if !self.knows_id {
            self.id();
            self.code.store(R::Frame, ID, R::R0, 8);
            self.knows_id = true;
        }
    }

    fn id(&mut self) {
        let Some(id) = &self.probe.id else { return self.code.constant(R::R0, 0) };
        let (absent, end) = (self.code.label(), self.code.label());
        self.value(id, absent);
        if self.code.is_used(absent) {
            self.code.jump(end);
            self.code.place(absent);
            self.code.constant(R::R0, 0);
            self.code.place(end);
        }
    }

    pub(super) fn write_fields(&mut self) {
        self.code.constant(R::R9, 0);
        let (probe, tail) = (self.probe, self.probe.tail());
        if tail.is_some() {
            self.code.store_constant(R::Frame, TAIL, 0, 8);
        }
        if probe.has_packet() {
            self.code.store_constant(R::Frame, PACKET_LENGTH, 0, 8);
        }
        self.share_pointer();
        // The last one first: how long it is others tell.
        let others = (0..probe.fields.len()).filter(|place| Some(*place) != tail);
        for bit in tail.into_iter().chain(others) {
            let field = &probe.fields[bit];
            self.is_tail = Some(bit) == tail;
            let (absent, next) = (self.code.label(), self.code.label());
            self.write_field(field, absent);
            self.code.place(next);
            self.asides.push(Aside {
                from: absent,
                back: next,
                bit: bit as u32,
                offset: field.offset as i16,
                bytes: if matches!(field.content, Content::Number(_)) { field.bytes } else { 0 },
            });
        }
        self.code.store(R::R7, offset::absent as i16, R::R9, 4);
        self.shared = None;
    }

    fn write_field(&mut self, field: &ProbeField, absent: Label) {
        match &field.content {
            Content::Number(source) => {
                self.value(source, absent);
                self.code.store(R::R7, field.offset as i16, R::R0, field.bytes);
            }
            Content::Text { source: TextSource::Comm, .. } => self.write_thread_name(field),
            Content::Text { source: TextSource::PathEnd(place), is_user: false }
                if self.short_array(place, field).is_some() =>
            {
                self.pointer(place, absent);
                let first = self.short_array(place, field).unwrap_or_default();
                self.copy_words(field, first);
            }
            Content::Text { source: TextSource::PathEnd(place), is_user } => {
                self.address(place, absent);
                self.code.store(R::Frame, LEFT, R::R0, 8);
                self.code.with(Op::Move, R::R3, R::R0);
                self.room_of(field);
                self.code.call(self.text_reader(*is_user));
                self.code.jump_if_constant(When::LessSigned, R::R0, 0, absent);
                self.measure_tail();
                self.mark_cut(field, *is_user);
            }
            Content::Bytes { place, plus, is_user } => {
                self.address(place, absent);
                if let Some(plus) = plus {
                    self.code.store(R::Frame, LEFT, R::R0, 8);
                    self.place_value(plus, absent);
                    self.code.load(R::R1, R::Frame, LEFT, 8);
                    self.code.with(Op::Add, R::R0, R::R1);
                }
                self.code.with(Op::Move, R::R3, R::R0);
                self.room_of(field);
                let is_user = *is_user || self.site.is_some();
                self.code.call(if is_user { Helper::ReadUser } else { Helper::ReadKernel });
                self.code.jump_if_constant(When::Unequal, R::R0, 0, absent);
            }
            Content::Address(side) => self.write_address(*side, field.offset, absent),
            Content::Packet(packet) => self.write_packet(field, packet, absent),
            Content::Stack { is_user } => {
                self.write_stack(field, *is_user, absent);
                self.measure_stack(field);
            }
        }
    }

    /// The helper copies byte by byte, and takes longer than all the rest of a record.
    fn write_thread_name(&mut self, field: &ProbeField) {
        let is_whole = field.bytes == SHORT && self.access != Access::Helpers;
        match self.maps.name_at.filter(|_| is_whole) {
            Some(at) => {
                self.code.call(Helper::CurrentTask);
                self.code.with(Op::Move, R::R1, R::R0);
                self.copy_words(field, at);
            }
            None => {
                self.room_of(field);
                self.code.call(Helper::CurrentComm);
            }
        }
    }

    /// A name that lies so far behind R1.
    fn copy_words(&mut self, field: &ProbeField, first: i16) {
        for at in (0..field.bytes as i16).step_by(8) {
            self.code.load(R::R0, R::R1, first + at, 8);
            self.code.store(R::R7, field.offset as i16 + at, R::R0, 8);
        }
    }

    /// Where a short name lies behind its structure, if the verifier knows that: the kernel always ends such a name.
    fn short_array(&self, place: &PathEnd, field: &ProbeField) -> Option<i16> {
        let End::Inside { hop: Hop { offset, is_typed: true } } = place.end else { return None };
        let is_short = field.bytes == place.bytes
            && field.bytes <= SHORT
            && field.bytes.is_multiple_of(8)
            && !self.is_tail
            && self.site.is_none()
            && self.access != Access::Helpers;
        i16::try_from(offset).ok().filter(|first| is_short && *first < i16::MAX - SHORT as i16)
    }

    /// R0 is how much of its room a field takes.
    fn measure_tail(&mut self) {
        if self.is_tail {
            self.code.store(R::Frame, TAIL, R::R0, 8);
        }
    }

    /// The same of a stack: an address that is 0 ends it for those who look for that, if there is room.
    fn measure_stack(&mut self, field: &ProbeField) {
        let has_end = self.code.label();
        self.code.jump_if_constant(When::AtLeast, R::R0, field.bytes as i32, has_end);
        self.code.with_constant(Op::Add, R::R0, 8);
        self.code.place(has_end);
        self.measure_tail();
    }

    /// A text that fills its room may have been cut: then its byte behind the last one that was copied is not its end.
    fn mark_cut(&mut self, field: &ProbeField, is_user: bool) {
        let (Some(at), bytes) = (field.bytes.checked_sub(CUT.len() as u32), field.bytes) else {
            return;
        };
        let (cut, whole) = (self.code.label(), self.code.label());
        self.code.jump_if_constant(When::Less, R::R0, bytes as i32, whole);
        self.code.load(R::R3, R::Frame, LEFT, 8);
        self.code.with_constant(Op::Add, R::R3, bytes as i32 - 1);
        let is_user = is_user || self.site.is_some();
        self.read(if is_user { Helper::ReadUser } else { Helper::ReadKernel }, 1, cut);
        self.code.jump_if_constant(When::Equal, R::R0, 0, whole);
        self.code.place(cut);
        for (place, byte) in (at..).zip(CUT) {
            self.code.store_constant(R::R7, (field.offset + place) as i16, i32::from(*byte), 1);
        }
        self.code.place(whole);
    }

    /// The helper that reads a text: what a program hands over lies in its own memory.
    pub(super) fn text_reader(&self, is_user: bool) -> Helper {
        match is_user || self.site.is_some() {
            true => Helper::ReadUserText,
            false => Helper::ReadKernelText,
        }
    }

    /// R1 is where the field lies, R2 its size.
    fn room_of(&mut self, field: &ProbeField) {
        self.code.with(Op::Move, R::R1, R::R7);
        self.code.with_constant(Op::Add, R::R1, field.offset as i32);
        self.code.constant(R::R2, u64::from(field.bytes));
    }

    /// The kernel fills what it has no frames for with 0.
    fn write_stack(&mut self, field: &ProbeField, is_user: bool, absent: Label) {
        let code = &mut self.code;
        code.with(Op::Move, R::R1, R::R6);
        code.with(Op::Move, R::R2, R::R7);
        code.with_constant(Op::Add, R::R2, field.offset as i32);
        code.constant(R::R3, u64::from(field.bytes));
        code.constant(R::R4, if is_user { USER_STACK } else { 0 });
        code.call(Helper::Stack);
        code.jump_if_constant(When::LessSigned, R::R0, 0, absent);
    }

    /// What stands behind the rest, for it is seldom reached.
    pub(super) fn write_asides(&mut self) {
        let mut asides = std::mem::take(&mut self.asides);
        asides.retain(|aside| self.code.is_used(aside.from));
        for aside in asides {
            self.code.place(aside.from);
            self.code.constant(R::R1, 1 << aside.bit);
            self.code.with(Op::Or, R::R9, R::R1);
            if aside.bytes > 0 {
                self.code.store_constant(R::R7, aside.offset, 0, aside.bytes);
            }
            self.code.jump(aside.back);
        }
    }
}
