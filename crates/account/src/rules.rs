//! Rules: conditions over metrics that say in words what is wrong, and what to type.
//!
//! [`RuleSet::parse`] reads a file of rules and refuses it with place, cause and what is near; [`RuleState::take`] takes
//! the values of one look and emits what has begun and ended. A value that is not known makes a comparison neither true
//! nor false: such a rule does not fire, and [`RuleState::statuses`] says why it cannot be judged.

mod dimension;
mod error;
mod evaluate;
mod expression;
mod input;
mod metric_table;
mod parser;
mod reference;
mod rule;
mod rule_set;
mod scope_pattern;
mod series;
mod source;
mod standing;
mod state;
mod template;
#[cfg(test)]
mod tests;
mod tokens;
mod value_table;

pub use error::RuleError;
pub use input::{RuleInput, RuleMoment, job_inputs};
pub use reference::markdown;
pub use rule::Rule;
pub use rule_set::{RuleSet, SHIPPED_RULES};
pub use state::RuleState;
