//! A process's profile of its own regions: how it lies in memory that the process shares with who measures it,
//! declared once. Readers and `libweigh/src/profile_layout.h` are derived from it.
//!
//! A profile is an array of 64-bit words: a head, then sections, each of so many records of so many words as the head
//! says. The process writes it, and may write anything; who reads takes no number of it on trust.
//!
//! - A *node* is one region in one place of one thread's call tree (its parent is a node too; a thread's root is one),
//!   or one counter, gauge or kind of event of one thread. Only its own thread writes a node. It holds its numbers
//!   twice: `VERSIONS`, each with the epoch in which it was last written.
//! - Publishing adds 1 to the head's `epoch`. The first write to a node in a new epoch goes to the version that is older,
//!   so the other one keeps the node as it stood at the publish. A node's `sequence` is odd while it is written.
//!   A reader of publish `p` (the epoch it has just read, after a barrier in all threads of the process) takes of each node the
//!   newest version whose epoch is below `p`; if there is none but there were writes before, that publish is lost to it.
//! - Times are ticks of the clock that the head names. The head has two pairs of ticks and CLOCK_MONOTONIC.
//!
//! Names are given out once and stay. Number 0 is no name, 1 is `(other)`: what found no room.

use std::fmt::Write as _;

/// What the first word is.
pub const MAGIC: u64 = 0x0065_6c69_666f_7270;
/// The name of what found no room.
pub const OTHER_NAME: &str = "(other)";
/// The variable by which `weigh run` names its socket: 32 hexadecimal digits of an abstract address
/// ([`ADDRESS_PREFIX`] before them), a colon, 32 of a number that the first message has to hold.
pub const VARIABLE: &str = "WEIGH_REGIONS";
/// What the variable says where the program is to hand its profile to the agent.
pub const TO_AGENT: &str = "agent";
/// What the abstract address begins with.
pub const ADDRESS_PREFIX: &str = "weigh-regions-";
/// The variable that names a file for the profile where nobody listens; `%p` in it is the process's number.
pub const FILE_VARIABLE: &str = "WEIGH_PROFILE";
/// The variable with patterns of names, commas between, of regions that get an account of all their system calls.
pub const COSTS_VARIABLE: &str = "WEIGH_REGION_COSTS";
/// Bytes of a name or a metadata text that are kept.
pub const MOST_TEXT: usize = 1023;
/// Frames of a thread's stack of open regions: what lies deeper is `(other)`.
pub const FRAMES: usize = 64;
/// Nodes hold their numbers so many times.
pub const VERSIONS: usize = 2;
/// Calls from which on a region that is short in the mean is braked.
pub const BRAKE_CALLS: u64 = 100_000;
/// Nanoseconds of a mean call below which it is.
pub const BRAKE_NS: u64 = 2_000;
/// Of a braked region one call in so many is timed.
pub const BRAKED_TIMED: u64 = 64;

