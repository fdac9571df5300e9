//! What of a packet lies in pages, fragment by fragment, by the addresses of the pages: for kernels that have no function
//! for it, or let no program at a tracepoint call it.
//!
//! The kernel has all memory at one place, page by page, and a `struct page` for each, of 64 bytes, at another: from the
//! one to the other it is a subtraction and a shift.

use super::writer::{
    BASE, KEY, LEFT, PACKET_BEFORE, PACKET_BEGIN, PACKET_READER, PACKET_WANTED, TAIL, Writer,
};
use crate::assemble::{Helper, Label, Op, R, When};
use crate::packet::{FRAGMENT_BYTES, Fragments, Packet};
use crate::path_resolve::PathEnd;
use crate::probe::ProbeField;

/// Fragments that are looked at: one may have 32 KiB, those of receiving devices have half a page or more.
const FRAGMENTS: u32 = 8;
/// Bits by which a page is larger than its `struct page`.
const SHIFT: i32 = 6;

impl Writer<'_> {
    /// [`TAIL`] grows by each fragment that was copied.
    pub(super) fn walk_pages(&mut self, field: &ProbeField, packet: &Packet, absent: Label) {
        let (Some(first_end), Some(pages)) = (&packet.end, self.maps.pages) else { return };
        let end = self.code.label();
        self.end_if_whole(end);
        self.find_fragments((packet, first_end), pages.fragments, absent, end);
        for (address, slot) in [(pages.memory, LEFT), (pages.pages, BASE)] {
            self.code.constant(R::R3, address);
            self.read_kernel(8, end);
            self.code.store(R::Frame, slot, R::R0, 8);
        }
        for number in 0..FRAGMENTS {
            self.code.load(R::R1, R::Frame, PACKET_BEGIN, 8);
            self.code.jump_if_constant(When::AtMost, R::R1, number.cast_signed(), end);
            self.end_if_whole(end);
            self.read_fragment(pages.fragments.first_at + number * FRAGMENT_BYTES, end);
            self.copy_fragment(field, end);
        }
        self.code.place(end);
    }

    fn end_if_whole(&mut self, end: Label) {
        self.code.load(R::R1, R::Frame, TAIL, 8);
        self.code.load(R::R2, R::Frame, PACKET_WANTED, 8);
        self.code.jump_if(When::AtMost, R::R2, R::R1, end);
    }

    /// What is not needed any more gives its place to the address of the fragments and their number.
    fn find_fragments(
        &mut self,
        (packet, first_end): (&Packet, &PathEnd),
        fragments: Fragments,
        absent: Label,
        end: Label,
    ) {
        self.place_value(&packet.head, absent);
        self.code.store(R::Frame, PACKET_BEFORE, R::R0, 8);
        self.place_value(first_end, absent);
        let code = &mut self.code;
        code.load(R::R3, R::Frame, PACKET_BEFORE, 8);
        code.with(Op::Add, R::R3, R::R0);
        code.store(R::Frame, PACKET_BEFORE, R::R3, 8);
        code.with_constant(Op::Add, R::R3, fragments.count_at.cast_signed());
        self.read_kernel(1, end);
        self.code.store(R::Frame, PACKET_BEGIN, R::R0, 8);
    }

    /// A fragment, into the place of what reads packets elsewhere.
    fn read_fragment(&mut self, at: u32, end: Label) {
        let code = &mut self.code;
        code.with(Op::Move, R::R1, R::Frame);
        code.with_constant(Op::Add, R::R1, PACKET_READER.into());
        code.constant(R::R2, FRAGMENT_BYTES.into());
        code.load(R::R3, R::Frame, PACKET_BEFORE, 8);
        code.with_constant(Op::Add, R::R3, at.cast_signed());
        code.call(Helper::ReadKernel);
        code.jump_if_constant(When::Unequal, R::R0, 0, end);
    }

    /// As much of it as is still wanted.
    fn copy_fragment(&mut self, field: &ProbeField, end: Label) {
        let is_less = self.code.label();
        let code = &mut self.code;
        code.load(R::R3, R::Frame, PACKET_READER, 8);
        code.load(R::R1, R::Frame, BASE, 8);
        code.with(Op::Subtract, R::R3, R::R1);
        code.with_constant(Op::ShiftLeft, R::R3, SHIFT);
        code.load(R::R1, R::Frame, LEFT, 8);
        code.with(Op::Add, R::R3, R::R1);
        code.load(R::R1, R::Frame, PACKET_READER + 12, 4);
        code.with(Op::Add, R::R3, R::R1);
        code.load(R::R5, R::Frame, PACKET_READER + 8, 4);
        code.load(R::R4, R::Frame, TAIL, 8);
        code.load(R::R2, R::Frame, PACKET_WANTED, 8);
        code.with(Op::Subtract, R::R2, R::R4);
        code.jump_if(When::AtMost, R::R2, R::R5, is_less);
        code.with(Op::Move, R::R2, R::R5);
        code.place(is_less);
        self.bound(R::R2, field);
        self.bound(R::R4, field);
        let code = &mut self.code;
        code.store(R::Frame, KEY, R::R2, 8);
        code.with(Op::Move, R::R1, R::R7);
        code.with_constant(Op::Add, R::R1, field.offset.cast_signed());
        code.with(Op::Add, R::R1, R::R4);
        code.call(Helper::ReadKernel);
        code.jump_if_constant(When::Unequal, R::R0, 0, end);
        code.load(R::R1, R::Frame, TAIL, 8);
        code.load(R::R2, R::Frame, KEY, 8);
        code.with(Op::Add, R::R1, R::R2);
        code.store(R::Frame, TAIL, R::R1, 8);
    }
}
