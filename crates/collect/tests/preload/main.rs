//! Jobs that are followed by the preload library.
#![allow(clippy::unwrap_used)]

mod counts;
mod hard_cases;
mod lookup;
mod preloaded;
mod slots;

#[test]
#[ignore = "one job, run by the other tests"]
fn run_job() {
    preloaded::run_job();
}
