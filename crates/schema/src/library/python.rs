//! The fields of libweigh's Python package that follow from the schema.

use super::messages::Reason;
use super::page::{account_on_page, layout, wanted_at};
use crate::custom_subsystem::OWN_NUMBERS;
use crate::subsystem::{
    BY_PART, CPU_COUNTERS, CpuCounter, Field, HEAD, LATER, Merge, ON_REQUEST_BY_PART, PART, PARTS,
    SUBSYSTEMS, Subsystem, later_part, part_counts_length,
};
use crate::unit::Unit;

const CLASS: &str = "

class {name}(_Numbers):
    \"\"\"{help}.\"\"\"

    __slots__ = ()
";

const LATER_REPR: &str = "
    def __repr__(self) -> str:
        numbers = super().__repr__()
        return f\"{numbers[:-1]}; each is at least so much>\" if self.lost_total else numbers
";

const PARTS_CLASS: &str = "

class Parts:
    \"\"\"The parts of the kernel, of one account. What is not known of them is None.\"\"\"

    __slots__ = ()

    def _count(self, index: int, parts: int) -> Optional[int]:
        raise NotImplementedError

    def _seconds(self, index: int, parts: int) -> Optional[float]:
        raise NotImplementedError

    def _later_count(self, index: int, parts: int) -> Optional[int]:
        raise NotImplementedError

    def _later_seconds(self, index: int, parts: int) -> Optional[float]:
        raise NotImplementedError
";

