//! What columns of the page share: times since the job's start, and texts that are kept once.

use std::collections::HashMap;

/// Seconds since the start, to the microsecond: what a page can show, and short in JSON.
pub(super) fn seconds_since(start_ns: i64, time_ns: i64) -> f64 {
    (time_ns.saturating_sub(start_ns) as f64 / 1e3).round() / 1e6
}

/// Texts that are kept once and pointed to.
#[derive(Default)]
pub(super) struct Texts {
    index: HashMap<String, u32>,
    texts: Vec<String>,
}

impl Texts {
    pub(super) fn add(&mut self, text: &str) -> u32 {
        if let Some(index) = self.index.get(text) {
            return *index;
        }
        let index = self.texts.len() as u32;
        self.index.insert(text.to_string(), index);
        self.texts.push(text.to_string());
        index
    }

    pub(super) fn into_list(self) -> Vec<String> {
        self.texts
    }
}
