//! What writes the program of a probe: where things lie in its registers and on its stack, and what is learned once.

use weigh_schema::ring::Layout;

use crate::assemble::{Assembler, Helper, Label, Op, R, When};
use crate::condition::Test;
use crate::counter::Counter;
use crate::packet::Fragments;
use crate::path_resolve::Hop;
use crate::probe::Probe;
use crate::record::offset;
use crate::signature::{Attach, Site};
use crate::state::{BANK, CONSTANTS, HOLDING, State};

/// Rings that programs write into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its number: which words of the shared array are its own.
    pub number: usize,
    /// The array of rings.
    pub rings: i32,
    /// The array of how far each has been read.
    pub consumers: i32,
    /// What wakes the reader: a ring of the kernel's.
    pub doorbell: i32,
    /// How the rings lie.
    pub layout: Layout,
    /// What its stamps are made with.
    pub key: u64,
    /// Whether several CPUs write into one of them.
    pub is_shared: bool,
    /// Which half of the word says which ring is a CPU's.
    pub half: usize,
    /// Which records go in, by their headers; none: all.
    pub predicate: Option<Test>,
    /// With 1 the predicate's constants are those of the bank that does not hold.
    pub flip: usize,
    /// Whether the watermark is a number of records.
    pub counts_records: bool,
}

/// How pages of packets are found: by the addresses of the kernel's variables that say it, and by its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePlaces {
    /// Of `page_offset_base`: where all memory begins.
    pub memory: u64,
    /// Of `vmemmap_base`: where the first `struct page` is.
    pub pages: u64,
    /// Where a packet says which are its own.
    pub fragments: Fragments,
}

impl PagePlaces {
    /// The names of the variables, in this order.
    pub const NAMES: [&str; 2] = ["page_offset_base", "vmemmap_base"];
}

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
    /// Where a task has its name, if that is known.
    pub name_at: Option<i16>,
    /// Where the kernel says how pages are found, for packets that its own function cannot read.
    pub pages: Option<PagePlaces>,
    /// Counters that are open, each with the array that has its event of each CPU.
    pub counters: &'m [(Counter, i32)],
}

/// How structures are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By loads, where the verifier knows the structure, and packets by the kernel's own function.
    Direct,
    /// By loads, where the verifier knows the structure.
    Loads,
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

/// Where things lie in the program's stack, below its end.
pub(super) const TGID_TID: i16 = -8;
pub(super) const CPU: i16 = -16;
pub(super) const LEFT: i16 = -24;
pub(super) const LOADED: i16 = -32;
pub(super) const TIME: i16 = -40;
pub(super) const KEY: i16 = -48;
pub(super) const BASE: i16 = -56;
pub(super) const POSITION: i16 = -64;
/// Of a text that is compared, `COMPARED_BYTES` in a multiple of 8.
pub(super) const TEXT: i16 = -136;
/// While a record is written no text is compared: how much of the last field there is, the record's ring; and of a packet
/// where it begins, how much is wanted, how much of that is in its first part, how much lies before `data`, what reads
/// the rest, how long it is.
pub(super) const TAIL: i16 = TEXT;
pub(super) const RING: i16 = TEXT + 8;
pub(super) const PACKET_BEGIN: i16 = TEXT + 16;
pub(super) const PACKET_WANTED: i16 = TEXT + 24;
pub(super) const PACKET_FIRST: i16 = TEXT + 32;
pub(super) const PACKET_BEFORE: i16 = TEXT + 40;
pub(super) const PACKET_READER: i16 = TEXT + 48;
pub(super) const PACKET_LENGTH: i16 = TEXT + 64;
pub(super) const ID: i16 = -144;
/// The key of a call that is kept, where it lies, and room for a whole one below.
pub(super) const CALL_KEY: i16 = -152;
pub(super) const CALL: i16 = -160;
pub(super) const KEPT: i16 = -168;
/// What is known of a packet, and 136 bytes below. A packet is no call: nothing is kept there.
pub(super) const PACKET: i16 = -176;
/// Below that: a pointer that several fields lie behind.
pub(super) const SHARED: i16 = PACKET - 144;

