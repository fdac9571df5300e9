//! The shared file between weigh and the library that it loads into the job's programs.
//!
//! Declared once, here: the build script includes this file and writes from it the header that the
//! library is compiled with, sizes and offsets checked by the compiler there. Every field is an
//! atomic: several processes read and write it at the same time, and one of them may be killed at
//! any moment.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use weigh_schema::Counter;

/// Changes whenever the layout does, so that a library never meets a file of another build.
pub const MAGIC: u64 = 0x7765_6967_6831_0018;

/// Processes at one moment, together with those that ended since weigh last looked.
pub const SLOTS: usize = 65_536;

/// Opens of files that weigh may be behind.
pub const RECORDS: usize = 8_192;

/// Slots, and records, for which a process makes room where it finds none left in the file: whole pages.
pub const ROOM_STEP: usize = 64;

/// Room for a path in a record; a longer one takes several, one behind the other.
pub const PATH_BYTES: usize = 292;

/// With what stands before them they begin at a multiple of it: none lies across two pages.
const SLOT_BYTES: usize = 1024;

/// Room for the arguments of a process, each ended by a NUL byte: what the others leave.
pub const COMMAND_BYTES: usize = SLOT_BYTES - 384 - 8 * Counter::COUNT;

macro_rules! rust_type {
    (number32) => {
        AtomicU32
    };
    (number64) => {
        AtomicU64
    };
    (text16) => {
        [AtomicU8; 16]
    };
    (text256) => {
        [AtomicU8; 256]
    };
    (path) => {
        [AtomicU8; PATH_BYTES]
    };
    (command) => {
        [AtomicU8; COMMAND_BYTES]
    };
    (counters) => {
        [AtomicU64; Counter::COUNT]
    };
    (head) => {
        Head
    };
    (pids) => {
        [AtomicU64; SLOTS]
    };
    (slots) => {
        [Slot; SLOTS]
    };
    (records) => {
        [Record; RECORDS]
    };
}

/// What stands before and behind a field's name in C.
fn c_type(kind: &str) -> (&'static str, String) {
    match kind {
        "number32" => ("_Atomic uint32_t", String::new()),
        "number64" => ("_Atomic uint64_t", String::new()),
        "text16" => ("char", "[16]".into()),
        "text256" => ("char", "[256]".into()),
        "path" => ("char", format!("[{PATH_BYTES}]")),
        "command" => ("char", format!("[{COMMAND_BYTES}]")),
        "counters" => ("_Atomic uint64_t", format!("[{}]", Counter::COUNT)),
        "head" => ("struct head", String::new()),
        "pids" => ("_Atomic uint64_t", format!("[{SLOTS}]")),
        "slots" => ("struct slot", format!("[{SLOTS}]")),
        "records" => ("struct record", format!("[{RECORDS}]")),
        other => unreachable!("{other} has no type in C"),
    }
}

