//! What a report of `weigh io` says of a file, for tests that hold it to what was done.

use std::path::Path;

use serde_json::Value;

use super::run::Scratch;

/// Shell: waits until `access wait`, the last one in the background, has read its 100 bytes.
pub const HAS_READ: &str =
    "until grep -qs '^pos:[[:space:]]*100$' /proc/$!/fdinfo/*; do sleep 0.02; done";

/// Bytes of [`source`].
pub const BYTES: u64 = 1_000_003;

/// The rows of the file of that name.
pub fn rows<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    report["files"].as_array().expect("files").iter().filter(|row| row["name"] == name).collect()
}

/// The only one.
#[track_caller]
pub fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rows = rows(report, name);
    assert_eq!(rows.len(), 1, "{name} in {report}");
    rows[0]
}

/// A number of a row, 0 if it is not there.
pub fn number(row: &Value, key: &str) -> u64 {
    row["numbers"][key].as_u64().unwrap_or(0)
}

/// Read bytes and calls, written bytes and calls, of a kind.
pub fn moved(row: &Value, kind: &str) -> [u64; 4] {
    let of = |key: &str| row["by_kind"][kind][key].as_u64().unwrap_or(0);
    [of("read_bytes"), of("read_calls"), of("written_bytes"), of("write_calls")]
}

/// What the kernel itself has counted is what was seen, and what programs took to start.
#[track_caller]
pub fn is_whole(report: &Value) {
    let of = |who: &str, key: &str| report["witness"][who][key].as_u64().expect("a number");
    for key in ["read_bytes", "read_calls", "written_bytes", "write_calls"] {
        let known = of("seen", key) + of("start", key);
        assert_eq!(of("kernel", key), known, "{key}: {}, {}", report["witness"], report["notes"]);
    }
    assert!(report.get("rest").is_none(), "{}", report["rest"]);
    // What is sent past a library by system calls of a program's own, nobody counts, and nobody knows. A tracer beside it
    // may have counted all.
    let notes: Vec<&Value> = report["notes"].as_array().into_iter().flatten().collect();
    let is_past =
        |note: &&Value| text_of(note).ends_with("neither the library nor the kernel counts it");
    let is_by_library = match text_of(&report["mechanism"]) {
        "preload+ptrace" => !notes.is_empty(),
        mechanism => mechanism == "preload",
    };
    let expected = if is_by_library { (1, Some("estimated")) } else { (0, None) };
    let found = (notes.iter().filter(|note| is_past(note)).count(), report["quality"].as_str());
    assert_eq!((found, notes.len()), (expected, expected.0), "{notes:?}");
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A path as reports have it.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A file to read, of odd length.
pub fn source(scratch: &Scratch) -> String {
    let path = scratch.path("work/source");
    std::fs::write(&path, vec![7; BYTES as usize]).expect("a file");
    text(&path)
}
