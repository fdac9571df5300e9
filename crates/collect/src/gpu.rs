//! GPU memory, time and use of the job: NVIDIA's by its management library, others by the kernel's DRM.

pub(crate) mod drm;
mod job;
mod nvml;

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

pub use job::{DeviceUse, GpuDevice, GpuSource, JobGpus, JobLook, ProcessLook};
pub use nvml::{DeviceSample, GpuError, GpuSample, Gpus, LIBRARY, NvmlDevice, ProcessAccount};

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "gpu",
    "memory and time of processes on GPUs, and which they have open",
    Some("a GPU with NVIDIA's driver, or one in /dev/dri"),
)
.probed_by(probe)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "none",
    scope: "GPUs",
    intrusiveness: Intrusiveness::None,
    cost: "a request to the driver and a walk through descriptors at each sample",
});

fn probe() -> CollectorStatus {
    status(JobGpus::open(Gpus::open(None), false).as_ref().map(drop))
}

/// How the collector fares.
pub fn status(outcome: Result<(), &GpuError>) -> CollectorStatus {
    let status = match outcome {
        Ok(()) => CollectorState::Active,
        Err(GpuError::Call { .. }) => CollectorState::Degraded,
        Err(_) => CollectorState::Unavailable,
    };
    CollectorStatus::new(INFO.name, Mechanism::Nvml, status, outcome.err().map(ToString::to_string))
}