macro_rules! shared {
    ($( $(#[doc = $doc:literal])+ struct $name:ident as $c_name:literal aligned $align:literal {
        $( $(#[doc = $field_doc:literal])+ $field:ident : $kind:ident, )+
    } )+) => {
        $(
            $(#[doc = $doc])+
            #[repr(C, align($align))]
            pub struct $name { $( $(#[doc = $field_doc])+ pub $field: rust_type!($kind), )+ }
        )+

        fn structures(header: &mut String) {
            $(
                let _ = writeln!(header, "struct {} {{", $c_name);
                $(
                    let (before, behind) = c_type(stringify!($kind));
                    let _ = writeln!(header, "\t{before} {}{behind};", stringify!($field));
                )+
                let _ = writeln!(header, "}} __attribute__((aligned({})));", $align);
                let _ = writeln!(
                    header,
                    "_Static_assert(sizeof(struct {}) == {}, \"size\");",
                    $c_name,
                    std::mem::size_of::<$name>()
                );
                $(
                    let _ = writeln!(
                        header,
                        "_Static_assert(offsetof(struct {}, {field}) == {}, \"{field}\");",
                        $c_name,
                        std::mem::offset_of!($name, $field),
                        field = stringify!($field),
                    );
                )+
            )+
        }
    };
}

shared! {
    /// One process. While it is free all of it is zero but its generation.
    ///
    /// A process that made another or waited for it may be held up until the slot is a third one's, and writes
    /// to it then by compare-exchange alone: each number that it sets says before whose it is, see [`UNTOLD`].
    struct Slot as "slot" aligned 64 {
        /// A [`Life`].
        life: number64,
        /// Its PID as it sees it itself.
        local_pid: number32,
        /// Who started it.
        parent_pid: number32,
        /// The next free slot, plus one.
        next_free: number32,
        /// Some of [`FLAGS`].
        flags: number32,
        /// Its real user.
        uid: number32,
        /// Bytes of `command` that mean something.
        command_bytes: number32,
        /// How it ended, as wait(2) gives it, with [`STATUS_KNOWN`] and above that the slot's generation;
        /// [`UNTOLD`] before.
        wait_status: number64,
        /// When it was started, on weigh's clock that runs on while the machine sleeps; [`UNTOLD`] before.
        started_ns: number64,
        /// When it ended, if it told.
        ended_ns: number64,
        /// Its greatest resident size, of all programs it has executed.
        rss_peak: number64,
        /// Its greatest virtual size, without the shared file.
        virtual_peak: number64,
        /// The most it had swapped out when it was looked at.
        swap_peak: number64,
        /// The greatest resident size of the last program that it has told of.
        own_rss_peak: number64,
        /// The greatest virtual size of the same.
        own_virtual_peak: number64,
        /// Bytes that the library itself has read there.
        own_bytes: number64,
        /// The calls it needed for that.
        own_calls: number64,
        /// The last part of the program's path.
        name: text16,
        /// The program that it is about to execute.
        program: text256,
        /// The arguments.
        command: command,
        /// What it did: see the schema.
        counters: counters,
    }

    /// A file was opened.
    struct Record as "record" aligned 64 {
        /// Its place in the order of all records plus one, once it is complete.
        complete: number64,
        /// When the opening process was started: with the PID it says which process it was.
        started_ns: number64,
        /// Who opened it.
        pid: number32,
        /// Length of the whole path.
        path_bytes: number32,
        /// Which part of the path this is, from 0.
        part: number32,
        /// That part.
        path: path,
    }

    /// What every process needs: within the first page of the file.
    struct Head as "head" aligned 1024 {
        /// [`MAGIC`].
        magic: number64,
        /// Where this file is.
        file: text256,
        /// Where the library is.
        library: text256,
        /// The dynamic loader that the library is for.
        loader: text256,
        /// How far the clock of the day is ahead of weigh's clock that runs on while the machine
        /// sleeps.
        day_ahead_ns: number64,
        /// When weigh wrote that down, by the latter.
        told_ns: number64,
        /// Which device weigh's `/proc` is.
        proc_device: number64,
        /// How far weigh's own time namespace is ahead with the latter.
        lead_ns: number64,
        /// The first free slot plus one, and above that a number that changes each time.
        free: number64,
        /// Slots that were ever taken.
        used: number32,
        /// Slots that the file has room for: a page that is touched and finds none is a SIGBUS. None is
        /// taken, or looked at, beyond.
        room: number32,
        /// The same of records.
        record_room: number32,
        /// Processes alive, as far as they could tell.
        alive: number32,
        /// The most that were alive at one moment.
        alive_peak: number32,
        /// Processes that got no slot, as far as who made them could tell.
        overflow: number32,
        /// Not 0 if ever there was no slot for a process.
        refused: number32,
        /// With more processes alive than that none makes another for a while; 0 for any number.
        most: number32,
        /// Processes that were made in PID namespaces of the job, where only they themselves know their PID.
        nested_made: number32,
        /// Those of them that have begun.
        nested_begun: number32,
        /// Records that were written or are being written.
        records_head: number64,
        /// Records that weigh has read.
        records_tail: number64,
        /// Records for which there was no room.
        records_lost: number64,
    }

    /// The whole file. A process maps its head and its own slot, and all of it when it makes others
    /// or tells of files.
    struct Shared as "shared" aligned 1024 {
        /// See there.
        head: head,
        /// The PIDs of the slots, close together, each with the slot's generation above it.
        pids: pids,
        /// The processes.
        slots: slots,
        /// The opened files.
        records: records,
    }
}

macro_rules! numbered {
    ($list:ident, $doc:literal, $($(#[doc = $each:literal])+ $name:ident = $value:literal;)+) => {
        $( $(#[doc = $each])+ pub const $name: u32 = $value; )+
        #[doc = $doc]
        const $list: &[(&str, u32)] = &[$( (stringify!($name), $name), )+];
    };
}

numbered! { STATES, "What a slot can be.",
    /// Taken, and being filled.
    STATE_CLAIMED = 1;
    /// For a process that is just being made.
    STATE_SPAWNING = 2;
    /// Its process executes a program whose copy of the library was not heard of yet.
    STATE_EXECED = 3;
    /// Its process runs with the library in it.
    STATE_RUNNING = 4;
    /// Its process has said its last.
    STATE_ENDED = 5;
    /// Its process was waited for without having said its last.
    STATE_REAPED = 6;
}

numbered! { FLAGS, "What is known of a slot.",
    /// It has had more than one thread.
    FLAG_THREADS = 2;
    /// CPU time and faults are in the counters.
    FLAG_USAGE = 4;
    /// I/O as the kernel counts it is in the counters.
    FLAG_IO = 8;
    /// The I/O is that of children it has waited for, too.
    FLAG_IO_OF_CHILDREN = 16;
    /// It did not care for the ends of its children: the kernel counts them nowhere.
    FLAG_IGNORES_CHILDREN = 32;
    /// The program that it executes is static.
    FLAG_STATIC = 64;
    /// The program has another dynamic loader: another C library, another architecture.
    FLAG_OTHER_LOADER = 128;
    /// The program gets other rights than who executes it has.
    FLAG_PRIVILEGED = 256;
    /// The library cannot be reached from its root directory.
    FLAG_OUT_OF_REACH = 512;
    /// It uses io_uring.
    FLAG_URING = 1024;
    /// It uses native AIO.
    FLAG_AIO = 2048;
    /// It made a stream of an Internet socket: what that moves is not seen.
    FLAG_SOCKET_STREAM = 4096;
    /// It was made by clone(2) with memory of its own.
    FLAG_OWN_MEMORY = 8192;
    /// It has executed a program in which the library has not woken up.
    FLAG_EXECED = 16384;
    /// It has set itself a filter of system calls, behind which the library does nothing.
    FLAG_FILTERED = 32768;
    /// The memory that it held could not be read at its end.
    FLAG_NO_MEMORY = 65536;
    /// It may be in a PID namespace of its own.
    FLAG_NESTED = 131072;
    /// A sanitizer's runtime must be the first library in the program that it executes.
    FLAG_SANITIZED = 262144;
    /// It has the memory of its parent, until it executes a program.
    FLAG_GUEST = 524288;
    /// It sent, received or spliced by syscall(2) and a number.
    FLAG_BY_NUMBER = 1048576;
}

numbered! { NUMBERS, "What stands for a PID where a process cannot know that which weigh sees.",
    /// More than any PID.
    HIDDEN = 1073741824;
    /// Lower than this is the PID that the process itself sees.
    HIDDEN_PIDS = 4194304;
    /// Of the PID namespace's number that much is kept, times the above.
    HIDDEN_NAMESPACES = 256;
}

numbered! { LIVES, "How a slot's life is put together.",
    /// Bits of the state, the lowest ones.
    STATE_BITS = 4;
    /// Bits of the PID, above them.
    PID_BITS = 31;
    /// Bits of the generation, above those.
    GENERATION_BITS = 29;
    /// In a `wait_status` that is known: never the same as in an empty slot.
    STATUS_KNOWN = 65536;
}

/// With the slot's generation: what no process has reported. A process that knows an earlier life does not
/// take it for that one's.
pub const UNTOLD: u64 = 1 << 63;

/// Owner of a slot, in one word: so a change of one of these is made with all of them in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// How often the slot was given back.
    pub generation: u32,
    /// Its PID as weigh sees it; where it cannot know that, a number with [`HIDDEN`] in it.
    pub pid: u32,
    /// One of [`STATES`]; 0 while it is free.
    pub state: u32,
}

impl Life {
    /// As it stands in the slot.
    pub const fn word(self) -> u64 {
        ((self.generation as u64) << PID_BITS | self.pid as u64) << STATE_BITS | self.state as u64
    }

    /// What a word says.
    pub const fn of(word: u64) -> Life {
        Life {
            generation: (word >> STATE_BITS >> PID_BITS) as u32,
            pid: (word >> STATE_BITS) as u32 & ((1 << PID_BITS) - 1),
            state: word as u32 & ((1 << STATE_BITS) - 1),
        }
    }

    /// The slot's next one: nobody's.
    pub const fn next(self) -> Life {
        let generation = self.generation.wrapping_add(1) & ((1 << GENERATION_BITS) - 1);
        Life { generation, pid: 0, state: 0 }
    }
}

const _: () = assert!(STATE_BITS + PID_BITS + GENERATION_BITS == 64);
const _: () =
    assert!(HIDDEN / HIDDEN_PIDS >= HIDDEN_NAMESPACES && HIDDEN < 1 << (PID_BITS - 1) << 1);

/// The header that the library is compiled with.
#[allow(dead_code)] // the build script does
pub fn c_header() -> String {
    let mut header = String::from(
        "/* Derived from crates/collect/src/preload/layout.rs. */\n\
         #include <stddef.h>\n#include <stdint.h>\n",
    );
    let _ = writeln!(header, "#define MAGIC {MAGIC:#x}ull\n#define UNTOLD {UNTOLD:#x}ull");
    let _ = writeln!(header, "enum {{\n\tSLOTS = {SLOTS},\n\tRECORDS = {RECORDS},");
    let _ = writeln!(header, "\tROOM_STEP = {ROOM_STEP},");
    for (name, value) in STATES.iter().chain(FLAGS).chain(NUMBERS).chain(LIVES) {
        let _ = writeln!(header, "\t{name} = {value},");
    }
    header.push_str("};\n");
    structures(&mut header);
    header
}
