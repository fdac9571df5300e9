//! The parts of the kernel that a system call's cost is split into, declared once.
//!
//! Derived from [`SUBSYSTEMS`] and [`LATER`]: the structure that BPF programs, libweigh and weigh
//! share (`c_header`), the options of `weigh calls`, columns, JSON keys, Python attributes, and
//! docs/calls.md. A new field is one line here, and one in the program that counts it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::metric::Unit;
use crate::own::{OWN_NUMBERS, OWN_PARTS, Own, OwnNumber};
use crate::quality::Number;

/// One number that is kept of a subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it counts, without its unit.
    pub name: &'static str,
    /// In which unit.
    pub unit: Unit,
    /// What exactly, and when.
    pub help: &'static str,
}

impl Field {
    const fn new(name: &'static str, unit: Unit, help: &'static str) -> Field {
        Field { name, unit, help }
    }

    /// Its name for readers: base units, `device_seconds`, `sent_bytes_total`, `requests_total`.
    pub fn key(&self) -> String {
        match self.unit {
            Unit::Seconds => format!("{}_seconds", self.name),
            Unit::Bytes => format!("{}_bytes_total", self.name),
            _ => format!("{}_total", self.name),
        }
    }

    /// Its name in the shared structure, whose numbers are whole: nanoseconds, bytes, counts.
    pub fn slot(&self) -> String {
        match self.unit {
            Unit::Seconds => format!("{}_ns", self.name),
            Unit::Bytes => format!("{}_bytes", self.name),
            _ => self.name.to_string(),
        }
    }

    /// What a number of the shared structure is in base units.
    pub fn in_base_unit(&self, raw: u64) -> f64 {
        match self.unit {
            Unit::Seconds => raw as f64 / 1e9,
            _ => raw as f64,
        }
    }
}

/// One part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// Its name in options, keys and code.
    pub name: &'static str,
    /// What belongs to it, and how it is seen.
    pub help: &'static str,
    /// What time in it is, in a sentence: "8 ms …".
    pub busy: &'static str,
    /// What waiting in it is, in a sentence.
    pub waits: &'static str,
    /// What is kept of it, beside the time in it.
    pub fields: &'static [Field],
}

impl Subsystem {
    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Subsystem> {
        SUBSYSTEMS.iter().find(|subsystem| subsystem.name == name)
    }

    /// Its place in [`SUBSYSTEMS`], which is also its bit in a set of subsystems.
    pub fn index(&self) -> usize {
        // Invariant: subsystems exist in the table only.
        SUBSYSTEMS.iter().position(|other| other.name == self.name).unwrap_or(0)
    }

    /// The set that holds it alone.
    pub fn bit(&self) -> u64 {
        1 << self.index()
    }

    /// Where an account has its times, in the order of [`PART`].
    pub(crate) fn part_start(&self) -> usize {
        HEAD.len() + self.index() * PART.len()
    }

    /// Where an account has its own fields.
    pub(crate) fn fields_start(&self) -> usize {
        let before = &SUBSYSTEMS[..self.index()];
        fields_start() + before.iter().map(|s| s.fields.len()).sum::<usize>()
    }
}

/// What is kept of every subsystem: time is split so that each moment belongs to one of them.
pub const PART: &[Field] = &[
    Field::new(
        "time",
        Unit::Seconds,
        "on a CPU in this part, less what other parts took that it called",
    ),
    Field::new("waiting", Unit::Seconds, "off the CPU for this part, less waiting for a CPU"),
    Field::new("entries", Unit::Count, "times it was entered"),
];

const COUNT: Unit = Unit::Count;
const BYTES: Unit = Unit::Bytes;
const SECONDS: Unit = Unit::Seconds;

