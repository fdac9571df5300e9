//! A packet into its field: what lies in its first part, and what lies in pages beyond that.

use super::writer::{
    Access, PACKET_BEFORE, PACKET_BEGIN, PACKET_FIRST, PACKET_LENGTH, PACKET_READER, PACKET_WANTED,
    TAIL, Writer,
};
use crate::assemble::{Helper, Label, Op, R, When};
use crate::packet::Packet;
use crate::probe::ProbeField;

/// The offset of a link header that nobody has set.
const UNSET: i32 = 0xffff;
/// The kernel's function copies what is longer than that in less time than a plain read, which goes word by word.
const LONG: i32 = 512;

impl Writer<'_> {
    /// [`TAIL`] is how much was kept.
    pub(super) fn write_packet(&mut self, field: &ProbeField, packet: &Packet, absent: Label) {
        self.find_packet(packet, absent);
        self.measure_packet(field, packet, absent);
        let end = self.code.label();
        match (packet.reader, self.access) {
            (Some(reader), Access::Direct) => {
                self.copy_long(field, packet, reader, (absent, end));
                self.copy_first_part(field, absent);
                self.copy_pages(field, packet, reader, absent);
            }
            _ => {
                self.copy_first_part(field, absent);
                self.walk_pages(field, packet, absent);
            }
        }
        self.code.place(end);
    }

    /// Where it begins: at its link header, or at its data where there is none.
    fn find_packet(&mut self, packet: &Packet, absent: Label) {
        self.place_value(&packet.head, absent);
        self.code.store(R::Frame, PACKET_BEGIN, R::R0, 8);
        self.place_value(&packet.data, absent);
        self.code.store(R::Frame, PACKET_BEFORE, R::R0, 8);
        self.place_value(&packet.mac_header, absent);
        let (is_set, begin) = (self.code.label(), self.code.label());
        let code = &mut self.code;
        code.jump_if_constant(When::Unequal, R::R0, UNSET, is_set);
        code.load(R::R0, R::Frame, PACKET_BEFORE, 8);
        code.jump(begin);
        code.place(is_set);
        code.load(R::R1, R::Frame, PACKET_BEGIN, 8);
        code.with(Op::Add, R::R0, R::R1);
        code.place(begin);
        code.store(R::Frame, PACKET_BEGIN, R::R0, 8);
        code.load(R::R1, R::Frame, PACKET_BEFORE, 8);
        code.with(Op::Subtract, R::R1, R::R0);
        code.store(R::Frame, PACKET_BEFORE, R::R1, 8);
    }

    /// How long it is, how much of it is wanted, and how much of that lies in its first part.
    fn measure_packet(&mut self, field: &ProbeField, packet: &Packet, absent: Label) {
        self.place_value(&packet.len, absent);
        let code = &mut self.code;
        code.load(R::R1, R::Frame, PACKET_BEFORE, 8);
        code.with(Op::Add, R::R0, R::R1);
        code.store(R::Frame, PACKET_LENGTH, R::R0, 8);
        self.place_value(&packet.data_len, absent);
        let code = &mut self.code;
        code.load(R::R2, R::Frame, PACKET_LENGTH, 8);
        code.with(Op::Move, R::R1, R::R2);
        code.with(Op::Subtract, R::R1, R::R0);
        self.at_most(R::R2, field.bytes);
        self.at_most(R::R1, field.bytes);
        self.code.store(R::Frame, PACKET_WANTED, R::R2, 8);
        self.code.store(R::Frame, PACKET_FIRST, R::R1, 8);
    }

    fn at_most(&mut self, length: R, bytes: u32) {
        let is_less = self.code.label();
        self.code.jump_if_constant(When::AtMost, length, bytes.cast_signed(), is_less);
        self.code.constant(length, bytes.into());
        self.code.place(is_less);
    }

    /// What the kernel's verifier has to see of a length that is no greater: it forgets it with each load. Behind a ring
    /// there is room for more than two of them.
    pub(super) fn bound(&mut self, length: R, field: &ProbeField) {
        let mask = field.bytes.next_power_of_two() * 2 - 1;
        self.code.with_constant(Op::And, length, mask.cast_signed());
    }

    fn copy_first_part(&mut self, field: &ProbeField, absent: Label) {
        let code = &mut self.code;
        code.load(R::R2, R::Frame, PACKET_FIRST, 8);
        code.load(R::R3, R::Frame, PACKET_BEGIN, 8);
        code.with(Op::Move, R::R1, R::R7);
        code.with_constant(Op::Add, R::R1, field.offset.cast_signed());
        self.bound(R::R2, field);
        let code = &mut self.code;
        code.call(Helper::ReadKernel);
        code.jump_if_constant(When::Unequal, R::R0, 0, absent);
        code.load(R::R1, R::Frame, PACKET_FIRST, 8);
        code.store(R::Frame, TAIL, R::R1, 8);
    }

    /// A long packet at once, but for what lies before `data`; `end` follows, or what is there for a short one.
    fn copy_long(
        &mut self,
        field: &ProbeField,
        packet: &Packet,
        reader: u32,
        (absent, end): (Label, Label),
    ) {
        let (is_short, has_begin) = (self.code.label(), self.code.label());
        let code = &mut self.code;
        code.load(R::R2, R::Frame, PACKET_WANTED, 8);
        code.jump_if_constant(When::AtMost, R::R2, LONG, is_short);
        code.load(R::R1, R::Frame, PACKET_BEFORE, 8);
        code.lower_half(R::R1);
        code.load(R::R2, R::Frame, PACKET_FIRST, 8);
        code.jump_if(When::Greater, R::R1, R::R2, is_short);
        self.open_packet(packet, reader, absent);
        self.code.jump_if_constant(When::Unequal, R::R0, 0, absent);
        let code = &mut self.code;
        code.load(R::R2, R::Frame, PACKET_BEFORE, 8);
        code.lower_half(R::R2);
        code.jump_if_constant(When::Equal, R::R2, 0, has_begin);
        code.load(R::R3, R::Frame, PACKET_BEGIN, 8);
        code.with(Op::Move, R::R1, R::R7);
        code.with_constant(Op::Add, R::R1, field.offset.cast_signed());
        self.bound(R::R2, field);
        self.code.call(Helper::ReadKernel);
        self.code.jump_if_constant(When::Unequal, R::R0, 0, absent);
        self.code.place(has_begin);
        self.code.load(R::R4, R::Frame, PACKET_BEFORE, 8);
        self.code.lower_half(R::R4);
        self.read_packet(field, absent);
        self.code.jump(end);
        self.code.place(is_short);
    }

    /// What reads the packet from `data` on; R0 is 0 if it can.
    fn open_packet(&mut self, packet: &Packet, reader: u32, absent: Label) {
        self.argument(packet.skb.slot, absent);
        let code = &mut self.code;
        code.with(Op::Move, R::R1, R::R0);
        code.constant(R::R2, 0);
        code.with(Op::Move, R::R3, R::Frame);
        code.with_constant(Op::Add, R::R3, PACKET_READER.into());
        code.call_function(reader);
    }

    /// All that is wanted behind the first R4 bytes; `failed` follows where it cannot be had.
    fn read_packet(&mut self, field: &ProbeField, failed: Label) {
        self.bound(R::R4, field);
        let code = &mut self.code;
        code.with(Op::Move, R::R1, R::R7);
        code.with_constant(Op::Add, R::R1, field.offset.cast_signed());
        code.with(Op::Add, R::R1, R::R4);
        code.load(R::R2, R::Frame, PACKET_WANTED, 8);
        code.with(Op::Subtract, R::R2, R::R4);
        self.bound(R::R2, field);
        let code = &mut self.code;
        code.load(R::R5, R::Frame, PACKET_BEFORE, 8);
        code.with(Op::Subtract, R::R4, R::R5);
        code.with(Op::Move, R::R3, R::Frame);
        code.with_constant(Op::Add, R::R3, PACKET_READER.into());
        code.constant(R::R5, 0);
        code.call(Helper::DynptrRead);
        code.jump_if_constant(When::Unequal, R::R0, 0, failed);
        code.load(R::R1, R::Frame, PACKET_WANTED, 8);
        code.store(R::Frame, TAIL, R::R1, 8);
    }

    /// The kernel's function makes the packet readable from `data` on, wherever its parts lie.
    fn copy_pages(&mut self, field: &ProbeField, packet: &Packet, reader: u32, absent: Label) {
        let has_all = self.code.label();
        let code = &mut self.code;
        code.load(R::R1, R::Frame, PACKET_FIRST, 8);
        code.load(R::R2, R::Frame, PACKET_WANTED, 8);
        code.jump_if(When::AtMost, R::R2, R::R1, has_all);
        self.open_packet(packet, reader, absent);
        self.code.jump_if_constant(When::Unequal, R::R0, 0, has_all);
        self.code.load(R::R4, R::Frame, PACKET_FIRST, 8);
        self.read_packet(field, has_all);
        self.code.place(has_all);
    }
}
