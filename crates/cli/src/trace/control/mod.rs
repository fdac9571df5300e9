//! A stream is changed while it runs: who asks, and how it is answered.
//!
//! Each stream listens at a socket of its own, at a place that all of its user's programs can find:
//! `/run/weigh/trace-PID.sock` for root, else `$XDG_RUNTIME_DIR/weigh/trace-PID.sock`. One line of JSON
//! asks ([`Ask`]), one answers ([`Answer`]). Who reads along stays connected, and may ask more.

mod client;
mod conversation;
mod place;
mod reader;
mod server;
mod wire;

use std::ffi::OsStr;
use std::path::PathBuf;

pub use super::description::{Description, Where};
pub use client::{ask, connect};
pub use conversation::Conversation;
pub use reader::Written;
pub use server::{Control, Talk};
pub use wire::{
    Answer, Ask, AttachBy, Attached, Done, Register, Registered, RegisteredBuffer, WakeBy,
};

/// Where this user's streams listen; none if there is no place for that.
fn folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/run/weigh"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())?;
    Some(PathBuf::from(runtime).join("weigh"))
}

fn name(pid: u32) -> String {
    format!("trace-{pid}.sock")
}

/// Whose socket a file of that name would be.
fn pid_of(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix("trace-")?.strip_suffix(".sock")?.parse().ok()
}