/// All of them. The first is what is left when the others are taken away.
pub const SUBSYSTEMS: &[Subsystem] = &[
    Subsystem {
        name: "kernel",
        help: "the remainder: kernel code that no probe bounds, such as the VFS, the socket layer, copying",
        busy: "in kernel code without a probe",
        waits: "waiting in kernel code without a probe",
        fields: &[],
    },
    Subsystem {
        name: "sched",
        help: "waiting that no other part asked for, and the scheduler's doings",
        busy: "in the scheduler",
        waits: "waiting for what no probe tells",
        fields: &[
            Field::new("run_queue", SECONDS, "runnable, but another thread had the CPU"),
            Field::new("switches", COUNT, "times the thread left the CPU to wait"),
            Field::new("preemptions", COUNT, "times the CPU was taken from it"),
        ],
    },
    Subsystem {
        name: "irq",
        help: "interrupts and softirqs that ran on top of the thread: work of others, most of it",
        busy: "taken by interrupts and softirqs",
        waits: "waiting in interrupts",
        fields: &[
            Field::new("hard", SECONDS, "in handlers of interrupts"),
            Field::new("soft", SECONDS, "in softirqs"),
        ],
    },
    Subsystem {
        name: "lock",
        help: "contended locks of the kernel: spinning is time, sleeping is waiting",
        busy: "spinning on locks",
        waits: "waiting for locks",
        fields: &[],
    },
    Subsystem {
        name: "memory",
        help: "the allocators; time and waiting are those of direct reclaim",
        busy: "reclaiming memory",
        waits: "waiting for memory to be reclaimed",
        fields: &[
            Field::new("allocations", COUNT, "objects taken from kmalloc and the slab caches"),
            Field::new("allocated", BYTES, "their sizes, as the caches round them"),
            Field::new("pages", COUNT, "pages taken from the page allocator"),
        ],
    },
    Subsystem {
        name: "fault",
        help: "page faults; their time is in the parts they call, and in the remainder",
        busy: "in page faults",
        waits: "waiting in page faults",
        fields: &[
            Field::new("user", COUNT, "faults of the program's own code"),
            Field::new("kernel", COUNT, "faults of kernel code on the program's memory"),
        ],
    },
    Subsystem {
        name: "pagecache",
        help: "the page cache: what had to be put in and what was made dirty",
        busy: "in the page cache",
        waits: "waiting for the page cache",
        fields: &[
            Field::new("added_pages", COUNT, "pages put into it: misses, read-ahead, new pages"),
            Field::new("dirtied_pages", COUNT, "pages that became dirty"),
        ],
    },
    Subsystem {
        name: "writeback",
        help: "writing dirty pages back: files that the call writes itself, waiting for the threads that \
               write for it, and being held back because too much is dirty",
        busy: "writing pages back",
        waits: "waiting for pages to be written back",
        fields: &[
            Field::new("pauses", COUNT, "times it was held back because too much was dirty"),
            Field::new(
                "inodes",
                COUNT,
                "inodes that the call wrote itself, as the kernel's own writers do",
            ),
            Field::new("pages", COUNT, "pages that the call itself sent on their way (ext4)"),
            Field::new("awaited", COUNT, "waits for one folio on its way; their time is of block"),
        ],
    },
    Subsystem {
        name: "fs",
        help: "the file system (ext4): synchronising, mapping, truncating, allocating, writing pages",
        busy: "in the file system",
        waits: "waiting in the file system",
        fields: &[],
    },
    Subsystem {
        name: "journal",
        help: "the journal of ext4 (jbd2): changes that the call makes, and waiting for a commit",
        busy: "in the journal",
        waits: "waiting for the journal",
        fields: &[
            Field::new("handles", COUNT, "changes begun, each to be in the journal as a whole"),
            Field::new("dirtied_blocks", COUNT, "blocks of metadata that they changed"),
            Field::new(
                "restarts",
                COUNT,
                "times one was too large and went on in the next transaction",
            ),
        ],
    },
    Subsystem {
        name: "fuse",
        help: "file systems that a program serves (Linux 6.1 has no tracepoints for it): waiting for its answers",
        busy: "in FUSE",
        waits: "waiting for the file system's server",
        fields: &[
            Field::new("requests", COUNT, "requests sent to the server"),
            Field::new(
                "server",
                SECONDS,
                "from one to its answer, of those answered while the call lasted",
            ),
        ],
    },
    Subsystem {
        name: "block",
        help: "block devices: waiting for them, and requests that were done while the call lasted",
        busy: "in the block layer",
        waits: "waiting for block devices",
        fields: &[
            Field::new("requests", COUNT, "parts of requests to a device that were the call's"),
            Field::new("transferred", BYTES, "bytes of them"),
            Field::new(
                "carried",
                BYTES,
                "of these, pages that others, or earlier calls, made dirty",
            ),
            Field::new(
                "written",
                BYTES,
                "bytes written of pages that the call made dirty itself, and of direct writes",
            ),
            Field::new("queue", SECONDS, "from the request to its issue to the device"),
            Field::new("device", SECONDS, "from its issue to its completion, shared by bytes"),
        ],
    },
    Subsystem {
        name: "socket",
        help: "payload through sockets (tracepoints of Linux 6.3)",
        busy: "in the socket layer",
        waits: "waiting in the socket layer",
        fields: &[
            Field::new("sent", BYTES, "payload accepted by sockets"),
            Field::new("received", BYTES, "payload taken from sockets"),
        ],
    },
    Subsystem {
        name: "tcp",
        help: "TCP: what was handed to it, and what it had to send again at once",
        busy: "in TCP",
        waits: "waiting in TCP",
        fields: &[
            Field::new("retransmits", COUNT, "segments sent again while the call lasted"),
            Field::new("transmitted", BYTES, "of its payload, handed to the network by itself"),
            Field::new("retransmitted", BYTES, "of these, sent again"),
        ],
    },
    Subsystem {
        name: "udp",
        help: "UDP, of what socket has (tracepoints of Linux 6.3)",
        busy: "in UDP",
        waits: "waiting in UDP",
        fields: &[
            Field::new(
                "datagrams",
                COUNT,
                "sends that were accepted; one may be cut into several later",
            ),
            Field::new("sent", BYTES, "their payload"),
            Field::new("receipts", COUNT, "datagrams that were taken from sockets"),
            Field::new("received", BYTES, "their payload"),
        ],
    },
    Subsystem {
        name: "net",
        help: "devices and their queues; time is that of the driver's transmission, which loopback has none of",
        busy: "in network drivers",
        waits: "waiting in network drivers",
        fields: &[
            Field::new("packets", COUNT, "packets handed to a device"),
            Field::new("transmitted", BYTES, "their lengths, headers included"),
        ],
    },
    Subsystem {
        name: "qdisc",
        help: "queues before devices (traffic control); a packet that need not wait passes them by",
        busy: "in queues before devices",
        waits: "waiting in queues before devices",
        fields: &[
            Field::new("packets", COUNT, "packets that the call itself put into a queue"),
            Field::new(
                "dropped",
                COUNT,
                "packets that a queue threw away because the call's came, most often those",
            ),
            Field::new(
                "queue",
                SECONDS,
                "in a queue, of those that the call itself took out again",
            ),
        ],
    },
    Subsystem {
        name: "workqueue",
        help: "work that is left to kernel threads",
        busy: "queueing work",
        waits: "waiting for queued work",
        fields: &[Field::new("queued", COUNT, "work items handed over")],
    },
    Subsystem {
        name: "timer",
        help: "timers that were set",
        busy: "setting timers",
        waits: "waiting for timers",
        fields: &[Field::new("started", COUNT, "timers and high-resolution timers started")],
    },
    Subsystem {
        name: "uring",
        help: "io_uring: requests that were handed in and completed",
        busy: "in io_uring",
        waits: "waiting in io_uring",
        fields: &[
            Field::new("submitted", COUNT, "requests handed in"),
            Field::new("completed", COUNT, "requests completed while the call lasted"),
        ],
    },
];

