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
mod ring;
mod sampling;
mod test;
mod value;

use weigh_schema::membership::Stage;

use crate::assemble::{Assembler, Helper, Label, Op, R, TooFar, When};
use crate::condition::Test;
use crate::counter::Counter;
use crate::probe::Probe;
use crate::record::offset;
use crate::signature::{Attach, Site};
use crate::state::{BANK, CONSTANTS, Count, HOLDING, OfBuffer, State};
pub use ring::Buffer;

/// What programs are told of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maps<'m> {
    /// The array that is shared with weigh.
    pub state: i32,
    /// Where records are written: one into each whose predicate holds.
    pub buffers: Vec<Buffer>,
    /// Followed are threads that have 2 in this storage; none: all threads.
    pub members: Option<i32>,
    /// What is kept of system calls under way, by threads: for a probe that has their begin and end.
    pub calls: Option<i32>,
    /// Counters that are open, each with the array that has its event of each CPU.
    pub counters: &'m [(Counter, i32)],
}

/// How structures are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By loads, where the verifier knows the structure.
    Direct,
    /// By helpers, always.
    Helpers,
}

/// Which of a stream's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its number, which its records have.
    pub number: u32,
    /// Which of its two gates its sampling goes by.
    pub gate: usize,
    /// With 1 it takes the constants of its filter from the bank that does not hold: a program that
    /// takes another one's place finds its own there from its first event on.
    pub flip: usize,
    /// Which of the places of its event, if that is in a program.
    pub site: usize,
}

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

/// Where things lie in the program's stack, below its end.
const TGID_TID: i16 = -8;
const CPU: i16 = -16;
const LEFT: i16 = -24;
const LOADED: i16 = -32;
const TIME: i16 = -40;
const KEY: i16 = -48;
const BASE: i16 = -56;
const POSITION: i16 = -64;
/// Of a text that is compared, `COMPARED_BYTES` in a multiple of 8.
const TEXT: i16 = -136;
const ID: i16 = -144;
/// The key of a call that is kept, where it lies, and room for a whole one below.
const CALL_KEY: i16 = -152;
const CALL: i16 = -160;
const KEPT: i16 = -168;

/// What R6 to R9 hold: what the program was given, the record, the CPU's part of the state, the fields
/// that could not be had.
struct Writer<'p> {
    code: Assembler,
    probe: &'p Probe,
    slot: Slot,
    state: &'p State,
    maps: &'p Maps<'p>,
    access: Access,
    /// Where in a program it is, if it is in one.
    site: Option<&'p Site>,
    end: Label,
    /// Code that is seldom reached and stands behind the rest: where it is reached, what it says.
    asides: Vec<Aside>,
    /// Constants of the filter that have been met; none if they stand in the program itself.
    constants: Option<usize>,
    knows_thread: bool,
    knows_cpu: bool,
    knows_time: bool,
    knows_id: bool,
}

/// A field that could not be had: a bit is set, and the field is 0.
struct Aside {
    from: Label,
    back: Label,
    bit: u32,
    offset: i16,
    bytes: u32,
}

impl<'p> Writer<'p> {
    fn new(
        probe: &'p Probe,
        slot: Slot,
        state: &'p State,
        maps: &'p Maps<'p>,
        access: Access,
    ) -> Writer<'p> {
        let mut code = Assembler::default();
        let end = code.label();
        let site = match &probe.attach {
            Attach::User { sites, .. } => sites.get(slot.site),
            _ => None,
        };
        Writer {
            code,
            probe,
            slot,
            state,
            maps,
            access,
            site,
            end,
            asides: Vec::new(),
            constants: None,
            knows_thread: false,
            knows_cpu: false,
            knows_time: false,
            knows_id: false,
        }
    }

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
            self.count(Count::Matched);
            self.sample(sampling);
        }
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

    /// R9 is what lies before the constants that hold now: weigh changes those that do not, and
    /// then which do, so that each event is held to all of the old ones or to all of the new.
    fn find_constants(&mut self, test: &Test, place: usize, flip: usize) {
        self.constants = None;
        if !(1..=CONSTANTS).contains(&test.constants().len()) {
            return;
        }
        self.constants = Some(0);
        let code = &mut self.code;
        code.map_value(R::R9, self.maps.state, place as u32);
        code.load(R::R0, R::R9, HOLDING as i16, 8);
        code.with_constant(Op::And, R::R0, BANK as i32);
        if flip % 2 == 1 {
            code.with_constant(Op::ExclusiveOr, R::R0, BANK as i32);
        }
        code.with(Op::Add, R::R9, R::R0);
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

    /// The current thread, on the stack.
    fn learn_thread(&mut self) {
        if !self.knows_thread {
            self.code.call(Helper::CurrentTgidTid);
            self.code.store(R::Frame, TGID_TID, R::R0, 8);
            self.knows_thread = true;
        }
    }

    /// The CPU, on the stack.
    fn learn_cpu(&mut self) {
        if !self.knows_cpu {
            self.code.call(Helper::CurrentCpu);
            self.code.store(R::Frame, CPU, R::R0, 8);
            self.knows_cpu = true;
        }
    }

    /// The time, on the stack.
    fn learn_time(&mut self) {
        if !self.knows_time {
            self.code.call(Helper::TimeSinceBoot);
            self.code.store(R::Frame, TIME, R::R0, 8);
            self.knows_time = true;
        }
    }

    /// R8 is what this CPU has of the state.
    fn find_cpu_part(&mut self) {
        self.learn_cpu();
        let code = &mut self.code;
        code.load(R::R1, R::Frame, CPU, 8);
        code.jump_if_constant(When::AtLeast, R::R1, self.state.cpus as i32, self.end);
        code.with_constant(Op::Multiply, R::R1, self.state.stride() as i32);
        code.map_value(R::R8, self.maps.state, self.state.cpu(0) as u32);
        code.with(Op::Add, R::R8, R::R1);
    }

    /// One more, of this CPU. Nobody else writes there; but a program at a program's function may have to
    /// leave its CPU to another thread that meets the same, so there it is done at once.
    fn count(&mut self, count: Count) {
        self.count_at(self.state.of_cpu(self.slot.number as usize, count));
    }

    /// The same of what lies so far behind the CPU's beginning.
    fn count_at(&mut self, place: usize) {
        let place = place as i32;
        let code = &mut self.code;
        // The offset of a load has 16 bits, which many probes exceed.
        code.with(Op::Move, R::R2, R::R8);
        code.with_constant(Op::Add, R::R2, place);
        match self.site {
            Some(_) => {
                code.constant(R::R1, 1);
                code.fetch_add(R::R2, 0, R::R1);
            }
            None => {
                code.load(R::R1, R::R2, 0, 8);
                code.with_constant(Op::Add, R::R1, 1);
                code.store(R::R2, 0, R::R1, 8);
            }
        }
    }

    fn write_header(&mut self) {
        let number = self.slot.number;
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

    fn put_constant(&mut self, offset: usize, value: u64, bytes: u32) {
        self.code.store_constant(R::R7, offset as i16, value as u32 as i32, bytes);
    }

    fn learn_time_into_header(&mut self) {
        match self.knows_time {
            true => self.code.load(R::R0, R::Frame, TIME, 8),
            false => self.code.call(Helper::TimeSinceBoot),
        }
        self.code.store(R::R7, offset::time_ns as i16, R::R0, 8);
    }
}
