//! From a checked event to the program that is attached for it.
//!
//! One program for each probe, with nothing in it that this probe does not need: whether the thread is
//! followed, then the filter, then the sampling, then room in the ring, then header and fields at their
//! place, then its stamp. Nobody is waked for a record, but for the one that crosses the watermark.
//!
//! Structures are read directly where the verifier knows them: a load that faults gives 0 there. Where
//! it does not, or refuses, by the kernel's reading helpers.

mod call;
mod fields;
mod owner;
mod packet;
mod packet_header;
mod pages;
mod ring;
mod sampling;
mod shared_pointer;
mod test;
mod value;
mod writer;

use weigh_schema::membership::Stage;

use crate::assemble::{Helper, Label, Op, R, TooFar, When};
pub use crate::packet::Fragments;
use crate::probe::Probe;
use crate::record::offset;
use crate::state::{OfBuffer, State};
pub use writer::{Access, Buffer, Maps, PagePlaces, Slot};
use writer::{CPU, TGID_TID, Writer};

/// The program of a probe.
pub fn program(
    probe: &Probe,
    slot: Slot,
    state: &State,
    maps: &Maps<'_>,
    access: Access,
) -> Result<Vec<u64>, TooFar> {
    let mut writer = Writer::new(probe, slot, state, maps, access);
    writer.write();
    writer.code.finish()
}

impl Writer<'_> {
    fn write(&mut self) {
        self.code.with(Op::Move, R::R6, R::R1);
        self.leave_other_calls_out();
        self.leave_others_out();
        self.leave_strangers_out();
        if self.is_begin_of_call() {
            self.keep_call();
            self.code.place(self.end);
            return self.code.exit();
        }
        let end = self.end;
        self.find_kept_call();
        if let Some(test) = &self.probe.test {
            self.learn_for(test);
            self.find_constants(test, self.state.probe(self.slot.number as usize), self.slot.flip);
            let passes = self.code.label();
            self.test(test, passes, self.end);
            self.code.place(passes);
        }
        self.find_cpu_part();
        if let Some(sampling) = self.probe.sampling {
            self.count_at(self.state.of_cpu_matched(self.slot.number as usize));
            self.sample(sampling);
        }
        self.learn_packet();
        let maps = self.maps;
        if maps.buffers.len() > 1 {
            // What the first has learned would not be known where it is passed over.
            self.learn_thread();
            self.learn_time();
        }
        for buffer in &maps.buffers {
            let next = self.code.label();
            self.write_into(buffer, next);
            self.code.place(next);
        }
        self.forget_call(end);
        self.code.place(end);
        self.code.exit();
    }

    /// A record into one buffer, if its predicate holds.
    fn write_into(&mut self, buffer: &Buffer, next: Label) {
        if let Some(test) = &buffer.predicate {
            self.learn_for(test);
            self.find_constants(test, self.state.predicate(buffer.number), buffer.flip);
            let (passes, fails) = (self.code.label(), self.code.label());
            self.test(test, passes, fails);
            self.code.place(fails);
            self.count_at(self.state.of_buffer(buffer.number, OfBuffer::Passed));
            self.code.jump(next);
            self.code.place(passes);
        }
        self.reserve(buffer, next);
        self.write_header();
        self.write_fields();
        self.submit(buffer, next);
        self.write_asides();
    }

    /// Only threads that are followed go on.
    fn leave_strangers_out(&mut self) {
        let Some(members) = self.maps.members else { return };
        let code = &mut self.code;
        code.call(Helper::CurrentTask);
        code.map(R::R1, members);
        code.with(Op::Move, R::R2, R::R0);
        code.constant(R::R3, 0);
        code.constant(R::R4, 0);
        code.call(Helper::TaskStorage);
        code.jump_if_constant(When::Equal, R::R0, 0, self.end);
        code.load(R::R1, R::R0, 0, 4);
        code.jump_if_constant(When::Unequal, R::R1, Stage::Member.number() as i32, self.end);
    }

    fn write_header(&mut self) {
        let number = self.slot.number;
        // Less, when it is known, where that room could be given back.
        let bytes = self.probe.record_bytes;
        self.put_constant(offset::event, u64::from(number), 4);
        self.put_constant(offset::size, u64::from(bytes), 4);
        self.learn_time_into_header();
        self.learn_thread();
        let code = &mut self.code;
        // The process is the upper half.
        code.load(R::R1, R::Frame, TGID_TID, 8);
        code.store(R::R7, offset::tid as i16, R::R1, 4);
        code.with_constant(Op::ShiftRight, R::R1, 32);
        code.store(R::R7, offset::tgid as i16, R::R1, 4);
        code.load(R::R1, R::Frame, CPU, 8);
        code.store(R::R7, offset::cpu as i16, R::R1, 4);
        self.write_id();
    }
}