/// What a call or a token caused that happened when the call had returned already.
pub const LATER: &[Field] = &[
    Field::new("pending", COUNT, "things it caused that have not come to an end"),
    Field::new(
        "block_requests",
        COUNT,
        "parts of requests to a device that were its own, or carried its pages",
    ),
    Field::new("block", BYTES, "bytes of these, at completion"),
    Field::new("block_written", BYTES, "bytes written of its pages, and of direct writes"),
    Field::new("block_queue", SECONDS, "from the request to its issue, shared by bytes"),
    Field::new("block_device", SECONDS, "from issue to completion, shared by bytes"),
    Field::new(
        "tcp_transmitted",
        BYTES,
        "payload that TCP handed to the network, repeats included",
    ),
    Field::new("tcp_retransmitted", BYTES, "payload that TCP sent again"),
    Field::new("udp_dropped", COUNT, "datagrams for the socket it read last that found no room"),
    Field::new("qdisc_packets", COUNT, "packets it put into a queue that others took out"),
    Field::new("qdisc", SECONDS, "how long those were in it"),
    Field::new("qdisc_dropped", COUNT, "packets that others made it throw away"),
    Field::new("fuse_requests", COUNT, "requests to a file system's server that were answered"),
    Field::new("fuse", SECONDS, "from them to their answers"),
    Field::new("softirq", SECONDS, "in softirqs on its behalf"),
    Field::new("work_items", COUNT, "work items it queued that have run"),
    Field::new("work", SECONDS, "their time"),
    Field::new("timers", COUNT, "timers it started that have run"),
    Field::new("timer", SECONDS, "their time"),
];