/// What R6 to R9 hold: what the program was given, the record, the CPU's part of the state, the fields
/// that could not be had.
pub(super) struct Writer<'p> {
    pub(super) code: Assembler,
    pub(super) probe: &'p Probe,
    pub(super) slot: Slot,
    pub(super) state: &'p State,
    pub(super) maps: &'p Maps<'p>,
    pub(super) access: Access,
    /// Where in a program it is, if it is in one.
    pub(super) site: Option<&'p Site>,
    pub(super) end: Label,
    /// Code that is seldom reached and stands behind the rest: where it is reached, what it says.
    pub(super) asides: Vec<Aside>,
    /// Constants of the filter that have been met; none if they stand in the program itself.
    pub(super) constants: Option<usize>,
    knows_thread: bool,
    knows_cpu: bool,
    knows_time: bool,
    pub(super) knows_id: bool,
    /// Whether the field that is being written is the record's last.
    pub(super) is_tail: bool,
    pub(super) knows_packet: bool,
    /// While fields are written.
    pub(super) shared: Option<SharedPointer>,
}

/// A pointer that several fields lie behind: behind which argument, and where there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedPointer {
    pub(super) slot: i16,
    pub(super) hop: Hop,
}

/// A field that could not be had: a bit is set, and the field is 0.
pub(super) struct Aside {
    pub(super) from: Label,
    pub(super) back: Label,
    pub(super) bit: u32,
    pub(super) offset: i16,
    pub(super) bytes: u32,
}

impl<'p> Writer<'p> {
    pub(super) fn new(
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
            is_tail: false,
            knows_packet: false,
            shared: None,
        }
    }

    /// R9 is what lies before the constants that hold now: weigh changes those that do not, and
    /// then which do, so that each event is held to all of the old ones or to all of the new.
    pub(super) fn find_constants(&mut self, test: &Test, place: usize, flip: usize) {
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

    /// The current thread, on the stack.
    pub(super) fn learn_thread(&mut self) {
        if !self.knows_thread {
            self.code.call(Helper::CurrentTgidTid);
            self.code.store(R::Frame, TGID_TID, R::R0, 8);
            self.knows_thread = true;
        }
    }

    /// The CPU, on the stack.
    pub(super) fn learn_cpu(&mut self) {
        if !self.knows_cpu {
            self.code.call(Helper::CurrentCpu);
            self.code.store(R::Frame, CPU, R::R0, 8);
            self.knows_cpu = true;
        }
    }

    /// The time, on the stack.
    pub(super) fn learn_time(&mut self) {
        if !self.knows_time {
            self.code.call(Helper::TimeSinceBoot);
            self.code.store(R::Frame, TIME, R::R0, 8);
            self.knows_time = true;
        }
    }

    /// R8 is what this CPU has of the state.
    pub(super) fn find_cpu_part(&mut self) {
        self.learn_cpu();
        let code = &mut self.code;
        code.load(R::R1, R::Frame, CPU, 8);
        code.jump_if_constant(When::AtLeast, R::R1, self.state.cpus as i32, self.end);
        code.with_constant(Op::Multiply, R::R1, self.state.stride() as i32);
        code.map_value(R::R8, self.maps.state, self.state.cpu(0) as u32);
        code.with(Op::Add, R::R8, R::R1);
    }

    /// One more of what lies so far behind the CPU's beginning. Nobody else writes there; but a program at a program's
    /// function may have to leave its CPU to another thread that meets the same, so there it is done at once.
    pub(super) fn count_at(&mut self, place: usize) {
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

    pub(super) fn put_constant(&mut self, offset: usize, value: u64, bytes: u32) {
        self.code.store_constant(R::R7, offset as i16, value as u32 as i32, bytes);
    }

    pub(super) fn learn_time_into_header(&mut self) {
        match self.knows_time {
            true => self.code.load(R::R0, R::Frame, TIME, 8),
            false => self.code.call(Helper::TimeSinceBoot),
        }
        self.code.store(R::R7, offset::time_ns as i16, R::R0, 8);
    }
}
