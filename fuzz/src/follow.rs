//! `weigh-agent` has the kernel follow jobs: the files with its messages are taken in as they are.

#[allow(dead_code, missing_docs, clippy::all)]
#[path = "../../crates/agent/src/follow/wire.rs"]
pub mod wire;
