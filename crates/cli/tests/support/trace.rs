//! What runs of `weigh trace` leave: events, and what was said of them.

use std::process::Output;

use serde_json::Value;

use super::run::{Scratch, weigh};

/// What weigh said of a run that went well.
#[track_caller]
pub fn succeeds(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    said
}

/// The events of a .jsonl file.
#[track_caller]
pub fn lines(scratch: &Scratch, name: &str) -> Vec<Value> {
    let text = scratch.text(name);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// `weigh: N events in … s, M lost`, or of several buffers `weigh: N records into B buffers in … s, M lost`
#[track_caller]
pub fn counted(said: &str) -> (u64, u64) {
    let line = said.lines().find(|line| line.starts_with("weigh: ") && line.ends_with(" lost"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |n: usize| words[n].parse().unwrap_or_else(|_| panic!("{line}"));
    (number(1), number(words.len() - 2))
}

/// Holds refusals to what they are to say: options, and words; the command is not started.
#[track_caller]
pub fn are_refused(scratch: &Scratch, cases: &[(&[&str], &[&str])]) {
    for (options, words) in cases {
        let arguments = [&["trace"][..], options, &["--", "touch", "ran"]].concat();
        let output = weigh(scratch, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
        for word in *words {
            assert!(said.contains(word), "{options:?} lacks {word:?}: {said}");
        }
        assert!(!scratch.path("work/ran").exists(), "{options:?} started the command");
    }
}
