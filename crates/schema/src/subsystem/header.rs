//! The structure that BPF programs, libweigh and weigh share, written as C from the declarations.

use std::fmt::Write as _;

use super::field::Field;
use super::layout::{HEAD, states};
use super::lookup::later_part;
use super::on_request::{CPU_COUNTERS, CpuCounter, ON_REQUEST_BY_PART};
use super::part::Subsystem;
use super::table::{BY_PART, LATER, PART, PARTS, SUBSYSTEMS};
use crate::custom_subsystem::OWN_NUMBERS;

/// The structure that all sides share, as C: for BPF programs, libweigh, and programs that include it.
pub fn c_header() -> String {
    let mut text = String::from(
        "/* Derived from crates/schema/src/subsystem/table.rs by `weigh generate`. */\n\
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
    text.push_str(
        "/* Counters of the CPU, in the same sets behind the parts; not in WEIGH_ALL. */\n\
         enum weigh_counter {\n",
    );
    for counter in CPU_COUNTERS {
        let _ = writeln!(text, "\tWEIGH_{} = {},", counter.name.to_uppercase(), counter.index());
    }
    let _ = writeln!(
        text,
        "}};\n\n#define WEIGH_FIRST_COUNTER {PARTS}\n#define WEIGH_COUNTERS {:#x}ULL\n",
        CpuCounter::bits()
    );
    let _ = writeln!(
        text,
        "/* In the same sets: allocations, and the counters that are asked for, of each part. */\n\
         #define WEIGH_BY_PART {ON_REQUEST_BY_PART:#x}ULL\n"
    );
    let _ = writeln!(text, "#define WEIGH_OWN_NUMBERS {OWN_NUMBERS}\n");
    structure(&mut text, "weigh_part", PART, &|_| None);
    text.push_str("/* On request: WEIGH_BY_PART. */\n");
    structure(&mut text, "weigh_by_part", BY_PART, &|_| None);
    text.push_str(
        "/* Beside an account that wants it. */\nstruct weigh_parts {\n\
         \tstruct weigh_by_part of[WEIGH_SUBSYSTEMS]; /* by number */\n};\n\n",
    );
    for subsystem in SUBSYSTEMS.iter().filter(|s| !s.fields.is_empty()) {
        structure(&mut text, &format!("weigh_{}", subsystem.name), subsystem.fields, &|_| None);
    }
    text.push_str("/* What came after the calls: each number is known where the part behind it was asked for. */\n");
    structure(&mut text, "weigh_later", LATER, &later_part);
    text.push_str("struct weigh_account {\n");
    for (name, help) in HEAD {
        let _ = writeln!(text, "\tWEIGH_U64 {name}; /* {help} */");
    }
    text.push_str("\tstruct weigh_part parts[WEIGH_SUBSYSTEMS]; /* by number */\n");
    for subsystem in SUBSYSTEMS.iter().filter(|s| !s.fields.is_empty()) {
        let _ = writeln!(text, "\tstruct weigh_{0} {0};", subsystem.name);
    }
    text.push_str("\tWEIGH_U64 own[WEIGH_OWN_NUMBERS]; /* by the configuration */\n");
    text.push_str("\tstruct weigh_later later;\n};\n\n");
    text.push_str(&state_macros());
    text.push_str("#endif\n");
    text
}

/// How accounts are added up, where that is not by sums.
fn state_macros() -> String {
    let (mut greatest, mut latest) = (String::new(), String::new());
    for (place, seen) in states() {
        let _ = match seen {
            None => write!(greatest, " || (place) == {place}"),
            Some(seen) => write!(latest, " : (place) == {place} ? {seen}"),
        };
    }
    format!(
        "/* Numbers that are no sums, by their places in an account: of several the greatest holds, or the latest that was\n \
         * seen, which a number behind it says: its place, else 0. */\n\
         #define WEIGH_IS_GREATEST(place) (0{greatest})\n\
         #define WEIGH_LATEST_SEEN(place) (0 ? 0{latest} : 0)\n\n"
    )
}

/// With the part that each number is of, where the structure is not one part's.
fn structure(
    text: &mut String,
    name: &str,
    fields: &[Field],
    part_of: &dyn Fn(&Field) -> Option<&'static Subsystem>,
) {
    let _ = writeln!(text, "struct {name} {{");
    for field in fields {
        let part = part_of(field).map_or_else(String::new, |part| format!(" [{}]", part.name));
        let _ = writeln!(text, "\tWEIGH_U64 {}; /* {}{part} */", field.slot(), field.help);
    }
    text.push_str("};\n\n");
}
