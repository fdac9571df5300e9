//! The structure that BPF programs, libweigh and weigh share, written as C from the declarations.

use std::fmt::Write as _;

use super::field::Field;
use super::layout::HEAD;
use super::lookup::later_part;
use super::on_request::{CPU_COUNTERS, CpuCounter};
use super::part::Subsystem;
use super::table::{LATER, PART, PARTS, SUBSYSTEMS};
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
    let _ = writeln!(text, "#define WEIGH_OWN_NUMBERS {OWN_NUMBERS}\n");
    structure(&mut text, "weigh_part", PART, &|_| None);
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
    text.push_str("\tstruct weigh_later later;\n};\n\n#endif\n");
    text
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
