//! How far what measures interferes with what it measures.

use crate::named::named;

named! {
    /// How far a source interferes with what it measures.
    #[derive(PartialOrd, Ord)]
    pub enum Intrusiveness {
        /// The job cannot notice it.
        None = "none",
        /// The job is slower, or wakes up beside more activity, and does the same.
        Low = "low",
        /// The job has something in it, or is stopped, that it could notice.
        Medium = "medium",
        /// Some programs behave differently.
        High = "high",
    }
}
