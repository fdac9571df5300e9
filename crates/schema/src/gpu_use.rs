//! What processes of a job did with GPUs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quality::Value;

/// One process and one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuUse {
    /// The process, by its PID in the initial PID namespace.
    pub pid: u32,
    /// The GPU's address on its bus, `0000:0c:00.0`, or its number in NVML where that is not known.
    pub gpu: String,
    /// NVML's UUID of it.
    pub uuid: Option<String>,
    /// Its device files that the process was seen to have open.
    pub opened: Vec<String>,
    /// `gpu_memory_peak_bytes` and `gpu_seconds` of this process on this GPU.
    pub metrics: BTreeMap<String, Value>,
}
