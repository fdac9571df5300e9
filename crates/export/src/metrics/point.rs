//! One value for exporters.

use std::sync::Arc;

use weigh_schema::{Metric, Number, Quality};

use super::scope_label::ScopeLabels;

/// A value with what it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The metric's declaration.
    pub metric: &'static Metric,
    /// Its scope.
    pub scope: Arc<ScopeLabels>,
    /// Its value: finite, and of counters not negative.
    pub value: Number,
    /// How far it can be trusted.
    pub quality: Quality,
}
