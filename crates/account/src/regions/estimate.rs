//! Times of regions in ticks: as they were added up, or, where not all calls were timed, what they add up to most likely.

use weigh_schema::Quality;
use weigh_schema::profile::NodeKind;
use weigh_schema::region::snapshot::{ProfileNode, ProfileSnapshot};

/// Times of one node, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub inclusive: f64,
    pub exclusive: f64,
    /// The standard error of the inclusive time, where it is an estimate.
    pub error: Option<f64>,
    /// Whether not all calls were timed, of the node or of what is in it.
    pub is_sampled: bool,
}

impl Estimate {
    pub fn quality(&self, node: &ProfileNode) -> Quality {
        match (node.is_unsettled, self.is_sampled) {
            (true, _) => Quality::Estimated,
            (_, true) => Quality::Sampled,
            _ => Quality::Exact,
        }
    }
}

/// Those of all nodes, by number.
pub(super) fn estimates(snapshot: &ProfileSnapshot) -> Vec<Estimate> {
    let of_node = |node: &Option<ProfileNode>| node.as_ref().map(alone).unwrap_or_default();
    let mut estimates: Vec<Estimate> = snapshot.nodes.iter().map(of_node).collect();
    // What children take more than was timed of them stands in the exclusive time of their parents.
    let mut beyond = vec![0.0; estimates.len()];
    let mut inside = vec![0.0; estimates.len()];
    for (number, node) in snapshot.nodes.iter().enumerate() {
        let Some(node) = node.filter(|node| node.parent != number && is_inside(node.kind)) else {
            continue;
        };
        let estimate = estimates[number];
        inside[node.parent] += estimate.inclusive;
        if estimate.error.is_some() {
            beyond[node.parent] += estimate.inclusive - node.numbers.inclusive as f64;
            estimates[node.parent].is_sampled = true;
        }
    }
    for (number, estimate) in estimates.iter_mut().enumerate() {
        estimate.exclusive = match estimate.error {
            Some(_) => estimate.inclusive - inside[number],
            None => estimate.exclusive - beyond[number],
        };
        estimate.exclusive = estimate.exclusive.max(0.0);
    }
    estimates
}

/// Whether its time is taken from its parent's.
fn is_inside(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Region | NodeKind::Phase)
}

/// Without what its children say.
fn alone(node: &ProfileNode) -> Estimate {
    let numbers = &node.numbers;
    let is_region = is_inside(node.kind) || node.kind == NodeKind::Range;
    if !is_region {
        return Estimate::default();
    }
    let (inclusive, exclusive) = (numbers.inclusive as f64, numbers.exclusive as f64);
    let untimed = numbers.calls.saturating_sub(numbers.timed) as f64;
    if untimed == 0.0 || numbers.timed == 0 {
        return Estimate { inclusive, exclusive, error: None, is_sampled: untimed > 0.0 };
    }
    let mean = mean_since_braked(node);
    Estimate {
        inclusive: inclusive + untimed * mean,
        exclusive,
        error: Some(standard_error(node, mean, untimed)),
        is_sampled: true,
    }
}

/// A program may write what is no number.
fn squares(node: &ProfileNode) -> f64 {
    Some(node.numbers.squares).filter(|sum| sum.is_finite() && *sum >= 0.0).unwrap_or(0.0)
}

/// Calls that were timed since it was braked.
fn sample(node: &ProfileNode) -> f64 {
    node.numbers.timed.saturating_sub(node.braked) as f64
}

/// What those take in the mean; where there is none, all that were timed. Those before may have been longer, or shorter.
fn mean_since_braked(node: &ProfileNode) -> f64 {
    let numbers = &node.numbers;
    let since = numbers.inclusive.saturating_sub(numbers.exclusive) as f64;
    match sample(node) {
        0.0 => numbers.inclusive as f64 / numbers.timed as f64,
        sample => since / sample,
    }
}

/// Of the sum of so many calls that were not timed: of their mean, and of themselves.
fn standard_error(node: &ProfileNode, mean: f64, untimed: f64) -> f64 {
    let sample = sample(node);
    if sample < 2.0 {
        // Nothing is known of how they differ.
        return untimed * mean;
    }
    let spread = (squares(node) / sample - mean * mean).max(0.0);
    let variance = spread * sample / (sample - 1.0);
    let error = (untimed * untimed * variance / sample + untimed * variance).sqrt();
    if error.is_finite() { error } else { untimed * mean }
}
