//! The parts of the kernel that a system call's cost is split into, declared once.
//!
//! Derived from [`SUBSYSTEMS`] and [`LATER`]: the structure that BPF programs, libweigh and weigh
//! share ([`c_header`], [`Account`]), the options of `weigh calls`, columns, JSON keys, Python attributes, and
//! docs/calls.md. A new field is one line here, and one in the program that counts it.

mod account;
mod field;
mod header;
mod layout;
mod lookup;
mod on_request;
mod part;
mod table;

pub use account::Account;
pub use field::Field;
pub use header::c_header;
pub use layout::{HEAD, account_length, generation_at, pending_at};
pub use lookup::later_part;
pub use on_request::{COUNTED_RATIO, CPU_COUNTERS, CpuCounter};
pub use part::Subsystem;
pub use table::{FOREIGN, LATER, LaterNumbers, PART, PARTS, SUBSYSTEMS};

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