/// `python/weigh/_fields.py`: classes with a property for each number of an account, in base units.
pub fn python_fields() -> String {
    let mut text = String::from(
        "\"\"\"Numbers of an account. Derived from crates/schema by `weigh generate`.\"\"\"\n\n\
         from __future__ import annotations\n\nimport enum\nfrom typing import Optional, Protocol\n\n\n\
         class _Source(Protocol):\n    def _count(self, index: int, parts: int) -> Optional[int]: ...\n\n    \
         def _seconds(self, index: int, parts: int) -> Optional[float]: ...\n\n    \
         def _later_count(self, index: int, parts: int) -> Optional[int]: ...\n\n    \
         def _later_seconds(self, index: int, parts: int) -> Optional[float]: ...\n\n\n\
         class _Numbers:\n    __slots__ = (\"_of\",)\n\n    def __init__(self, of: _Source) -> None:\n        \
         self._of = of\n\n    def __repr__(self) -> str:\n        \
         names = [name for name in vars(type(self)) if not name.startswith(\"_\")]\n        \
         numbers = \" \".join(f\"{name}={getattr(self, name)}\" for name in names)\n        \
         return f\"<weigh.{type(self).__name__} {numbers}>\"\n",
    );
    let head = |name: &str| HEAD.iter().position(|(n, _)| *n == name).unwrap_or(0);
    let mut at = HEAD.len() + PARTS * PART.len();
    for (index, subsystem) in SUBSYSTEMS.iter().enumerate() {
        let class = CLASS
            .replace("{name}", &class_name(subsystem.name))
            .replace("{help}", &sentence(subsystem.help));
        text.push_str(&class);
        for (offset, field) in PART.iter().enumerate() {
            property(
                &mut text,
                field,
                HEAD.len() + index * PART.len() + offset,
                Some(subsystem),
                "",
            );
        }
        for field in subsystem.fields {
            property(&mut text, field, at, Some(subsystem), "");
            at += 1;
        }
    }
    // Those of configurations come in between.
    let help = "What is known of a part on request: by_part=True";
    text.push_str(&CLASS.replace("{name}", "ByPart").replace("{help}", help));
    for (offset, field) in BY_PART.iter().enumerate() {
        let needed = CpuCounter::named(field.name).map_or_else(memory, CpuCounter::bit);
        property_known_by(&mut text, field, offset, ON_REQUEST_BY_PART | needed);
    }
    let own = at;
    at += OWN_NUMBERS;
    let help = "What came after the calls";
    text.push_str(&CLASS.replace("{name}", "Later").replace("{help}", help));
    text.push_str(LATER_REPR);
    let (mut lost, mut later_parts) = (at, 0);
    for field in LATER {
        let part = later_part(field);
        // What is pending or lost is of no part, and is no sum that a loss makes too small.
        property(&mut text, field, at, part, if part.is_some() { "_later" } else { "" });
        later_parts |= part.map_or(0, |part| part.bit());
        lost = if field.name == "lost" { at } else { lost };
        at += 1;
    }
    let counter =
        |c: &CpuCounter| format!("    \"{}\": ({}, {}),\n", c.name, head(c.name), c.index());
    let counters: Vec<String> = CPU_COUNTERS.iter().map(counter).collect();
    text.push_str(&format!(
        "\n\nLAYOUT = {:#018x}\nPARTS = {}\nPART = {}\nBY_PART = {}\nBY_PART_WORDS = {}\nON_REQUEST_BY_PART = {:#x}\nOWN = {own}\nOWN_NUMBERS = {OWN_NUMBERS}\n\
         FIRST_OWN = {}\nLAST_OWN = {}\nWORDS = {}\nWANTED = {}\nTOUCHED = {}\nUNMEASURED = {}\nCALLS = {}\nTIME = {}\n\
         COUNTING = {}\nCOUNTED = {}\nLOST = {lost}\n\
         #: The parts that what comes later is of.\nLATER_PARTS = {later_parts:#x}\n\
         #: Counters of the CPU: the place of each in an account, and of its bit in a set.\nCOUNTERS = {{\n{}}}\n\
         #: The parts of the kernel; the bit of each is 1 << its place.\nSUBSYSTEMS = (\n",
        layout(),
        HEAD.len(),
        PART.len(),
        BY_PART.len(),
        part_counts_length(),
        ON_REQUEST_BY_PART,
        SUBSYSTEMS.len(),
        PARTS - 1,
        account_on_page(),
        wanted_at(),
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
    text.push_str(")\n\n\nclass Reason(enum.IntEnum):\n    \"\"\"Why something is not measured, as libweigh numbers it.\"\"\"\n\n");
    for reason in Reason::ALL {
        let name = reason.c_name().trim_start_matches("WEIGH_");
        text.push_str(&format!("    {name} = {}\n", *reason as u32));
    }
    text.push_str(PARTS_CLASS);
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

/// What tells of allocations.
fn memory() -> u64 {
    Subsystem::named("memory").map_or(0, Subsystem::bit)
}

/// A number that is known where these parts were looked into.
fn property_known_by(text: &mut String, field: &Field, index: usize, parts: u64) {
    property_read(text, field, "", &format!("_of.{}({index}, {parts:#x})", reader(field)));
}

fn reader(field: &Field) -> &'static str {
    if field.unit == Unit::Seconds { "_seconds" } else { "_count" }
}

fn property_read(text: &mut String, field: &Field, seen: &str, number: &str) {
    let kind = if field.unit == Unit::Seconds { "float" } else { "int" };
    text.push_str(&format!(
        "\n    @property\n    def {}(self) -> Optional[{kind}]:\n        \"\"\"{}.\"\"\"\n        \
         {seen}return self.{number}\n",
        field.key(),
        sentence(field.help)
    ));
}

/// With the parts that have to be looked into for it to be known; `when` is of the name of what reads it.
fn property(text: &mut String, field: &Field, index: usize, of: Option<&Subsystem>, when: &str) {
    let parts = field.takes(of).fold(0, |set, part| set | part.bit());
    // A state that was not seen is not known, whatever was looked into.
    let seen = match field.merge {
        Merge::Latest { seen } => of.and_then(|of| {
            let key = of.fields.iter().find(|other| other.name == seen)?.key();
            Some(format!("if not self.{key}:\n            return None\n        "))
        }),
        _ => None,
    };
    let number = format!("_of.{when}{}({index}, {parts:#x})", reader(field));
    property_read(text, field, &seen.unwrap_or_default(), &number);
}

fn class_name(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

fn sentence(help: &str) -> String {
    help[..1].to_uppercase() + &help[1..]
}
