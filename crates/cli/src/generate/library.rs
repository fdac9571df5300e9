//! The sources of libweigh that follow from the schema.

use weigh_schema::library;
use weigh_schema::own::OWN_NUMBERS;
use weigh_schema::ring;
use weigh_schema::subsystem::{
    CPU_COUNTERS, CpuCounter, Field, HEAD, LATER, PART, PARTS, SUBSYSTEMS,
};

/// A file below `libweigh/`, and how its text is made; the repository holds a copy of each.
pub type Source = (&'static str, fn() -> String);

/// All of them.
pub const SOURCES: &[Source] = &[
    ("weigh_account.h", library::public_header),
    ("src/page.h", library::page_header),
    ("src/ring.h", ring::header),
    ("weigh_event.h", weigh_trace::kind::header),
    ("python/weigh/_fields.py", fields),
    ("rust/src/account.rs", super::library_rust::account),
    ("rust/src/event.rs", weigh_trace::kind::rust),
];

const CLASS: &str = "

class {name}(_Numbers):
    \"\"\"{help}.\"\"\"

    __slots__ = ()
";

/// Classes with a property for each number of an account, in base units.
fn fields() -> String {
    let mut text = String::from(
        "\"\"\"Numbers of an account. Derived from crates/schema by `weigh generate`.\"\"\"\n\n\
         from __future__ import annotations\n\nfrom typing import Protocol\n\n\n\
         class _Source(Protocol):\n    def _number(self, index: int) -> int: ...\n\n\n\
         class _Numbers:\n    __slots__ = (\"_of\",)\n\n    def __init__(self, of: _Source) -> None:\n        \
         self._of = of\n",
    );
    let head = |name: &str| HEAD.iter().position(|(n, _)| *n == name).unwrap_or(0);
    let mut at = HEAD.len() + PARTS * PART.len();
    for (index, subsystem) in SUBSYSTEMS.iter().enumerate() {
        let class = CLASS
            .replace("{name}", &class_name(subsystem.name))
            .replace("{help}", &sentence(subsystem.help));
        text.push_str(&class);
        for (offset, field) in PART.iter().enumerate() {
            property(&mut text, field, HEAD.len() + index * PART.len() + offset);
        }
        for field in subsystem.fields {
            property(&mut text, field, at);
            at += 1;
        }
    }
    // Those of configurations come in between.
    at += OWN_NUMBERS;
    let help = "What came after the calls";
    text.push_str(&CLASS.replace("{name}", "Later").replace("{help}", help));
    for field in LATER {
        property(&mut text, field, at);
        at += 1;
    }
    let counter =
        |c: &CpuCounter| format!("    \"{}\": ({}, {}),\n", c.name, head(c.name), c.index());
    let counters: Vec<String> = CPU_COUNTERS.iter().map(counter).collect();
    text.push_str(&format!(
        "\n\nLAYOUT = {:#018x}\nWORDS = {at}\nTOUCHED = {}\nUNMEASURED = {}\nCALLS = {}\nTIME = {}\n\
         COUNTING = {}\nCOUNTED = {}\n\
         #: Counters of the CPU: the place of each in an account, and of its bit in a set.\nCOUNTERS = {{\n{}}}\n\
         #: The parts of the kernel; the bit of each is 1 << its place.\nSUBSYSTEMS = (\n",
        library::layout(),
        head("touched"),
        head("unmeasured"),
        head("calls"),
        head("time_ns"),
        head("counting_ns"),
        head("counted_ns"),
        counters.concat()
    ));
    for subsystem in SUBSYSTEMS {
        text.push_str(&format!("    \"{}\",\n", subsystem.name));
    }
    text.push_str(")\n\n\nclass Parts:\n    \"\"\"The parts of the kernel, of one account.\"\"\"\n\n    __slots__ = ()\n\n    def _number(self, index: int) -> int:\n        raise NotImplementedError\n");
    for subsystem in SUBSYSTEMS {
        text.push_str(&format!(
            "\n    @property\n    def {}(self) -> {1}:\n        \"\"\"{2}.\"\"\"\n        return {1}(self)\n",
            subsystem.name,
            class_name(subsystem.name),
            sentence(subsystem.help)
        ));
    }
    text.push_str(
        "\n    @property\n    def later(self) -> Later:\n        \"\"\"What came after the calls.\"\"\"\n        return Later(self)\n",
    );
    text
}

fn property(text: &mut String, field: &Field, index: usize) {
    let (kind, value) = match field.in_base_unit(1_000_000_000) {
        1.0 => ("float", format!("self._of._number({index}) / 1e9")),
        _ => ("int", format!("self._of._number({index})")),
    };
    text.push_str(&format!(
        "\n    @property\n    def {}(self) -> {kind}:\n        \"\"\"{}.\"\"\"\n        return {value}\n",
        field.key(),
        sentence(field.help)
    ));
}

fn class_name(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

fn sentence(help: &str) -> String {
    help[..1].to_uppercase() + &help[1..]
}
