//! A stream is changed while it runs: who asks, and how it is answered.
//!
//! Each stream listens at a socket of its own, at a place that all of its user's programs can find:
//! `/run/weigh/trace-PID.sock` for root, else `$XDG_RUNTIME_DIR/weigh/trace-PID.sock`. One line of JSON
//! asks ([`Ask`]), one answers ([`Answer`]).

mod client;
mod server;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::counts::{Counted, Taken};
pub use client::ask;
pub use server::Control;

/// What is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// The register.
    List,
    /// Another event, or a set.
    Add {
        /// As it is written.
        event: String,
    },
    /// An event less.
    Remove {
        /// Which.
        id: usize,
    },
    /// Another filter.
    Filter {
        /// Of which.
        id: usize,
        /// None: all are taken.
        filter: Option<String>,
    },
    /// Another sampling.
    Sample {
        /// Of which.
        id: usize,
        /// None: all are taken.
        rule: Option<String>,
    },
    /// Another buffer.
    AddBuffer {
        /// As it is written.
        buffer: String,
    },
    /// A buffer is changed.
    SetBuffer {
        /// Which.
        name: String,
        /// What is said of it.
        clauses: String,
    },
    /// A buffer less.
    RemoveBuffer {
        /// Which.
        name: String,
    },
    /// Another watermark.
    Wake {
        /// So much.
        bytes: u64,
    },
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<R = Register> {
    /// What there is.
    Register(R),
    /// It is in force.
    Done(Done),
    /// Why not.
    Refused(String),
}

/// What has been changed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// Of which probes.
    pub ids: Vec<usize>,
    /// Of what else.
    #[serde(default)]
    pub what: Option<String>,
    /// How long that took.
    pub took_us: u64,
}

/// All that a stream does.
#[derive(Debug, Serialize)]
pub struct Register {
    /// Whose.
    pub pid: u32,
    /// How long it has run.
    pub seconds: f64,
    /// The file that it writes.
    pub output: Option<String>,
    /// How many rings it has.
    pub rings: usize,
    /// Bytes of each.
    pub ring_bytes: usize,
    /// It is waked when a CPU has written so much.
    pub wake_bytes: u64,
    /// Records that were taken in.
    pub taken: u64,
    /// Threads that could not be followed.
    pub lost_threads: u64,
    /// What it follows, and has followed.
    pub probes: Vec<Registered>,
    /// Where that goes, and has gone.
    pub buffers: Vec<RegisteredBuffer>,
}

/// A buffer.
#[derive(Debug, Serialize)]
pub struct RegisteredBuffer {
    /// What to ask for it by.
    pub name: String,
    /// Who writes into the same ring.
    pub spread: String,
    /// How many rings it has.
    pub rings: usize,
    /// Bytes of each.
    pub ring_bytes: usize,
    /// The events that go in, if not all do.
    pub events: Option<Vec<String>>,
    /// Which of their records.
    pub predicate: Option<String>,
    /// When who reads is waked.
    pub delivery: String,
    /// The file that it is written to.
    pub output: Option<String>,
    /// Bytes that wait in the rings.
    pub waiting: u64,
    /// Whether it was, and is not any more.
    pub is_removed: bool,
    /// What was counted.
    #[serde(flatten)]
    pub counted: Taken,
}

/// A probe.
#[derive(Debug, Serialize)]
pub struct Registered {
    /// What to ask for it by; its records have it, too.
    pub id: usize,
    /// Its event.
    pub event: String,
    /// Its fields.
    pub fields: Vec<String>,
    /// Which are taken.
    pub filter: Option<String>,
    /// How many of them.
    pub sampling: Option<String>,
    /// Bytes of a record.
    pub record_bytes: u32,
    /// Whether it was, and is not any more.
    pub is_removed: bool,
    /// What was counted.
    #[serde(flatten)]
    pub counted: Counted,
}

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
