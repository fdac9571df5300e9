//! NVIDIA's management library: memory and time of processes on GPUs, and GPUs as wholes.
//!
//! Loads `libnvidia-ml.so.1` at run time, so weigh runs where there is none; then the collector is
//! `unavailable` with the loader's reason. Emits, per sample, the memory that processes of the job
//! hold over all GPUs, all together and each, and the use of the GPUs they are on (with whatever else runs there). NVML
//! names processes by their PIDs in the initial PID namespace. It knows no history: what happens
//! between two samples is not seen. Opening can take a second where no daemon keeps the driver
//! awake, a sample some milliseconds: call it from a thread that nobody waits for.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

/// Why GPUs cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// The library cannot be loaded; the loader's text names it.
    #[error("{0}")]
    NoLibrary(String),
    /// The library cannot be started.
    #[error("{library}: {source}")]
    Open {
        /// The library.
        library: String,
        /// Why not.
        source: NvmlError,
    },
    /// There are none.
    #[error("{0} finds no GPU")]
    NoGpu(String),
    /// A call failed.
    #[error("{call} of GPU {gpu}: {source}")]
    Call {
        /// The call.
        call: &'static str,
        /// The GPU's number.
        gpu: u32,
        /// Why it failed.
        source: NvmlError,
    },
}

/// One look at the GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuSample {
    /// Memory that the job's processes hold, over all GPUs; `None` if it is hidden for one of them.
    pub memory_bytes: Option<u64>,
    /// Average use of the GPUs that hold a process of the job; `None` if there is no such GPU, or
    /// it does not tell.
    pub utilization_ratio: Option<f64>,
    /// GPUs that hold a process of the job.
    pub gpus: u32,
    /// Processes of the job on a GPU.
    pub processes: u32,
    /// Memory that each of them holds, over all GPUs; `None` if it is hidden for one.
    pub memory_by_process: BTreeMap<u32, Option<u64>>,
    /// The same by process and GPU.
    pub memory: BTreeMap<(u32, u32), Option<u64>>,
}

/// What a GPU is called; what it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmlDevice {
    /// Its address on the bus, as the kernel writes it: `0000:0c:00.0`.
    pub bus: Option<String>,
    /// Its UUID.
    pub uuid: Option<String>,
    /// The number in `/dev/nvidia0`.
    pub minor: Option<u32>,
    /// Whether the driver keeps accounts of processes that have ended.
    pub has_accounts: bool,
}

/// What the driver's accounts say of a process that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessAccount {
    /// For how long it computed.
    pub busy: Option<Duration>,
    /// The most memory that it held.
    pub memory_peak_bytes: Option<u64>,
}

/// One GPU as a whole, by all that use it; what it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceSample {
    /// Its memory.
    pub memory_total_bytes: Option<u64>,
    /// Memory in use, the driver's own included.
    pub memory_used_bytes: Option<u64>,
    /// Part of the last period of NVML for which it worked.
    pub utilization_ratio: Option<f64>,
    /// Temperature of its die.
    pub celsius: Option<f64>,
    /// Power that it draws.
    pub watts: Option<f64>,
    /// Energy since the driver was loaded.
    pub joules: Option<f64>,
}

/// The GPUs of this machine.
pub struct Gpus {
    nvml: Nvml,
    count: u32,
}

/// The library's usual name.
pub const LIBRARY: &str = "libnvidia-ml.so.1";

impl Gpus {
    /// Loads and starts the library; `None` for the one the loader finds.
    pub fn open(library: Option<&Path>) -> Result<Gpus, GpuError> {
        let path = library.unwrap_or(Path::new(LIBRARY));
        let library = path.display().to_string();
        let nvml =
            Nvml::builder().lib_path(path.as_os_str()).init().map_err(|source| match source {
                NvmlError::LibloadingError(why) => GpuError::NoLibrary(why.to_string()),
                source => GpuError::Open { library: library.clone(), source },
            })?;
        let count = nvml
            .device_count()
            .map_err(|source| GpuError::Open { library: library.clone(), source })?;
        if count == 0 {
            return Err(GpuError::NoGpu(library));
        }
        Ok(Gpus { nvml, count })
    }

