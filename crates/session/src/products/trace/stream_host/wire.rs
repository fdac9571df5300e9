//! What a user's weigh asks of the agent's process that traces for it, and is answered: a line of JSON each.

use serde::{Deserialize, Serialize};

use super::super::control::{Answer, Ask, Attachment};

/// Rises whenever what is sent changes.
pub const VERSION: u32 = 2;

/// What a user's weigh asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAsk {
    /// To attach probes; the first request, and the only one of its kind.
    Open(Box<OpenRequest>),
    /// To follow the process that a descriptor stands for, which comes with it; once.
    Arm,
    /// To follow a process that runs.
    Join {
        /// Which.
        pid: u32,
    },
    /// Whether a process is followed.
    IsMember {
        /// Which.
        pid: u32,
    },
    /// How many threads are followed.
    Living,
    /// To wake when a CPU has written so much, beside what the user asked for.
    LookAfter {
        /// So much.
        bytes: u64,
    },
    /// To attach nothing any more.
    Stop,
    /// What any stream can be asked.
    Stream(Ask),
}

/// What is wanted.
#[derive(Debug, Serialize, Deserialize)]
pub struct OpenRequest {
    /// [`VERSION`].
    pub version: u32,
    /// Events.
    pub events: Vec<OpenEvent>,
    /// What holds for all of them.
    pub filters: Vec<String>,
    /// See above.
    pub sampling: Option<String>,
    /// Only some threads are to be followed.
    pub follows: bool,
    /// Bytes of each ring.
    pub buffer: Option<usize>,
    /// One ring for all CPUs.
    pub total_order: bool,
    /// A ring for each CPU, in any case.
    pub per_cpu: bool,
    /// The watermark.
    pub wake: Option<u64>,
}

/// An event that is wanted.
#[derive(Debug, Serialize, Deserialize)]
pub struct OpenEvent {
    /// As it was written.
    pub text: String,
    /// Fields besides.
    pub more: Vec<String>,
    /// Whether it was asked for as one of a set: what is not granted of it may be left out.
    pub is_of_set: bool,
}

/// What it is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAnswer {
    /// It runs. With this come the rings, how far each has been read, and what wakes.
    Opened(Box<Attachment>),
    /// It was done.
    Done,
    /// It was not, or cannot be.
    Refused(String),
    /// Whether it is.
    Is(bool),
    /// Threads that are followed and live, and those that could not be followed.
    Living {
        /// None where everybody is.
        living: Option<u64>,
        /// See above.
        lost: u64,
    },
    /// What any stream answers.
    Stream(Answer),
}
