//! Regions of a program, as it publishes them to the agent, or as its spans of OpenTelemetry make them.

use serde::{Deserialize, Serialize};

use crate::region::RegionsFound;
use crate::zero::is_zero;

/// Regions by name of one profile.
pub const MOST_PROFILE_REGIONS: usize = 50;

/// Whether more is to come of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramState {
    /// It runs.
    #[default]
    Running,
    /// It has ended in order.
    Ended,
    /// It was killed, or has executed another program: regions were open, or may have been.
    CutShort,
    /// The agent has ended, or has heard nothing for long: the program may run on.
    Left,
}

/// Regions of a program as they stood at one moment, from its start on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramProfile {
    /// The kernel's name for the process, or for its first thread, as the profile says, where the process had ended; of spans the
    /// service's, as it says.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Of spans: the process, as the program says; null where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_pid: Option<u32>,
    /// Whether more is to come.
    pub state: ProgramState,
    /// Its regions by name, over all threads: at most [`MOST_PROFILE_REGIONS`], those that took most time by themselves.
    pub regions: RegionsFound,
    /// Regions that there was no room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub regions_left_out: u64,
    /// The same of counters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counters_left_out: u64,
    /// The same of metadata.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub metadata_left_out: u64,
}