    /// How many GPUs there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Looks at all GPUs for processes that `of_job` picks.
    pub fn sample(&self, of_job: &dyn Fn(u32) -> bool) -> Result<GpuSample, GpuError> {
        let mut uses = Vec::new();
        let mut by_process: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        let mut memory = BTreeMap::new();
        let mut gpus = 0;
        for gpu in 0..self.count {
            let call_failed = |call| move |source| GpuError::Call { call, gpu, source };
            let device = self.nvml.device_by_index(gpu).map_err(call_failed("the handle"))?;
            let compute = device.running_compute_processes();
            // Data-centre GPUs may do without graphics.
            let graphics = or_empty(device.running_graphics_processes());
            let held = per_process(
                compute
                    .map_err(call_failed("the processes"))?
                    .into_iter()
                    .chain(graphics.map_err(call_failed("the graphics processes"))?)
                    .filter(|p| of_job(p.pid)),
            );
            if held.is_empty() {
                continue;
            }
            gpus += 1;
            for (pid, bytes) in held {
                memory.insert((pid, gpu), bytes);
                let sum = by_process.entry(pid).or_insert(Some(0));
                *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes);
            }
            match device.utilization_rates() {
                Ok(rates) => uses.push(f64::from(rates.gpu) / 100.0),
                // GPUs that are split into instances do not tell.
                Err(NvmlError::NotSupported) => {}
                Err(source) => return Err(call_failed("the utilization")(source)),
            }
        }
        Ok(GpuSample {
            memory_bytes: by_process.values().copied().sum(),
            utilization_ratio: (!uses.is_empty())
                .then(|| uses.iter().sum::<f64>() / uses.len() as f64),
            gpus,
            processes: by_process.len() as u32,
            memory_by_process: by_process,
            memory,
        })
    }

    /// Looks at each GPU as a whole. A value that a GPU does not tell is none; a GPU that is lost is an error.
    pub fn devices(&self) -> Result<Vec<DeviceSample>, GpuError> {
        (0..self.count).map(|gpu| self.device(gpu)).collect()
    }

    fn device(&self, gpu: u32) -> Result<DeviceSample, GpuError> {
        let failed = |source| GpuError::Call { call: "the handle", gpu, source };
        let device = self.nvml.device_by_index(gpu).map_err(failed)?;
        let memory = device.memory_info().ok();
        Ok(DeviceSample {
            memory_total_bytes: memory.as_ref().map(|memory| memory.total),
            memory_used_bytes: memory.map(|memory| memory.used),
            utilization_ratio: device
                .utilization_rates()
                .ok()
                .map(|rates| f64::from(rates.gpu) / 100.0),
            celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            joules: device
                .total_energy_consumption()
                .ok()
                .map(|millijoules| millijoules as f64 / 1e3),
        })
    }

    /// What each GPU is called.
    pub fn names(&self) -> Vec<NvmlDevice> {
        (0..self.count).map(|gpu| self.name(gpu).unwrap_or_default()).collect()
    }

    fn name(&self, gpu: u32) -> Option<NvmlDevice> {
        let device = self.nvml.device_by_index(gpu).ok()?;
        Some(NvmlDevice {
            bus: device.pci_info().ok().map(|info| kernel_bus(&info.bus_id)),
            uuid: device.uuid().ok(),
            minor: device.minor_number().ok(),
            has_accounts: device.is_accounting_enabled().unwrap_or(false),
        })
    }

    /// The part of the time for which each process computed on a GPU, since a moment by the driver's clock, and the
    /// moment for the next time. `None` where the GPU does not tell.
    pub fn busy(&self, gpu: u32, since_us: u64) -> Option<(BTreeMap<u32, f64>, u64)> {
        let device = self.nvml.device_by_index(gpu).ok()?;
        let samples = match device.process_utilization_stats(since_us) {
            Ok(samples) => samples,
            // Nobody has computed since.
            Err(NvmlError::NotFound) => Vec::new(),
            Err(_) => return None,
        };
        let until = samples.iter().map(|sample| sample.timestamp).fold(since_us, u64::max);
        let samples = samples.into_iter().filter(|sample| sample.timestamp > since_us);
        // More than all of the time is a number that the driver has not set.
        let samples = samples.filter(|sample| sample.sm_util <= 100);
        Some((samples.map(|s| (s.pid, f64::from(s.sm_util) / 100.0)).collect(), until))
    }

    /// What the driver keeps of a process that has ended.
    pub fn account(&self, gpu: u32, pid: u32) -> Option<ProcessAccount> {
        let stats = self.nvml.device_by_index(gpu).ok()?.accounting_stats_for(pid).ok()?;
        let active = Duration::from_millis(stats.time);
        (!stats.is_running).then(|| ProcessAccount {
            busy: stats.gpu_utilization.map(|percent| active * percent.min(100) / 100),
            memory_peak_bytes: stats.max_memory_usage,
        })
    }
}

/// NVML writes eight digits of the domain, in capitals.
fn kernel_bus(bus: &str) -> String {
    let bus = bus.to_ascii_lowercase();
    bus.strip_prefix("0000").filter(|rest| rest.find(':') == Some(4)).unwrap_or(&bus).to_owned()
}

fn or_empty(list: Result<Vec<ProcessInfo>, NvmlError>) -> Result<Vec<ProcessInfo>, NvmlError> {
    match list {
        Err(NvmlError::NotSupported) => Ok(Vec::new()),
        other => other,
    }
}

/// Memory by process. One that computes and draws is in both lists, with all its memory in each.
fn per_process(rows: impl Iterator<Item = ProcessInfo>) -> HashMap<u32, Option<u64>> {
    let mut held = HashMap::new();
    for row in rows {
        let bytes = match row.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        let entry = held.entry(row.pid).or_insert(bytes);
        *entry = (*entry).max(bytes);
    }
    held
}
