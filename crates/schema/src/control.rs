//! What is sent to a program that names regions, by way of the `weigh run` that reads its profile: one request and one
//! answer a message, as JSON.

use serde::{Deserialize, Serialize};

/// What `weigh control --json` prints.
pub const CONTROL: &str = "weigh.control/1";
/// What the abstract address of a run begins with; its PID and some digits follow.
pub const ADDRESS_PREFIX: &str = "weigh-control-";
/// No message is longer, in bytes.
pub const MOST_BYTES: usize = 64 * 1024;
/// The longest time between publishes that may be asked for, in seconds: a year.
pub const MOST_SECONDS: f64 = 366.0 * 86_400.0;

/// What a program is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRequest {
    /// Publish its profile now.
    Publish,
    /// Measure regions of this name, in which `*` stands for anything; empty: all.
    RegionsOn {
        /// The name.
        pattern: String,
    },
    /// Measure them no more.
    RegionsOff {
        /// The name.
        pattern: String,
    },
    /// Publish by itself each so many seconds; 0: not by time.
    PublishEvery {
        /// The seconds.
        seconds: f64,
    },
    /// A value under a key of the program's own.
    Set {
        /// The key.
        key: String,
        /// The value. If it is a number, the program gets that as well.
        value: String,
    },
}

/// Which processes are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlTarget {
    /// One process of a job, or all of the `weigh run` with that PID.
    Pid(u32),
    /// All of a job, by its name.
    Job(String),
    /// All of a job, by the directory of its recording, as an absolute path.
    Directory(String),
}

/// What is asked of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlAsk {
    /// Whom it concerns.
    pub target: ControlTarget,
    /// What they are to do; none: nothing, but how they stand is answered.
    pub requests: Vec<ControlRequest>,
}

/// What a run answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlAnswer {
    /// The target is none of its own.
    NotHere,
    /// Who asks may not, or asks what is not understood.
    Refused(String),
    /// How the processes stand. None where no program of the job names regions (any more).
    Processes(Vec<ControlledProcess>),
}

/// How a process stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlledProcess {
    /// The process, as weigh sees it.
    pub pid: u32,
    /// How many requests were ever sent to it, these among them.
    pub sent: u64,
    /// Of these, how many the program has taken.
    pub taken: u64,
    /// How many publishes there were.
    pub publishes: u64,
    /// Why a request was not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
