//! Collectors that need no job of their own, and what they read.
#![allow(clippy::unwrap_used)]

mod cgroup;
#[path = "../common/mod.rs"]
mod common;
mod costs;
mod fanotify;
mod footprint;
mod gpu;
mod hardware;
mod inspect;
mod pages;
