//! collect
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cgroup;
pub mod fanotify;
pub mod footprint;
pub mod hardware;
pub mod host;
pub mod job;
mod layout;
pub mod pages;
pub mod procfs;
pub mod requirements;
pub mod signals;
pub mod spawn;
