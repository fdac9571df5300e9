//! The parts of the kernel that a system call's cost is split into, declared once.
//!
//! Derived from [`SUBSYSTEMS`] and [`LATER`]: the structure that BPF programs, libweigh and weigh
//! share ([`c_header`], [`Account`]), the options of `weigh calls`, columns, JSON keys, Python attributes, and
//! docs/calls.md. A new field is one line here, and one in the program that counts it.

mod account;
mod by_part;
mod field;
mod header;
mod layout;
mod lookup;
mod on_request;
mod part;
mod table;

pub use account::Account;
pub use by_part::{PartCounts, part_counts_length};
pub use field::{Field, Merge};
pub use header::c_header;
pub use layout::{HEAD, account_length, generation_at, pending_at};
pub use lookup::later_part;
pub use on_request::{COUNTED_RATIO, CPU_COUNTERS, CpuCounter, ON_REQUEST_BY_PART};
pub use part::Subsystem;
pub use table::{BY_PART, FOREIGN, LATER, LaterNumbers, PART, PARTS, SUBSYSTEMS};

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
            "issued_total",
            "in_flight_total",
            "in_flight_most",
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
                "carried_device_ns",
                "issued",
                "in_flight",
                "in_flight_most"
            ]
        );
    }

    #[test]
    fn a_state_has_a_number_behind_it_that_says_whether_it_was_seen() {
        let mut states = 0;
        for part in SUBSYSTEMS {
            for (place, field) in part.fields.iter().enumerate() {
                let Merge::Latest { seen } = field.merge else { continue };
                let at = part.fields.iter().position(|other| other.name == seen);
                assert!(at.is_some_and(|at| at > place), "{}: {}", part.name, field.name);
                states += 1;
            }
        }
        assert_eq!(states, layout::states().filter(|(_, seen)| seen.is_some()).count());
        assert!(states > 0);
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
        const { assert!(PARTS + CPU_COUNTERS.len() < 64) };
    }
}