macro_rules! words {
    ($(#[$doc:meta])* $module:ident, $prefix:literal, $($c:literal $name:ident = $count:expr, $help:literal;)+) => {
        $(#[$doc])*
        pub mod $module {
            use crate::profile::words::next;
            words!(@at 0; $($name = $count, $help;)+);
            /// Names in C, how many words, and what they are.
            pub const WORDS: &[(&str, usize, &str)] = &[$(($c, $count, $help)),+];
            /// What the names begin with in C.
            pub const PREFIX: &str = $prefix;
            /// Words of a record.
            pub const LENGTH: usize = next(WORDS);
        }
    };
    (@at $at:expr; $name:ident = $count:expr, $help:literal; $($rest:tt)*) => {
        #[doc = $help]
        pub const $name: usize = $at;
        words!(@at $at + $count; $($rest)*);
    };
    (@at $at:expr;) => {};
}

mod words {
    /// How many words a list takes.
    pub const fn next(list: &[(&str, usize, &str)]) -> usize {
        let (mut at, mut sum) = (0, 0);
        while at < list.len() {
            sum += list[at].1;
            at += 1;
        }
        sum
    }
}

words! {
    /// The head.
    head, "PROFILE_",
    "MAGIC" MAGIC = 1, "what it is, written last when the profile is ready";
    "LAYOUT" LAYOUT = 1, "PROFILE_LAYOUT of who writes";
    "BYTES" BYTES = 1, "of the whole profile";
    "PID" PID = 1, "of the process, as it sees it";
    "CLOCK" CLOCK = 1, "enum profile_clock";
    "FIRST_TICKS" FIRST_TICKS = 1, "when the profile was made";
    "FIRST_NS" FIRST_NS = 1, "the same moment by CLOCK_MONOTONIC";
    "LAST_TICKS" LAST_TICKS = 1, "a later moment: a publish, a thread's end, the program's end";
    "LAST_NS" LAST_NS = 1, "the same by CLOCK_MONOTONIC";
    "PAIR_SEQUENCE" PAIR_SEQUENCE = 1, "odd while the later pair is written";
    "EPOCH" EPOCH = 1, "1, and 1 more for each publish";
    "ENDED" ENDED = 1, "1 once the program has ended in order";
    "RANK" RANK = 1, "of the process in its MPI job, and 1; 0 where there is none";
    "NODES_LOST" NODES_LOST = 1, "calls of regions, counters and events that found no node: they are in (other)";
    "NAMES_LOST" NAMES_LOST = 1, "names that found no room: they are (other)";
    "THREADS_LOST" THREADS_LOST = 1, "threads that found no room";
    "FRAMES_LOST" FRAMES_LOST = 1, "calls that began deeper than PROFILE_FRAMES: they are in (other)";
    "OTHER_CALLS" OTHER_CALLS = 1, "calls of threads that found no room: added up by atomic operations";
    "OTHER_TICKS" OTHER_TICKS = 1, "their time";
    "CONTROL_WRITTEN" CONTROL_WRITTEN = 1, "records of control ever written, by who measures";
    "CONTROL_READ" CONTROL_READ = 1, "of those, how many the program has taken";
    "SECTIONS" SECTIONS = 18, "of each section: its first word; its records";
    "USED" USED = 9, "of each section: records in use; of rings (phases, events, control): ever written; of texts: words";
}

words! {
    /// A name.
    name, "NAME_",
    "TEXT" TEXT = 1, "its first word in the section of texts";
    "BYTES" BYTES = 1, "of the text, as kept; 0: not written yet";
    "CUT" CUT = 1, "bytes that it had more";
    "UNUSED" UNUSED = 1, "not used";
}

words! {
    /// The numbers of a node, once.
    version, "VERSION_",
    "EPOCH" EPOCH = 1, "in which it was last written; 0: never";
    "CALLS" CALLS = 1, "calls that have ended; samples of a counter, gauge or event";
    "TIMED" TIMED = 1, "of those, how many were timed: all, but of a braked region";
    "INCLUSIVE" INCLUSIVE = 1, "ticks of the timed calls; a counter's sum (two's complement); a gauge's or event's sum (double)";
    "EXCLUSIVE" EXCLUSIVE = 1, "the same without regions inside, of a braked region as it was when it was braked; the last value of a counter (its last summand), gauge or event";
    "MIN" MIN = 1, "the least timed call, or value";
    "MAX" MAX = 1, "the greatest";
    "SQUARES" SQUARES = 1, "sum of the squares of the timed calls (double), while it is braked";
}

words! {
    /// A node.
    node, "NODE_",
    "SEQUENCE" SEQUENCE = 1, "odd while it is written";
    "PARENT" PARENT = 1, "number of the node above it; of a root its own";
    "NAME" NAME = 1, "its name";
    "THREAD" THREAD = 1, "number of its thread's record";
    "KIND" KIND = 1, "enum profile_kind; 0: not written yet";
    "BRAKED" BRAKED = 1, "calls before it was braked; 0: it is not";
    "UNBALANCED" UNBALANCED = 1, "calls that ended by the end of one around them or of the thread, and ends without a begin";
    "COSTS" COSTS = 1, "number of its record of costs, and 1; 0: no account of calls is bound to it; all ones: there was no room for one";
    "VERSIONS" VERSIONS = 16, "its numbers, twice";
}

words! {
    /// The account of calls that is bound to a region, in one place of one thread's call tree: as it stood when a call of the
    /// region ended last, or when the program ended.
    costs, "COSTS_",
    "SEQUENCE" SEQUENCE = 1, "odd while it is written";
    "NODE" NODE = 1, "whose it is";
    "TOKEN" TOKEN = 1, "of the account";
    "WANTED" WANTED = 1, "bit set of the parts of the kernel that were to be looked into";
    "REASON" REASON = 1, "why a call was not measured, of the last one that was not: enum weigh_reason";
    "NUMBERS" NUMBERS = crate::subsystem::account_length(), "struct weigh_account";
}

words! {
    /// An open region of a thread, the outermost first.
    frame, "FRAME_",
    "NODE" NODE = 1, "of the region";
    "BEGUN" BEGUN = 1, "ticks; 0: this call is not timed";
    "INSIDE" INSIDE = 1, "ticks of regions inside that have ended";
}

words! {
    /// A thread.
    thread, "THREAD_",
    "TID" TID = 1, "as the process sees it";
    "BEGUN" BEGUN = 1, "ticks at which it was first seen";
    "ENDED" ENDED = 1, "ticks at which it ended; 0: it has not";
    "ROOT" ROOT = 1, "its root node";
    "DEPTH" DEPTH = 1, "of the stack of open regions, deeper ones than FRAMES counted too";
    "NAME" NAME = 2, "as the kernel has it, when first seen";
    "UNUSED" UNUSED = 1, "not used";
    "STACK" STACK = 192, "frames";
}

words! {
    /// A phase that has ended, or an open one: written at its end.
    phase, "PHASE_",
    "STAMP" STAMP = 1, "its number in the ring, and 1: written last, 0 while it is written";
    "NAME" NAME = 1, "its name";
    "THREAD" THREAD = 1, "number of its thread's record";
    "ITERATION" ITERATION = 1, "as the program numbers them";
    "BEGUN" BEGUN = 1, "ticks";
    "ENDED" ENDED = 1, "ticks";
    "EPOCH" EPOCH = 1, "in which it ended";
    "UNUSED" UNUSED = 1, "not used";
}

words! {
    /// An event with a value.
    event, "EVENT_",
    "STAMP" STAMP = 1, "its number in the ring, and 1: written last, 0 while it is written";
    "NAME" NAME = 1, "its name";
    "THREAD" THREAD = 1, "number of its thread's record";
    "AT" AT = 1, "ticks";
    "VALUE" VALUE = 1, "double";
    "EPOCH" EPOCH = 1, "in which it came";
    "UNUSED" UNUSED = 2, "not used";
}

words! {
    /// A piece of metadata.
    metadata, "METADATA_",
    "SEQUENCE" SEQUENCE = 1, "odd while it is written; 0: not written yet";
    "KEY" KEY = 1, "a name";
    "TEXT" TEXT = 1, "the value's first word in the section of texts";
    "BYTES" BYTES = 1, "of the value, as kept";
}

words! {
    /// What who measures sends to the program.
    control, "CONTROL_",
    "STAMP" STAMP = 1, "its number in the ring, and 1: written last, 0 while it is written";
    "KIND" KIND = 1, "enum weigh_control_kind";
    "NUMBER" NUMBER = 1, "a rate or value (double), where it has one";
    "KEY" KEY = 8, "text with zeros behind: a name of a region, or the program's own key";
    "TEXT" TEXT = 21, "text with zeros behind: the value";
}

/// A section: its name in C, words of a record, records that libweigh makes.
pub struct Section {
    /// In C.
    pub name: &'static str,
    /// Of a record.
    pub words: usize,
    /// In memory; in a file there are an eighth of them.
    pub records: usize,
}

/// Sections by their number in the head. The capacities of a profile are those that its own head says.
pub const SECTIONS: [Section; 9] = [
    Section { name: "NAMES", words: name::LENGTH, records: 16_384 },
    Section { name: "TEXTS", words: 1, records: 1 << 18 },
    Section { name: "NODES", words: node::LENGTH, records: 32_768 },
    Section { name: "THREADS", words: thread::LENGTH, records: 4_096 },
    Section { name: "PHASES", words: phase::LENGTH, records: 65_536 },
    Section { name: "EVENTS", words: event::LENGTH, records: 16_384 },
    Section { name: "METADATA", words: metadata::LENGTH, records: 1_024 },
    Section { name: "COSTS", words: costs::LENGTH, records: 512 },
    Section { name: "CONTROL", words: control::LENGTH, records: 64 },
];

macro_rules! numbers {
    ($(#[$doc:meta])* $type:ident, $c_type:literal, $prefix:literal, $($name:ident = $c:literal, $number:literal, $help:literal;)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $(#[doc = $help] $name = $number),+ }

        impl $type {
            /// All of them.
            pub const ALL: &'static [$type] = &[$($type::$name),+];

            /// The one of that number.
            pub fn numbered(number: u64) -> Option<$type> {
                $type::ALL.iter().copied().find(|kind| *kind as u64 == number)
            }

            fn c_text() -> String {
                let rows: [(&str, u64, &str); $type::ALL.len()] = [$(($c, $number, $help)),+];
                let mut text = format!("enum {} {{\n", $c_type);
                for (name, number, help) in rows {
                    let _ = writeln!(text, "\t{}{name} = {number}, /* {help} */", $prefix);
                }
                text + "};\n\n"
            }
        }
    };
}

numbers! {
    /// What a node is.
    NodeKind, "profile_kind", "PROFILE_",
    Root = "ROOT", 1, "a thread: its calls are 0";
    Region = "REGION", 2, "a region";
    Phase = "PHASE", 3, "a region with iterations";
    Range = "RANGE", 4, "a region that may end on another thread: it is in nobody's exclusive time";
    Counter = "COUNTER", 5, "a counter: whole numbers are added up";
    Gauge = "GAUGE", 6, "a gauge: the last value counts";
    Event = "EVENT", 7, "events with a value";
}

numbers! {
    /// What times are measured in.
    ProfileClock, "profile_clock", "PROFILE_",
    Monotonic = "MONOTONIC", 1, "nanoseconds of CLOCK_MONOTONIC";
    Counter = "COUNTER_OF_CPU", 2, "the CPU's own counter (TSC, or CNTVCT_EL0)";
}

numbers! {
    /// What is sent to a program.
    ControlKind, "weigh_control_kind", "WEIGH_CONTROL_",
    Value = "VALUE", 1, "a value under a key of the program's own";
    Publish = "PUBLISH", 2, "it shall publish now: libweigh does so when the program asks";
    RegionsOn = "REGIONS_ON", 3, "regions of this name (empty: all) are measured";
    RegionsOff = "REGIONS_OFF", 4, "they are not";
    Rate = "RATE", 5, "the number of seconds between publishes";
}

/// A program's first and only message, with the profile's descriptor beside it (a memfd that cannot shrink).
pub const HELLO: &[(&str, usize, &str)] = &[
    ("layout", 1, "PROFILE_LAYOUT of who sends"),
    ("token", 2, "the number of the variable WEIGH_REGIONS, its first 16 digits first"),
    ("pid", 1, "of the process, as it sees it"),
];

/// Changes with the layout: a reader that finds another number does not read.
pub fn layout() -> u64 {
    fnv(&text())
}

/// FNV-1a.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `profile_layout.h`.
pub fn header() -> String {
    format!(
        "/* Derived from crates/schema/src/profile.rs by `weigh generate`. */\n#ifndef WEIGH_PROFILE_LAYOUT_H\n\
         #define WEIGH_PROFILE_LAYOUT_H\n\n#include <stdint.h>\n\n#define PROFILE_LAYOUT {:#018x}ULL\n\
         #define PROFILE_TO_AGENT \"{TO_AGENT}\"\n{}#endif\n",
        layout(),
        text()
    )
}

fn text() -> String {
    let mut text = format!(
        "#define PROFILE_IS {MAGIC:#018x}ULL\n#define PROFILE_OTHER_NAME \"{OTHER_NAME}\"\n\
         #define PROFILE_VARIABLE \"{VARIABLE}\"\n#define PROFILE_ADDRESS_PREFIX \"{ADDRESS_PREFIX}\"\n\
         #define PROFILE_FILE_VARIABLE \"{FILE_VARIABLE}\"\n\
         #define PROFILE_COSTS_VARIABLE \"{COSTS_VARIABLE}\"\n#define PROFILE_MOST_TEXT {MOST_TEXT}\n\
         #define PROFILE_FRAMES {FRAMES}\n#define PROFILE_BRAKE_CALLS {BRAKE_CALLS}ULL\n\
         #define PROFILE_BRAKE_NS {BRAKE_NS}ULL\n#define PROFILE_BRAKED_TIMED {BRAKED_TIMED}ULL\n\
         #define PROFILE_ACCOUNT_LAYOUT {:#018x}ULL\n\n",
        fnv(&crate::subsystem::c_header())
    );
    for (number, section) in SECTIONS.iter().enumerate() {
        let Section { name, words, records } = section;
        let _ = writeln!(
            text,
            "#define PROFILE_{name} {number} /* a section */\n#define PROFILE_{name}_WORDS {words}\n\
             #define PROFILE_{name}_RECORDS {records}"
        );
    }
    text.push('\n');
    for (prefix, list) in [
        (head::PREFIX, head::WORDS),
        (name::PREFIX, name::WORDS),
        (version::PREFIX, version::WORDS),
        (node::PREFIX, node::WORDS),
        (costs::PREFIX, costs::WORDS),
        (frame::PREFIX, frame::WORDS),
        (thread::PREFIX, thread::WORDS),
        (phase::PREFIX, phase::WORDS),
        (event::PREFIX, event::WORDS),
        (metadata::PREFIX, metadata::WORDS),
        (control::PREFIX, control::WORDS),
    ] {
        text.push_str(&c_structure(prefix, list));
    }
    text + &c_message() + &NodeKind::c_text() + &ProfileClock::c_text() + &ControlKind::c_text()
}

/// Where each word of a record is.
fn c_structure(prefix: &str, list: &[(&str, usize, &str)]) -> String {
    let (mut text, mut at) = (String::new(), 0);
    for (name, count, help) in list {
        if *name != "UNUSED" {
            let _ = writeln!(text, "#define {prefix}AT_{name} {at} /* {help} */");
        }
        at += count;
    }
    let _ = writeln!(text, "#define {prefix}LENGTH {}\n", words::next(list));
    text
}

fn c_message() -> String {
    let mut text = String::from("struct profile_hello {\n");
    for (name, count, help) in HELLO {
        let array = if *count > 1 { format!("[{count}]") } else { String::new() };
        let _ = writeln!(text, "\tuint64_t {name}{array}; /* {help} */");
    }
    text + "};\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_hold_others_have_room_for_them() {
        assert_eq!(node::LENGTH, node::VERSIONS + VERSIONS * version::LENGTH);
        assert_eq!(thread::LENGTH, thread::STACK + FRAMES * frame::LENGTH);
        assert_eq!(head::USED - head::SECTIONS, 2 * SECTIONS.len());
        assert_eq!(head::LENGTH - head::USED, SECTIONS.len());
    }

    #[test]
    fn lines_of_the_cache_hold_whole_nodes() {
        assert_eq!(node::LENGTH % 8, 0);
        assert_eq!(thread::LENGTH % 8, 0);
    }
}
