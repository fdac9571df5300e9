//! One system call among all: its number, and what is kept of it from its begin to its end.
//!
//! Of a whole call there are two programs. The first keeps, by the thread, the time and the texts; the second finds
//! that, makes a record of it and of what the call returns, and forgets it. A text that was not in memory as the call
//! began (the kernel fetches it) is read as it ends.

use super::writer::{CALL, CALL_KEY, KEPT, TGID_TID, TIME, Writer};
use crate::assemble::{Helper, Label, Op, R, When};
use crate::condition::{Test, TextSource};
use crate::event::TEXT_BYTES;
use crate::path_resolve::{End, Hop, Meaning, PathEnd, Shape};
use crate::probe::Content;
use crate::record::CUT;
use crate::signature::{Attach, REGISTERS_OF_CALL, SAVED_HEAD, SAVED_REGISTERS};

/// A text that is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StoredText {
    at: u32,
    address_at: u32,
}

impl Writer<'_> {
    fn saved_bytes(&self) -> Option<u32> {
        match self.probe.attach {
            Attach::Call { saved_bytes, .. } => Some(saved_bytes),
            _ => None,
        }
    }

    /// Whether this program is the one at the begin of a whole call.
    pub(super) fn is_begin_of_call(&self) -> bool {
        self.saved_bytes().is_some() && self.slot.site == 0
    }

    /// Only the one call goes on, of programs of this architecture: others have other numbers.
    pub(super) fn leave_other_calls_out(&mut self) {
        let Some(only) = &self.probe.only else { return };
        let end = self.end;
        let id = if self.is_begin_of_call() { &only.id[0] } else { &only.id[1] };
        self.place_value(id, end);
        self.code.jump_if_constant(When::Unequal, R::R0, only.number.cast_signed(), end);
        self.leave_compatible_out(end);
    }

    /// Goes elsewhere if the call is one of a 32-bit program.
    pub(super) fn leave_compatible_out(&mut self, to: Label) {
        let Some(bits) = self.probe.compatible else { return };
        self.code.call(Helper::CurrentTask);
        self.code.with(Op::Move, R::R3, R::R0);
        self.code.with_constant(Op::Add, R::R3, bits.at);
        self.read_kernel(bits.bytes, to);
        self.code.with_constant(Op::And, R::R0, bits.mask);
        self.code.jump_if_constant(When::Unequal, R::R0, 0, to);
    }

    /// Keeps what is known at the begin.
    pub(super) fn keep_call(&mut self) {
        let (Some(bytes), Some(calls)) = (self.saved_bytes(), self.maps.calls) else { return };
        let room = KEPT - bytes as i16;
        self.code.call(Helper::TimeSinceBoot);
        self.code.store(R::Frame, room, R::R0, 8);
        for (register, at) in REGISTERS_OF_CALL.into_iter().zip((SAVED_REGISTERS..).step_by(8)) {
            self.register(register);
            self.code.store(R::Frame, room + at as i16, R::R0, 8);
        }
        for at in (SAVED_HEAD..bytes).step_by(8) {
            self.code.store_constant(R::Frame, room + at as i16, 0, 8);
        }
        for kept in self.kept() {
            let absent = self.code.label();
            self.keep_text(kept, room, absent);
            self.code.place(absent);
        }
        self.learn_thread();
        self.call_key();
        self.code.map(R::R1, calls);
        self.code.with(Op::Move, R::R3, R::Frame);
        self.code.with_constant(Op::Add, R::R3, room.into());
        self.code.constant(R::R4, 0);
        self.code.call(Helper::MapUpdate);
    }

    /// Finds it at the end; a call that began before is left out.
    pub(super) fn find_kept_call(&mut self) {
        let (Some(_), Some(calls)) = (self.saved_bytes(), self.maps.calls) else { return };
        self.learn_thread();
        self.call_key();
        self.code.map(R::R1, calls);
        self.code.call(Helper::MapLookup);
        self.code.jump_if_constant(When::Equal, R::R0, 0, self.end);
        self.code.store(R::Frame, CALL, R::R0, 8);
        // From here on there is something to forget.
        self.end = self.code.label();
        self.learn_time();
        for kept in self.kept() {
            let (there, absent) = (self.code.label(), self.code.label());
            self.code.load(R::R1, R::Frame, CALL, 8);
            self.code.load(R::R0, R::R1, kept.at as i16, 8);
            self.code.jump_if_constant(When::Unequal, R::R0, 0, there);
            self.read_late(kept, absent);
            self.code.place(absent);
            self.code.place(there);
        }
    }

    /// Nothing of it is left, whether a record was made of it or not.
    pub(super) fn forget_call(&mut self, end: Label) {
        if self.end == end {
            return;
        }
        self.code.place(self.end);
        let Some(calls) = self.maps.calls else { return };
        self.call_key();
        self.code.map(R::R1, calls);
        self.code.call(Helper::MapDelete);
    }

    /// R0 is where a text lies that was kept.
    pub(super) fn kept_text(&mut self, at: u32, absent: Label) {
        self.code.load(R::R1, R::Frame, CALL, 8);
        self.code.load(R::R0, R::R1, at as i16, 8);
        self.code.jump_if_constant(When::Equal, R::R0, 0, absent);
        self.code.with(Op::Move, R::R0, R::R1);
        self.code.with_constant(Op::Add, R::R0, at.cast_signed() + 8);
    }

    /// R0 is the lowest bytes of a register that was kept.
    pub(super) fn kept_register(&mut self, at: u32, bytes: u32) {
        self.code.load(R::R1, R::Frame, CALL, 8);
        self.code.load(R::R0, R::R1, at as i16, bytes);
    }

    /// R0 is how long the call took.
    pub(super) fn call_duration(&mut self) {
        self.learn_time();
        self.code.load(R::R0, R::Frame, TIME, 8);
        self.code.load(R::R1, R::Frame, CALL, 8);
        self.code.load(R::R1, R::R1, 0, 8);
        self.code.with(Op::Subtract, R::R0, R::R1);
    }

    /// R2 is the thread, as the key of what is kept.
    fn call_key(&mut self) {
        self.code.load(R::R0, R::Frame, TGID_TID, 8);
        self.code.store(R::Frame, CALL_KEY, R::R0, 8);
        self.code.with(Op::Move, R::R2, R::Frame);
        self.code.with_constant(Op::Add, R::R2, CALL_KEY.into());
    }

    /// A text into the room for it on the stack.
    fn keep_text(&mut self, kept: StoredText, room: i16, absent: Label) {
        let base = room + kept.at as i16;
        self.code.load(R::R0, R::Frame, room + kept.address_at as i16, 8);
        self.code.jump_if_constant(When::Equal, R::R0, 0, absent);
        self.code.store(R::Frame, KEPT, R::R0, 8);
        self.code.with(Op::Move, R::R3, R::R0);
        self.code.with(Op::Move, R::R1, R::Frame);
        self.code.with_constant(Op::Add, R::R1, i32::from(base) + 8);
        self.code.constant(R::R2, TEXT_BYTES.into());
        self.code.call(Helper::ReadUserText);
        self.code.jump_if_constant(When::LessSigned, R::R0, 0, absent);
        self.code.store_constant(R::Frame, base, 1, 8);
        let whole = self.code.label();
        self.jump_if_whole(whole);
        for (place, byte) in (0..).zip(CUT) {
            let at = base + 8 + (TEXT_BYTES as usize - CUT.len()) as i16 + place;
            self.code.store_constant(R::Frame, at, i32::from(*byte), 1);
        }
        self.code.place(whole);
    }

    /// The same at the end, into what was kept.
    fn read_late(&mut self, kept: StoredText, absent: Label) {
        self.kept_register(kept.address_at, 8);
        self.code.jump_if_constant(When::Equal, R::R0, 0, absent);
        self.code.store(R::Frame, KEPT, R::R0, 8);
        self.code.with(Op::Move, R::R3, R::R0);
        self.code.load(R::R1, R::Frame, CALL, 8);
        self.code.with_constant(Op::Add, R::R1, kept.at.cast_signed() + 8);
        self.code.constant(R::R2, TEXT_BYTES.into());
        self.code.call(Helper::ReadUserText);
        self.code.jump_if_constant(When::LessSigned, R::R0, 0, absent);
        self.code.load(R::R2, R::Frame, CALL, 8);
        self.code.store_constant(R::R2, kept.at as i16, 1, 8);
        self.jump_if_whole(absent);
        self.code.load(R::R2, R::Frame, CALL, 8);
        for (place, byte) in (0..).zip(CUT) {
            let at = (kept.at + 8 + TEXT_BYTES) as i16 - CUT.len() as i16 + place;
            self.code.store_constant(R::R2, at, i32::from(*byte), 1);
        }
    }

    /// R0 is how much was read, and [`KEPT`] from where: all of the text, if it has its end there.
    fn jump_if_whole(&mut self, whole: Label) {
        let cut = self.code.label();
        self.code.jump_if_constant(When::Less, R::R0, TEXT_BYTES.cast_signed(), whole);
        self.code.load(R::R3, R::Frame, KEPT, 8);
        self.code.with_constant(Op::Add, R::R3, TEXT_BYTES.cast_signed() - 1);
        self.read(Helper::ReadUser, 1, cut);
        self.code.jump_if_constant(When::Equal, R::R0, 0, whole);
        self.code.place(cut);
    }

    /// R0 is a register of the call as it begins; one that cannot be read is 0.
    fn register(&mut self, register: u32) {
        let (absent, end) = (self.code.label(), self.code.label());
        let hop = Hop { offset: register, is_typed: true };
        let place = PathEnd {
            slot: 0,
            hops: Vec::new(),
            end: End::Loaded { hop, bits: None },
            bytes: 8,
            shape: Shape::Pointer,
            is_signed: false,
            kind: 0,
            meaning: Meaning::Plain,
        };
        self.place_value(&place, absent);
        self.code.jump(end);
        self.code.place(absent);
        self.code.constant(R::R0, 0);
        self.code.place(end);
    }

    /// The texts that fields and filters look at.
    fn kept(&self) -> Vec<StoredText> {
        let mut all: Vec<StoredText> = Vec::new();
        let mut add = |place: &PathEnd| {
            if let End::SavedText { at, address_at, .. } = place.end {
                let kept = StoredText { at, address_at };
                if !all.contains(&kept) {
                    all.push(kept);
                }
            }
        };
        for field in &self.probe.fields {
            if let Content::Text { source: TextSource::PathEnd(place), .. } = &field.content {
                add(place);
            }
        }
        if let Some(test) = &self.probe.test {
            texts(test, &mut add);
        }
        all
    }
}

fn texts(test: &Test, add: &mut impl FnMut(&PathEnd)) {
    match test {
        Test::And(a, b) | Test::Or(a, b) => {
            texts(a, add);
            texts(b, add);
        }
        Test::Not(of) => texts(of, add),
        Test::Text { source: TextSource::PathEnd(place), .. } => add(place),
        Test::Text { .. } | Test::Number { .. } | Test::Address { .. } => {}
    }
}
