//! The page of events: `weigh report` of a recording of `weigh trace`, or `-o FILE.html`.
//!
//! Takes events and pairs as they come, in any number; emits the page. What it holds does not grow with them: they
//! are counted in columns of time that become twice as wide when there are too many; single events are kept while
//! they are few, and of pairs those that lasted longest. What is left out is counted, and said.

mod bins;
pub mod page;
mod pairs;
mod timeline;

pub use timeline::{Gathered, Happened};