/// What an account begins with, before its parts.
pub const HEAD: &[(&str, &str)] = &[
    ("token", "the caller's own number for it"),
    ("generation", "grows when the account is given to another token"),
    ("touched", "bit set of the subsystems that were seen"),
    (
        "unmeasured",
        "bit set of those that were wanted while nobody measured them: they lack something",
    ),
    ("calls", "calls, or intervals, that are added up in it"),
    ("time_ns", "from their beginnings to their ends"),
];

/// The structure that all sides share, as C: for BPF programs, libweigh, and whoever includes it.
pub fn c_header() -> String {
    let mut text = String::from(
        "/* Derived from crates/schema/src/subsystem.rs by `weigh generate`. */\n\
         #ifndef WEIGH_ACCOUNT_H\n#define WEIGH_ACCOUNT_H\n\n\
         #ifndef WEIGH_U64\n#include <stdint.h>\n#define WEIGH_U64 uint64_t\n#endif\n\n\
         /* Parts of the kernel; the bit of each in a set is 1 << its number. */\n\
         enum weigh_subsystem {\n",
    );
    for (index, subsystem) in SUBSYSTEMS.iter().enumerate() {
        let name = subsystem.name.to_uppercase();
        let _ = writeln!(text, "\t/* {} */\n\tWEIGH_{name} = {index},", subsystem.help);
    }
    let _ = writeln!(text, "\t/* the first of those that a configuration defines */");
    let _ = writeln!(text, "\tWEIGH_FIRST_OWN = {},", SUBSYSTEMS.len());
    let _ = writeln!(text, "\tWEIGH_SUBSYSTEMS = {}\n}};\n", PARTS);
    let _ = writeln!(text, "#define WEIGH_OWN_NUMBERS {OWN_NUMBERS}\n");
    structure(&mut text, "weigh_part", PART);
    for subsystem in SUBSYSTEMS.iter().filter(|s| !s.fields.is_empty()) {
        structure(&mut text, &format!("weigh_{}", subsystem.name), subsystem.fields);
    }
    structure(&mut text, "weigh_later", LATER);
    text.push_str("struct weigh_account {\n");
    for (name, help) in HEAD {
        let _ = writeln!(text, "\tWEIGH_U64 {name}; /* {help} */");
    }
    text.push_str("\tstruct weigh_part parts[WEIGH_SUBSYSTEMS]; /* by number */\n");
    for subsystem in SUBSYSTEMS.iter().filter(|s| !s.fields.is_empty()) {
        let _ = writeln!(text, "\tstruct weigh_{0} {0};", subsystem.name);
    }
    text.push_str("\tWEIGH_U64 own[WEIGH_OWN_NUMBERS]; /* by the configuration */\n");
    text.push_str("\tstruct weigh_later later;\n};\n\n#endif\n");
    text
}

