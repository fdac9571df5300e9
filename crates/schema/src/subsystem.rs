//! The parts of the kernel that a system call's cost is split into, declared once.
//!
//! Derived from [`SUBSYSTEMS`] and [`LATER`]: the structure that BPF programs, libweigh and weigh
//! share ([`c_header`], [`Account`]), the options of `weigh calls`, columns, JSON keys, Python attributes, and
//! docs/calls.md. A new field is one line here, and one in the program that counts it.

mod account;
mod field;
mod header;
mod on_request;
mod table;

pub use account::{Account, PARTS, account_length, generation_at, pending_at};
pub use field::Field;
pub use header::c_header;
pub use on_request::{COUNTED_RATIO, CPU_COUNTERS, CpuCounter};
pub use table::{LATER, PART, SUBSYSTEMS};

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
        account::fields_start() + before.iter().map(|s| s.fields.len()).sum::<usize>()
    }
}

/// Fields of `block`: what of the requests of a call nobody who is followed has caused, how many and bytes.
pub const FOREIGN: [&str; 2] = ["foreign_requests_total", "foreign_bytes_total"];

/// What came of calls after they had returned: a number for each of [`LATER`].
pub type LaterNumbers = [u64; LATER.len()];

/// The part of the kernel that has to be looked into for such a number to be known; none for how many things
/// are pending or were lost, which any part may say.
pub fn later_part(field: &Field) -> Option<&'static Subsystem> {
    let name = match field.name.split('_').next()? {
        // Those that packets of connections are handled in.
        "softirq" => "tcp",
        "work" => "workqueue",
        "timers" => "timer",
        name => name,
    };
    Subsystem::named(name)
}

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
    (CPU_COUNTERS[0].name, CPU_COUNTERS[0].help),
    (CPU_COUNTERS[1].name, CPU_COUNTERS[1].help),
    ("counting_ns", "time on a CPU in which one of these was to be counted"),
    (
        "counted_ns",
        "of it, time in which the CPU did count: if it is less, for others use the counters too, a number times \
         counting_ns / counted_ns is an estimate",
    ),
];

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
            "foreign_requests_total",
            "foreign_bytes_total",
            "carried_queue_seconds",
            "carried_device_seconds",
        ];
        assert_eq!(keys, expected);
        assert!(FOREIGN.iter().all(|key| expected.contains(key)));
        let slots: Vec<String> = block.fields.iter().map(Field::slot).collect();
        assert_eq!(
            slots,
            [
                "requests",
                "transferred_bytes",
                "carried_bytes",
                "written_bytes",
                "queue_ns",
                "device_ns",
                "foreign_requests",
                "foreign_bytes",
                "carried_queue_ns",
                "carried_device_ns"
            ]
        );
    }

    #[test]
    fn counters_have_a_number_in_the_head_and_a_bit_of_their_own() {
        for counter in CPU_COUNTERS {
            assert!(HEAD.contains(&(counter.name, counter.help)), "{}", counter.name);
            assert!(Subsystem::named(counter.name).is_none(), "{}", counter.name);
        }
        assert_eq!(CpuCounter::bits(), 0b11 << PARTS);
    }

    #[test]
    fn the_remainder_comes_first_and_a_set_has_room_for_all() {
        assert_eq!(SUBSYSTEMS[0].name, "kernel");
        const { assert!(PARTS + CPU_COUNTERS.len() <= 64) };
    }
}
