//! How many instructions the kernel verifies as an object is loaded: most of what a start takes, for code that many
//! programs share is verified in each of them, along each way that leads there. Held to the kernel's own figures.

use std::collections::BTreeMap;

use crate::support::run::{Scratch, weigh};

/// Some more than Linux 6.18 had to verify when this was written: 17,656, 87,154, 136,860 and 141.
const MOST: [(&str, &[&str], u64); 4] = [
    ("run", &["run", "-q"], 19_000),
    ("io", &["io"], 89_000),
    ("calls", &["calls"], 147_000),
    ("trace", &["trace", "-e", "sched:sched_switch"], 200),
];

/// The command looks at the descriptors of its parent: `weigh`, with its programs loaded and attached.
const LOOK: &str = "cat /proc/$PPID/fdinfo/* >programs 2>/dev/null; :";

/// Of each program by its number: the kernel may have been asked for one by two descriptors.
fn verified(fdinfo: &str) -> BTreeMap<u64, u64> {
    let mut programs = BTreeMap::new();
    let mut number: Option<u64> = None;
    for line in fdinfo.lines() {
        let value = line.split_once(':').and_then(|(_, value)| value.trim().parse().ok());
        if line.starts_with("prog_id:") {
            number = value;
        } else if line.starts_with("verified_insns:") {
            programs.extend(number.zip(value));
        }
    }
    programs
}

#[test]
fn an_object_has_no_more_to_verify_than_it_had() {
    needs_root!();
    for (object, options, most) in MOST {
        let scratch = Scratch::new();
        let output = weigh(&scratch, &[options, &["--", "sh", "-c", LOOK]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        let programs = verified(&scratch.text("work/programs"));
        let instructions: u64 = programs.values().sum();
        println!("{object}: {instructions} in {} programs", programs.len());
        assert!(programs.len() >= 4 && instructions > most / 10, "{object}: {programs:?} {said}");
        assert!(instructions <= most, "{object}: {instructions} of at most {most}");
    }
}
