//! A record's place in a ring, and its end. See `weigh_schema::ring`.

use weigh_schema::ring::{ALIGNMENT, LINE, STAMP, stamp, step, word};

use super::writer::{Buffer, KEY, POSITION, RING, TAIL, Writer};
use crate::assemble::{Helper, Label, Op, R, When};
use crate::record::offset;
use crate::state::{InBuffer, OfBuffer};

/// `BPF_RB_FORCE_WAKEUP` of `<linux/bpf.h>`.
const LOUDLY: u64 = 2;
/// How often a place is tried for where one CPU alone writes: only an interrupt comes between.
const TRIES: u64 = 3;
/// The same where others do.
const TRIES_AMONG_OTHERS: u64 = 64;

impl Writer<'_> {
    /// R7 is room for a record; without any it is counted as lost.
    pub(super) fn reserve(&mut self, buffer: &Buffer, next: Label) {
        self.find_ring(buffer, next);
        let (has_room, is_full) = (self.code.label(), self.code.label());
        let code = &mut self.code;
        // What has been read is asked for first: later it can only be more.
        code.load(R::R2, R::R2, 0, 8);
        code.load(R::R0, R::R7, word::HEAD as i16, 8);
        if buffer.is_shared {
            let again = code.label();
            code.constant(R::R5, TRIES_AMONG_OTHERS);
            code.place(again);
            self.try_place(buffer, has_room, is_full);
            self.code.with_constant(Op::Add, R::R5, -1);
            self.code.jump_if_constant(When::Unequal, R::R5, 0, again);
        } else {
            (0..TRIES).for_each(|_| self.try_place(buffer, has_room, is_full));
        }
        self.code.place(is_full);
        self.count_in(buffer, InBuffer::Lost);
        self.code.jump(next);
        self.code.place(has_room);
        let code = &mut self.code;
        code.store(R::Frame, POSITION, R::R0, 8);
        code.store(R::Frame, RING, R::R7, 8);
        code.with_constant(Op::And, R::R0, (buffer.layout.bytes - ALIGNMENT) as i32);
        code.with(Op::Add, R::R7, R::R0);
        code.with_constant(Op::Add, R::R7, (LINE + STAMP) as i32);
    }

    /// R7 is the ring of this CPU, R2 where it says how far it has been read.
    fn find_ring(&mut self, buffer: &Buffer, next: Label) {
        let code = &mut self.code;
        if buffer.layout.rings == 1 {
            code.map_value(R::R7, buffer.rings, 0);
            return code.map_value(R::R2, buffer.consumers, 0);
        }
        let half = self.state.of_buffer(buffer.number, OfBuffer::Ring) + buffer.half % 2 * 4;
        code.load(R::R1, R::R8, half as i16, 4);
        code.jump_if_constant(When::AtLeast, R::R1, buffer.layout.rings as i32, next);
        code.store(R::Frame, KEY, R::R1, 4);
        code.with_constant(Op::Multiply, R::R1, LINE as i32);
        code.map_value(R::R9, buffer.consumers, 0);
        code.with(Op::Add, R::R9, R::R1);
        code.map(R::R1, buffer.rings);
        code.with(Op::Move, R::R2, R::Frame);
        code.with_constant(Op::Add, R::R2, i32::from(KEY));
        code.call(Helper::MapLookup);
        code.jump_if_constant(When::Equal, R::R0, 0, next);
        code.with(Op::Move, R::R7, R::R0);
        code.with(Op::Move, R::R2, R::R9);
    }

    /// Moves the head on from R0, if it still stands there; else R0 is where it stands now.
    fn try_place(&mut self, buffer: &Buffer, has_room: Label, is_full: Label) {
        let code = &mut self.code;
        code.with(Op::Move, R::R3, R::R0);
        code.with(Op::Move, R::R1, R::R0);
        code.with_constant(Op::Add, R::R1, step(self.probe.record_bytes as usize) as i32);
        code.with(Op::Move, R::R4, R::R1);
        code.with(Op::Subtract, R::R4, R::R2);
        code.jump_if_constant(When::Greater, R::R4, buffer.layout.bytes as i32, is_full);
        code.compare_exchange(R::R7, word::HEAD as i16, R::R1);
        code.jump_if(When::Equal, R::R0, R::R3, has_room);
    }

    /// Hands the record over; wakes who reads if so much has been written since the last time.
    pub(super) fn submit(&mut self, buffer: &Buffer, next: Label) {
        self.count_in(buffer, InBuffer::Sent);
        let written = self.state.of_buffer(buffer.number, OfBuffer::Written) as i16;
        let watermark = self.state.watermark(buffer.number) as u32;
        let state = self.maps.state;
        self.give_back(buffer);
        self.stamp(buffer);
        let code = &mut self.code;
        code.map_value(R::R2, state, watermark);
        code.load(R::R3, R::R2, 0, 8);
        code.load(R::R1, R::R8, written, 8);
        match buffer.counts_records {
            true => code.with_constant(Op::Add, R::R1, 1),
            false => code.with(Op::Add, R::R1, R::R9),
        }
        code.store(R::R8, written, R::R1, 8);
        code.jump_if(When::Less, R::R1, R::R3, next);
        code.store_constant(R::R8, written, 0, 8);
        code.store_constant(R::Frame, KEY, 0, 8);
        code.map(R::R1, buffer.doorbell);
        code.with(Op::Move, R::R2, R::Frame);
        code.with_constant(Op::Add, R::R2, i32::from(KEY));
        code.constant(R::R3, 8);
        code.constant(R::R4, LOUDLY);
        // When it is full, the reader has not looked since it rang.
        code.call(Helper::RingOutput);
        code.jump(next);
    }

    fn count_in(&mut self, buffer: &Buffer, count: InBuffer) {
        self.count_at(self.state.of_cpu_in(self.slot.number as usize, buffer.number, count));
    }

    /// R9 is how far it is to the next record. Room behind the content of the last field is given back, if nobody has
    /// taken any behind that meanwhile: an interrupt, another CPU.
    fn give_back(&mut self, buffer: &Buffer) {
        let whole = step(self.probe.record_bytes as usize);
        self.code.constant(R::R9, whole as u64);
        let Some(tail) = self.probe.tail() else { return };
        // Readers along allow for no more.
        if whole > buffer.layout.spare() {
            return;
        }
        let behind = self.probe.fields[tail].offset as i32;
        let keeps = self.code.label();
        let code = &mut self.code;
        code.load(R::R3, R::Frame, TAIL, 8);
        code.with_constant(Op::Add, R::R3, behind);
        code.with(Op::Move, R::R2, R::R3);
        code.with_constant(Op::Add, R::R2, (STAMP + ALIGNMENT - 1) as i32);
        code.with_constant(Op::And, R::R2, -(ALIGNMENT as i32));
        // No helper says that it has filled more than there is.
        code.jump_if_constant(When::Greater, R::R2, whole as i32, keeps);
        code.load(R::R4, R::Frame, RING, 8);
        code.load(R::R1, R::Frame, POSITION, 8);
        code.with(Op::Move, R::R0, R::R1);
        code.with_constant(Op::Add, R::R0, whole as i32);
        code.with(Op::Move, R::R5, R::R0);
        code.with(Op::Add, R::R1, R::R2);
        code.compare_exchange(R::R4, word::HEAD as i16, R::R1);
        code.jump_if(When::Unequal, R::R0, R::R5, keeps);
        code.with(Op::Move, R::R9, R::R2);
        code.store(R::R7, offset::size as i16, R::R3, 4);
        code.place(keeps);
    }

    /// What makes the record whole, written after all else. Stores of an x86 processor are seen in their order;
    /// others promise that for exchanges alone.
    fn stamp(&mut self, buffer: &Buffer) {
        let code = &mut self.code;
        code.load(R::R1, R::Frame, POSITION, 8);
        code.constant(R::R2, stamp(0, buffer.key));
        code.with(Op::Add, R::R1, R::R2);
        match cfg!(target_arch = "x86_64") {
            true => code.store(R::R7, -(STAMP as i16), R::R1, 8),
            false => code.exchange(R::R7, -(STAMP as i16), R::R1),
        }
    }
}