fn structure(text: &mut String, name: &str, fields: &[Field]) {
    let _ = writeln!(text, "struct {name} {{");
    for field in fields {
        let _ = writeln!(text, "\tWEIGH_U64 {}; /* {} */", field.slot(), field.help);
    }
    text.push_str("};\n\n");
}

/// How many parts an account has room for: the built-in ones, and those of a configuration.
pub const PARTS: usize = SUBSYSTEMS.len() + OWN_PARTS;

/// An account: the numbers of the shared structure, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    numbers: Vec<u64>,
    own: Option<Own>,
}

/// How many numbers an account has.
pub fn account_length() -> usize {
    later_start() + LATER.len()
}

/// Where in an account it is told how many things are pending.
pub fn pending_at() -> usize {
    // Invariant: LATER has it.
    later_start() + LATER.iter().position(|field| field.name == "pending").unwrap_or(0)
}

/// Where in an account its generation is.
pub fn generation_at() -> usize {
    // Invariant: HEAD has it.
    HEAD.iter().position(|(name, _)| *name == "generation").unwrap_or(0)
}

fn fields_start() -> usize {
    HEAD.len() + PARTS * PART.len()
}

fn later_start() -> usize {
    own_start() + OWN_NUMBERS
}

fn own_start() -> usize {
    fields_start() + SUBSYSTEMS.iter().map(|s| s.fields.len()).sum::<usize>()
}

impl Default for Account {
    fn default() -> Account {
        Account { numbers: vec![0; account_length()], own: None }
    }
}

impl Account {
    /// From the bytes of the shared structure; none if there are too few.
    pub fn from_bytes(bytes: &[u8]) -> Option<Account> {
        let words = bytes.chunks_exact(8).take(account_length());
        // Invariant: chunks_exact(8) gives eight bytes each.
        let numbers: Vec<u64> =
            words.map(|w| u64::from_ne_bytes(w.try_into().unwrap_or_default())).collect();
        (numbers.len() == account_length()).then_some(Account { numbers, own: None })
    }

    /// With the names of the parts that a configuration defines.
    pub fn with_own(self, own: &Own) -> Account {
        Account { own: Some(Own::clone(own)), ..self }
    }

    /// Says how long the calls took.
    pub fn set_time_ns(&mut self, time_ns: u64) {
        self.set_head("time_ns", time_ns);
    }

    fn set_head(&mut self, name: &str, number: u64) {
        if let Some(index) = HEAD.iter().position(|(n, _)| *n == name) {
            self.numbers[index] = number;
        }
    }

    pub(crate) fn number(&self, place: usize) -> u64 {
        self.numbers[place]
    }

    pub(crate) fn set_number(&mut self, place: usize, number: u64) {
        self.numbers[place] = number;
    }

    fn head(&self, name: &str) -> u64 {
        HEAD.iter().position(|(n, _)| *n == name).map_or(0, |index| self.numbers[index])
    }

    /// The caller's number for it.
    pub fn token(&self) -> u64 {
        self.head("token")
    }

    /// Calls that are added up in it.
    pub fn calls(&self) -> u64 {
        self.head("calls")
    }

    /// Nanoseconds from their beginnings to their ends.
    pub fn time_ns(&self) -> u64 {
        self.head("time_ns")
    }

    /// Whether this subsystem was seen at all.
    pub fn touched(&self, subsystem: &Subsystem) -> bool {
        self.head("touched") & subsystem.bit() != 0
    }

