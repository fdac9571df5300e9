//! What libbpf has to say when something does not load: kept, to go with the error, rather than
//! printed into the measured program's terminal.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::PrintLevel;

/// Lines kept; the end of a verifier's log is what says why.
const KEPT: usize = 12;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Begins to keep what libbpf says.
pub(crate) fn collect() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| add(&text))));
}

/// Keeps what the kernel says.
pub(crate) fn add(text: &str) {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.extend(text.lines().map(str::to_string));
    let surplus = lines.len().saturating_sub(KEPT);
    lines.drain(..surplus);
}

/// What was said last, to follow an error; then forgotten.
pub(crate) fn last_words() -> String {
    let lines = std::mem::take(&mut *LINES.lock().unwrap_or_else(PoisonError::into_inner));
    lines.iter().map(|line| format!("\n  {line}")).collect()
}
