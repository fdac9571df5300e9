//! The types of libweigh's Rust crate that follow from the schema.

use std::fmt::Write as _;

use super::messages::Reason;
use super::page::layout;
use crate::custom_subsystem::OWN_NUMBERS;
use crate::subsystem::{
    BY_PART, CPU_COUNTERS, CpuCounter, Field, HEAD, LATER, ON_REQUEST_BY_PART, PART, PARTS,
    SUBSYSTEMS,
};

/// `rust/src/account.rs`.
pub fn rust_account() -> String {
    let mut text = String::from(
        "//! Numbers of an account. Derived from crates/schema by `weigh generate`.\n\nuse crate::Number;\n\n",
    );
    let _ = writeln!(
        text,
        "/// What libweigh says if it lays an account out in the same way.\n\
         pub(crate) const LAYOUT: u64 = {:#018x};\n",
        layout()
    );
    let parts = SUBSYSTEMS.iter().map(|s| (s.help, camel(s.name)));
    enumeration(&mut text, "Subsystem", "A part of the kernel.", parts);
    text.push_str(
        "impl Subsystem {\n    /// The set that holds it alone.\n    pub fn bit(self) -> u64 {\n        \
         1 << self as u32\n    }\n}\n\n",
    );
    text.push_str(
        "/// A counter of the CPU.\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n#[repr(u32)]\n\
         pub enum Counter {\n",
    );
    for counter in CPU_COUNTERS {
        let (help, member) = (sentence(counter.help), camel(counter.name));
        let _ = writeln!(text, "    /// {help}\n    {member} = {},", counter.index());
    }
    text.push_str("}\n\n");
    let _ =
        writeln!(text, "/// All of them.\npub const COUNTERS: u64 = {:#x};\n", CpuCounter::bits());
    let _ = writeln!(
        text,
        "/// With parts, and counters: allocations, and these counters, of each part.\n\
         pub const BY_PART: u64 = {ON_REQUEST_BY_PART:#x};\n"
    );
    let _ = writeln!(
        text,
        "/// All parts of the kernel; of some of them: `Subsystem::Block.bit() | Subsystem::Sched.bit()`.\npub const ALL: u64 = {:#x};\n",
        (1u64 << PARTS) - 1
    );
    text.push_str(
        "impl Counter {\n    /// The set that holds it alone.\n    pub fn bit(self) -> u64 {\n        \
         1 << self as u32\n    }\n}\n\nimpl Account {\n    /// As it was counted, all the time or a part of it.\n    \
         pub(crate) fn raw_counter(&self, counter: Counter) -> &Number {\n        match counter {\n",
    );
    for counter in CPU_COUNTERS {
        let _ = writeln!(
            text,
            "            Counter::{} => &self.{},",
            camel(counter.name),
            counter.name
        );
    }
    text.push_str("        }\n    }\n}\n\n");
    let reasons = Reason::ALL.iter().map(|r| (r.text(), format!("{r:?}")));
    enumeration(&mut text, "Reason", "Why something is not measured.", reasons);
    text.push_str(
        "impl Reason {\n    pub(crate) fn numbered(number: u32) -> Option<Reason> {\n        \
         Some(match number {\n",
    );
    for reason in Reason::ALL {
        let _ = writeln!(text, "            {} => Reason::{reason:?},", *reason as u32);
    }
    text.push_str("            _ => return None,\n        })\n    }\n}\n\n");
    structure(&mut text, "Part", "Time and entries of one part.", PART);
    let help = "What is known of a part on request: [`BY_PART`].";
    structure(&mut text, "ByPart", help, BY_PART);
    let _ = writeln!(
        text,
        "/// Numbers of each part.\n#[derive(Debug)]\n#[repr(C)]\npub struct Parts {{\n    \
         /// By the number of [`Subsystem`].\n    pub of: [ByPart; {PARTS}],\n}}\n"
    );
    for subsystem in SUBSYSTEMS.iter().filter(|s| !s.fields.is_empty()) {
        structure(&mut text, &camel(subsystem.name), &sentence(subsystem.help), subsystem.fields);
    }
    structure(&mut text, "Later", "What came after the calls.", LATER);
    text.push_str("/// An account.\n#[derive(Debug)]\n#[repr(C)]\npub struct Account {\n");
    for (name, help) in HEAD {
        let _ = writeln!(text, "    /// {}\n    pub {name}: Number,", sentence(help));
    }
    let _ =
        writeln!(text, "    /// By the number of [`Subsystem`].\n    pub parts: [Part; {PARTS}],");
    for subsystem in SUBSYSTEMS.iter().filter(|s| !s.fields.is_empty()) {
        let (name, help) = (subsystem.name, sentence(subsystem.help));
        let _ = writeln!(text, "    /// {help}\n    pub {name}: {},", camel(name));
    }
    let _ = writeln!(
        text,
        "    /// Of parts that a configuration defines.\n    pub own: [Number; {OWN_NUMBERS}],\n    \
         /// What came after the calls.\n    pub later: Later,\n}}"
    );
    text
}

fn enumeration(
    text: &mut String,
    name: &str,
    help: &str,
    members: impl Iterator<Item = (&'static str, String)>,
) {
    let _ = writeln!(
        text,
        "/// {help}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n#[repr(u32)]\npub enum {name} {{"
    );
    for (number, (help, member)) in members.enumerate() {
        let _ = writeln!(text, "    /// {}\n    {member} = {number},", sentence(help));
    }
    text.push_str("}\n\n");
}

fn structure(text: &mut String, name: &str, help: &str, fields: &[Field]) {
    let _ = writeln!(text, "/// {help}\n#[derive(Debug)]\n#[repr(C)]\npub struct {name} {{");
    for field in fields {
        let _ =
            writeln!(text, "    /// {}\n    pub {}: Number,", sentence(field.help), field.slot());
    }
    text.push_str("}\n\n");
}

fn camel(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

fn sentence(help: &str) -> String {
    let dot = if help.ends_with('.') { "" } else { "." };
    help[..1].to_uppercase() + &help[1..] + dot
}