    /// Whether it was wanted while nobody measured it: its numbers lack something.
    pub fn unmeasured(&self, subsystem: &Subsystem) -> bool {
        self.head("unmeasured") & subsystem.bit() != 0
    }

    /// Time in it, waiting for it, entries: in the order of [`PART`].
    pub fn part(&self, subsystem: &Subsystem) -> &[u64] {
        let start = subsystem.part_start();
        &self.numbers[start..start + PART.len()]
    }

    /// Its own fields, in the order of their declaration.
    pub fn fields(&self, subsystem: &Subsystem) -> &[u64] {
        let start = subsystem.fields_start();
        &self.numbers[start..start + subsystem.fields.len()]
    }

    /// What came after the calls, in the order of [`LATER`].
    pub fn later(&self) -> &[u64] {
        &self.numbers[later_start()..]
    }

    /// The numbers of each subsystem that was seen, by their names in base units; those that are 0
    /// are left out, but for the times.
    pub fn parts(&self) -> BTreeMap<String, BTreeMap<String, Number>> {
        let seen = |s: &&Subsystem| self.touched(s) || self.part(s).iter().any(|n| *n != 0);
        let numbers = |s: &Subsystem| {
            let times = named(&PART[..2], &self.part(s)[..2], true);
            let rest = named(&PART[2..], &self.part(s)[2..], false);
            let own = named(s.fields, self.fields(s), false);
            times.into_iter().chain(rest).chain(own).collect()
        };
        let built_in = SUBSYSTEMS.iter().filter(seen).map(|s| (s.name.to_string(), numbers(s)));
        built_in.chain(self.own_parts()).collect()
    }

    /// The same of the parts that a configuration defines.
    fn own_parts(&self) -> Vec<(String, BTreeMap<String, Number>)> {
        let own = self.own.iter().flat_map(|own| own.iter()).zip(SUBSYSTEMS.len()..PARTS);
        own.filter_map(|(part, index)| {
            let start = HEAD.len() + index * PART.len();
            let numbers = &self.numbers[start..start + PART.len()];
            if self.head("touched") & (1 << index) == 0 && numbers.iter().all(|n| *n == 0) {
                return None;
            }
            let times = named(&PART[..2], &numbers[..2], true);
            let rest = named(&PART[2..], &numbers[2..], false);
            let sums = self.own_numbers(&part.sums);
            Some((part.name.clone(), times.into_iter().chain(rest).chain(sums).collect()))
        })
        .collect()
    }

    fn own_numbers(&self, numbers: &[OwnNumber]) -> Vec<(String, Number)> {
        let known = numbers.iter().filter_map(|number| {
            let raw = *self.numbers.get(own_start() + number.slot)?;
            (raw != 0).then(|| (number.key.clone(), number.number(raw)))
        });
        known.collect()
    }

    /// What came after the calls, by its names in base units; zeros are left out.
    pub fn later_numbers(&self) -> BTreeMap<String, Number> {
        let own = self.own.iter().flat_map(|own| own.iter());
        let own = own.flat_map(|part| self.own_numbers(&part.later));
        named(LATER, self.later(), false).into_iter().chain(own).collect()
    }

    /// Makes it one of so many calls that took so long: what the parts do not have of it is the
    /// remainder.
    pub fn complete(&mut self, calls: u64, time_ns: u64) {
        let (parts, fields) = self.numbers[HEAD.len()..].split_at_mut(PARTS * PART.len());
        // Waiting for a CPU is the only time that is no part's own.
        let run_queue =
            SUBSYSTEMS.iter().flat_map(|s| s.fields.iter().map(move |f| (s.name, f.name)));
        let run_queue = run_queue.zip(fields).find(|(name, _)| *name == ("sched", "run_queue"));
        let others = parts.chunks(PART.len()).skip(1).flat_map(|part| &part[..2]);
        let known = others.chain(run_queue.map(|(_, number)| &*number));
        let known = known.fold(0u64, |sum, number| sum.wrapping_add(*number));
        // A call that its thread ended in is known by its parts alone.
        let time_ns = time_ns.max(known);
        // The first part is the remainder.
        (parts[0], parts[1]) = (time_ns - known, 0);
        for (place, (name, _)) in self.numbers.iter_mut().zip(HEAD) {
            match *name {
                "calls" => *place = calls,
                "time_ns" => *place = time_ns,
                _ => {}
            }
        }
    }

