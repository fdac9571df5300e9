//! A rule, and what it finds.

use weigh_schema::Number;

use super::file::File;

/// A rule.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// When it speaks.
    pub threshold: &'static str,
    /// Why that is the threshold, and what to do.
    pub reason: &'static str,
    pub(super) apply: fn(&File) -> Option<Finding>,
}

/// What a rule found.
pub(super) struct Finding {
    /// What was seen and what to do; the file is named before it.
    pub(super) text: String,
    pub(super) seconds: f64,
    pub(super) figures: Vec<(&'static str, Number)>,
}
