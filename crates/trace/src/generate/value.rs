//! Values, from where they lie into R0.

use super::writer::{BASE, CPU, ID, LOADED, PACKET_LENGTH, TAIL, TEXT, TGID_TID, Writer};
use crate::assemble::{Helper, Label, Op, R, When};
use crate::condition::Source;
use crate::counter::Counter;
use crate::generate::writer::Access;
use crate::operand::Operand;
use crate::path_resolve::{End, Hop, Meaning, PathEnd};
use crate::vocabulary::Vocabulary;

/// `BPF_F_CURRENT_CPU` of `<linux/bpf.h>`.
const THIS_CPU: u64 = 0xffff_ffff;

impl Writer<'_> {
    /// R0 is the value, as a number of 64 bits; R6 to R9 stay. If it cannot be had, `absent` follows.
    pub(super) fn value(&mut self, source: &Source, absent: Label) {
        match source {
            Source::Tgid => {
                self.learn_thread();
                self.code.load(R::R0, R::Frame, TGID_TID, 8);
                self.code.with_constant(Op::ShiftRight, R::R0, 32);
            }
            Source::Tid => {
                self.learn_thread();
                self.code.load(R::R0, R::Frame, TGID_TID, 8);
                self.extend(4, false);
            }
            Source::Cpu => {
                self.learn_cpu();
                self.code.load(R::R0, R::Frame, CPU, 8);
            }
            Source::Event => self.code.constant(R::R0, u64::from(self.slot.number)),
            Source::Size => self.code.constant(R::R0, u64::from(self.probe.record_bytes)),
            Source::Id => self.code.load(R::R0, R::Frame, ID, 8),
            Source::PathEnd(place) => {
                if place.meaning == Meaning::Names(Vocabulary::Syscalls) {
                    self.leave_compatible_out(absent);
                }
                self.place_value(place, absent);
            }
            Source::Counter(counter) => self.counter(*counter, absent),
            Source::PacketKept => self.code.load(R::R0, R::Frame, TAIL, 8),
            Source::PacketLength => self.code.load(R::R0, R::Frame, PACKET_LENGTH, 8),
            Source::Packet(field) => self.packet_value(*field, absent),
            Source::Cast(of, cast) => {
                self.value(of, absent);
                self.extend(cast.bytes, cast.is_signed);
            }
        }
    }

    /// R0 is what the counter of this CPU shows, if it has been counting all the time: `struct
    /// bpf_perf_event_value` is the count, how long it was wanted, and how long it was counting.
    fn counter(&mut self, counter: Counter, absent: Label) {
        let array = self.maps.counters.iter().find(|(other, _)| *other == counter);
        let code = &mut self.code;
        // No descriptor is below 0: one that nobody has opened is refused by the kernel.
        code.map(R::R1, array.map_or(-1, |(_, array)| *array));
        code.constant(R::R2, THIS_CPU);
        code.with(Op::Move, R::R3, R::Frame);
        code.with_constant(Op::Add, R::R3, i32::from(TEXT));
        code.constant(R::R4, 24);
        code.call(Helper::CounterValue);
        code.jump_if_constant(When::Unequal, R::R0, 0, absent);
        code.load(R::R1, R::Frame, TEXT + 8, 8);
        code.load(R::R2, R::Frame, TEXT + 16, 8);
        code.jump_if(When::Unequal, R::R1, R::R2, absent);
        code.load(R::R0, R::Frame, TEXT, 8);
    }

    pub(super) fn place_value(&mut self, place: &PathEnd, absent: Label) {
        let signed = place.is_signed;
        match place.end {
            End::Argument => {
                self.argument(place.slot, absent);
                self.extend(place.bytes, signed);
            }
            End::Loaded { hop, bits } => {
                self.pointer(place, absent);
                self.load_behind(hop, place.bytes, absent);
                match bits {
                    None => self.extend(place.bytes, signed),
                    Some(bits) => {
                        let left = 64 - bits.first - bits.count;
                        self.code.with_constant(Op::ShiftLeft, R::R0, left as i32);
                        let right = if signed { Op::ShiftRightSigned } else { Op::ShiftRight };
                        self.code.with_constant(right, R::R0, 64 - bits.count as i32);
                    }
                }
            }
            End::Inside { .. } | End::SavedText { .. } => self.address(place, absent),
            End::SavedRegister { at, .. } => {
                self.kept_register(at, place.bytes);
                self.extend(place.bytes, signed);
            }
            End::Duration => self.call_duration(),
        }
    }

    /// R0 is where the place lies: behind its pointers, or where the pointer that it is leads to.
    pub(super) fn address(&mut self, place: &PathEnd, absent: Label) {
        match place.end {
            End::Inside { hop } => {
                self.pointer(place, absent);
                self.code.with(Op::Move, R::R0, R::R1);
                self.code.with_constant(Op::Add, R::R0, hop.offset as i32);
            }
            End::SavedText { at, .. } => self.kept_text(at, absent),
            End::Argument | End::Loaded { .. } | End::SavedRegister { .. } | End::Duration => {
                self.place_value(place, absent);
                self.code.jump_if_constant(When::Equal, R::R0, 0, absent);
            }
        }
    }

    /// R1 is the last pointer of the way, and not NULL.
    pub(super) fn pointer(&mut self, place: &PathEnd, absent: Label) {
        if self.load_shared(place, absent) {
            return;
        }
        self.argument(place.slot, absent);
        self.code.with(Op::Move, R::R1, R::R0);
        self.code.jump_if_constant(When::Equal, R::R1, 0, absent);
        for hop in &place.hops {
            self.load_behind(*hop, 8, absent);
            self.code.with(Op::Move, R::R1, R::R0);
            self.code.jump_if_constant(When::Equal, R::R1, 0, absent);
        }
    }

    /// R0 is an argument.
    pub(super) fn argument(&mut self, slot: i16, absent: Label) {
        match self.site {
            None => self.given(slot, absent),
            Some(site) => {
                if let Some(operand) = site.operands.get(slot as usize) {
                    self.operand(operand, absent);
                }
            }
        }
    }

    /// R0 is what lies there at this moment in the program.
    fn operand(&mut self, operand: &Operand, absent: Label) {
        match operand {
            Operand::Register { slot, size } => {
                self.given(*slot, absent);
                self.extend(size.bytes, size.is_signed);
            }
            Operand::Memory { base, index, plus, size } => {
                self.given(*base, absent);
                if let Some((index, times)) = index {
                    self.code.store(R::Frame, BASE, R::R0, 8);
                    self.given(*index, absent);
                    self.code.with_constant(Op::Multiply, R::R0, i32::from(*times));
                    self.code.load(R::R1, R::Frame, BASE, 8);
                    self.code.with(Op::Add, R::R0, R::R1);
                }
                self.code.with(Op::Move, R::R3, R::R0);
                self.code.with_constant(Op::Add, R::R3, *plus);
                self.read(Helper::ReadUser, size.bytes, absent);
                self.extend(size.bytes, size.is_signed);
            }
            Operand::Constant(value) => self.code.constant(R::R0, *value),
            // A spec that asks for it has been refused.
            Operand::Other(_) => self.code.constant(R::R0, 0),
        }
    }

    /// R0 is something that the program is given. Some kernels refuse to load one whose type is a pointer to anything but
    /// structures and numbers (6.1: `const void *`); read as memory it is a number like any other.
    fn given(&mut self, slot: i16, absent: Label) {
        let code = &mut self.code;
        match self.access {
            Access::Direct | Access::Loads => code.load(R::R0, R::R6, slot, 8),
            Access::Helpers => {
                code.with(Op::Move, R::R3, R::R6);
                code.with_constant(Op::Add, R::R3, i32::from(slot));
                self.read_kernel(8, absent);
            }
        }
    }

    /// R0 is what lies behind R1.
    fn load_behind(&mut self, hop: Hop, bytes: u32, absent: Label) {
        let direct = i16::try_from(hop.offset)
            .ok()
            .filter(|_| hop.is_typed && self.access != Access::Helpers);
        let code = &mut self.code;
        if let Some(offset) = direct {
            code.load(R::R0, R::R1, offset, bytes);
            return;
        }
        code.with(Op::Move, R::R3, R::R1);
        code.with_constant(Op::Add, R::R3, hop.offset as i32);
        self.read_kernel(bytes, absent);
    }

    /// R0 is what lies at R3.
    pub(super) fn read_kernel(&mut self, bytes: u32, absent: Label) {
        self.read(Helper::ReadKernel, bytes, absent);
    }

    pub(super) fn read(&mut self, by: Helper, bytes: u32, absent: Label) {
        let code = &mut self.code;
        code.with(Op::Move, R::R1, R::Frame);
        code.with_constant(Op::Add, R::R1, i32::from(LOADED));
        code.constant(R::R2, u64::from(bytes));
        code.call(by);
        code.jump_if_constant(When::Unequal, R::R0, 0, absent);
        code.load(R::R0, R::Frame, LOADED, bytes);
    }

    /// R0 has only so many bytes.
    fn extend(&mut self, bytes: u32, signed: bool) {
        let shift = 64 - 8 * bytes as i32;
        if shift <= 0 {
            return;
        }
        self.code.with_constant(Op::ShiftLeft, R::R0, shift);
        let right = if signed { Op::ShiftRightSigned } else { Op::ShiftRight };
        self.code.with_constant(right, R::R0, shift);
    }
}