    /// Bytes that were written to devices on its behalf: while its calls lasted, and later.
    pub fn written(&self) -> u64 {
        let block = SUBSYSTEMS.iter().find(|subsystem| subsystem.name == "block");
        let fields = block.map(|block| block.fields.iter().zip(self.fields(block)));
        let fields = fields.into_iter().flatten().filter(|(field, _)| field.name == "written");
        let later =
            LATER.iter().zip(self.later()).filter(|(field, _)| field.name == "block_written");
        fields.chain(later).map(|(_, bytes)| bytes).sum()
    }

    /// Adds another one's numbers; whose token it is stays.
    pub fn add(&mut self, other: &Account) {
        let sums = HEAD.iter().position(|(name, _)| *name == "calls").unwrap_or(0);
        for (place, (name, _)) in HEAD.iter().enumerate() {
            if matches!(*name, "touched" | "unmeasured") {
                self.numbers[place] |= other.numbers[place];
            }
        }
        for (mine, more) in self.numbers[sums..].iter_mut().zip(&other.numbers[sums..]) {
            *mine = mine.wrapping_add(*more);
        }
    }
}

fn named(fields: &[Field], numbers: &[u64], with_zeros: bool) -> Vec<(String, Number)> {
    let pairs = fields.iter().zip(numbers).filter(|(_, number)| with_zeros || **number != 0);
    pairs.map(|(field, raw)| (field.key(), field.unit.number(field.in_base_unit(*raw)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_field_has_its_unit_in_its_name() {
        let block = Subsystem::named("block").unwrap();
        let keys: Vec<String> = block.fields.iter().map(Field::key).collect();
        let expected = [
            "requests_total",
            "transferred_bytes_total",
            "carried_bytes_total",
            "written_bytes_total",
            "queue_seconds",
            "device_seconds",
        ];
        assert_eq!(keys, expected);
        let slots: Vec<String> = block.fields.iter().map(Field::slot).collect();
        assert_eq!(
            slots,
            [
                "requests",
                "transferred_bytes",
                "carried_bytes",
                "written_bytes",
                "queue_ns",
                "device_ns"
            ]
        );
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn an_account_is_read_by_the_order_of_the_header() {
        let numbers: Vec<u64> = (0..account_length() as u64).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(Account::from_bytes(&bytes[..bytes.len() - 1]), None);
        let account = Account::from_bytes(&bytes).unwrap();
        assert_eq!(account.token(), 0);
        assert_eq!(account.calls(), 4);
        let sched = Subsystem::named("sched").unwrap();
        assert_eq!(account.part(sched), [9, 10, 11]);
        let first_field = 6 + 3 * PARTS as u64;
        assert_eq!(account.fields(sched), [first_field, first_field + 1, first_field + 2]);
        assert_eq!(account.later().len(), LATER.len());
        assert_eq!(account.later().last(), numbers.last());
    }

    #[test]
    fn adding_keeps_the_token_and_joins_what_was_touched() {
        let with = |head: [u64; 6]| {
            let mut account = Account::default();
            account.numbers[..6].copy_from_slice(&head);
            account
        };
        let mut sum = with([7, 1, 0b01, 0b100, 2, 100]);
        sum.add(&with([9, 5, 0b10, 0b1000, 3, 50]));
        assert_eq!(&sum.numbers[..6], [7, 1, 0b11, 0b1100, 5, 150]);
    }

    #[test]
    fn the_remainder_comes_first_and_a_set_has_room_for_all() {
        assert_eq!(SUBSYSTEMS[0].name, "kernel");
        const { assert!(PARTS <= 64) };
    }
}
