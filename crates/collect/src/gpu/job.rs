//! What processes of a job do with GPUs: memory, time, and which device files they have open.
//!
//! Reads NVML and, of `/proc/PID`, the links of `fd` and the `fdinfo` of files of `/dev/dri`; emits a [`JobLook`] each time.
//! A client of the kernel's DRM is counted once, however many descriptors and processes share it. Between two looks
//! nothing is seen: of what was opened and closed meanwhile there is no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::drm::{ClientKey, DrmClient, parse_client};
use super::nvml::{GpuError, Gpus};

/// Descriptors that are read in one look at most.
const MOST_DESCRIPTORS: usize = 1 << 16;
/// Between two walks through descriptors lies this many times as long as one took.
const REST: u32 = 20;

/// A GPU, and the files by which programs open it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuDevice {
    /// Its address on the bus (`0000:0c:00.0`), or the first of its files where that is not known.
    pub name: String,
    /// NVML's UUID.
    pub uuid: Option<String>,
    /// `/dev/nvidia0`, `/dev/dri/renderD128`, …
    pub files: Vec<PathBuf>,
    /// Its number in NVML.
    nvml: Option<u32>,
    has_accounts: bool,
}

impl GpuDevice {
    /// Whether NVML tells of it.
    pub fn is_of_nvml(&self) -> bool {
        self.nvml.is_some()
    }
}

/// Where time and memory come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuSource {
    /// The process was seen to have it open, and nothing else.
    #[default]
    Opened,
    /// The kernel's DRM.
    Drm,
    /// NVML at each look.
    Nvml,
    /// The accounts that NVIDIA's driver keeps of processes that have ended.
    NvmlAccounts,
}

/// What one process did with one GPU so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceUse {
    /// The most memory that it held at one look.
    pub memory_peak_bytes: Option<u64>,
    /// For how long the GPU worked for it.
    pub busy: Option<Duration>,
    /// Files of the GPU that it had open.
    pub opened: BTreeSet<PathBuf>,
    /// Who tells.
    pub source: GpuSource,
}

/// One process at one look, over all GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessLook {
    /// Memory that it holds.
    pub memory_bytes: Option<u64>,
    /// For how long GPUs have worked for it so far.
    pub busy: Option<Duration>,
}

/// One look at what a job does with GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobLook {
    /// Memory that it holds; `None` if it is hidden.
    pub memory_bytes: Option<u64>,
    /// NVML's average use of the GPUs on which it has a process.
    pub utilization_ratio: Option<f64>,
    /// For how long GPUs have worked for it so far.
    pub busy: Option<Duration>,
    /// By process.
    pub processes: BTreeMap<u32, ProcessLook>,
    /// What each process has done with each of [`JobGpus::devices`] so far.
    pub uses: BTreeMap<(u32, usize), DeviceUse>,
}

/// The GPUs of this machine, and what a job has done with them.
pub struct JobGpus {
    nvml: Option<Gpus>,
    proc: PathBuf,
    devices: Vec<GpuDevice>,
    uses: BTreeMap<(u32, usize), DeviceUse>,
    /// Of NVML's, those that were looked at after their end.
    ended: BTreeSet<(u32, usize)>,
    /// What each client had when it was seen last.
    clients: BTreeMap<ClientKey, DrmClient>,
    /// Memory by process and device at the last walk.
    resident: BTreeMap<(u32, usize), u64>,
    walked: Option<(Instant, Duration)>,
    looked: Option<Instant>,
    /// The driver's clock at the last look, by device.
    driver_us: Vec<u64>,
    /// What clients have done by the first look at a process was done before.
    runs_already: bool,
}

impl JobGpus {
    /// Finds them, for a job that is about to begin or runs already; the error is NVML's if there are none at all.
    pub fn open(nvml: Result<Gpus, GpuError>, runs_already: bool) -> Result<JobGpus, GpuError> {
        JobGpus::under(Path::new("/"), nvml, runs_already)
    }

    /// The same with another folder for `/proc` and `/sys`.
    pub fn under(
        root: &Path,
        nvml: Result<Gpus, GpuError>,
        runs_already: bool,
    ) -> Result<JobGpus, GpuError> {
        let (nvml, error) = match nvml {
            Ok(gpus) => (Some(gpus), None),
            Err(error) => (None, Some(error)),
        };
        let mut devices = nvml.as_ref().map(of_nvml).unwrap_or_default();
        add_of_drm(&mut devices, &root.join("sys/class/drm"));
        if let Some(error) = error.filter(|_| devices.is_empty()) {
            return Err(error);
        }
        let driver_us = vec![0; devices.len()];
        Ok(JobGpus {
            nvml,
            proc: root.join("proc"),
            devices,
            uses: BTreeMap::new(),
            ended: BTreeSet::new(),
            clients: BTreeMap::new(),
            resident: BTreeMap::new(),
            walked: None,
            looked: None,
            driver_us,
            runs_already,
        })
    }

    /// All of them, in the order of the numbers in [`JobLook::uses`].
    pub fn devices(&self) -> &[GpuDevice] {
        &self.devices
    }

    /// Looks at these processes.
    pub fn look(&mut self, pids: &BTreeSet<u32>) -> Result<JobLook, GpuError> {
        let now = Instant::now();
        let elapsed = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        let mut look = JobLook { memory_bytes: Some(0), ..JobLook::default() };
        self.look_at_nvml(pids, elapsed, &mut look)?;
        self.take_accounts(pids);
        self.walk(pids, now);
        for ((pid, _), bytes) in &self.resident {
            let process = look.processes.entry(*pid).or_insert_with(ProcessLook::nothing);
            process.memory_bytes = process.memory_bytes.map(|sum| sum.saturating_add(*bytes));
            look.memory_bytes = look.memory_bytes.map(|sum| sum.saturating_add(*bytes));
        }
        look.busy = Some(Duration::ZERO);
        for ((pid, _), used) in
            self.uses.iter().filter(|(_, used)| used.source != GpuSource::Opened)
        {
            look.busy = sum(look.busy, used.busy);
            if let Some(process) = look.processes.get_mut(pid) {
                process.busy = sum(process.busy, used.busy);
            }
        }
        look.uses = self.uses.clone();
        Ok(look)
    }

    fn look_at_nvml(
        &mut self,
        pids: &BTreeSet<u32>,
        elapsed: Duration,
        look: &mut JobLook,
    ) -> Result<(), GpuError> {
        let Some(gpus) = &self.nvml else { return Ok(()) };
        let sample = gpus.sample(&|pid| pids.contains(&pid))?;
        look.memory_bytes = sample.memory_bytes;
        look.utilization_ratio = sample.utilization_ratio;
        for (pid, memory_bytes) in sample.memory_by_process {
            look.processes.insert(pid, ProcessLook { memory_bytes, ..ProcessLook::nothing() });
        }
        let by_nvml = |(at, device): (usize, &GpuDevice)| Some((at, device.nvml?));
        for (at, gpu) in self.devices.iter().enumerate().filter_map(by_nvml) {
            let busy = gpus.busy(gpu, self.driver_us[at]);
            for ((pid, _), bytes) in sample.memory.iter().filter(|((_, held), _)| *held == gpu) {
                let used = self.uses.entry((*pid, at)).or_default();
                if used.source != GpuSource::Nvml {
                    (used.source, used.busy) = (GpuSource::Nvml, Some(Duration::ZERO));
                }
                used.memory_peak_bytes = used.memory_peak_bytes.max(*bytes);
            }
            let of_gpu = |((_, held), used): &(&(u32, usize), &mut DeviceUse)| {
                *held == at && used.source == GpuSource::Nvml
            };
            for ((pid, _), used) in self.uses.iter_mut().filter(of_gpu) {
                if self.ended.contains(&(*pid, at)) {
                    continue;
                }
                let ratio = busy.as_ref().map(|(ratios, _)| ratios.get(pid).copied());
                let more = ratio.map(|ratio| elapsed.mul_f64(ratio.unwrap_or(0.0)));
                used.busy = sum(used.busy, more);
                // What it did at last is told once after its end.
                if !pids.contains(pid) {
                    self.ended.insert((*pid, at));
                }
            }
            if let Some((_, until_us)) = busy {
                self.driver_us[at] = until_us;
            }
        }
        Ok(())
    }

    /// What the driver keeps of processes that have ended is better than what was seen of them.
    fn take_accounts(&mut self, pids: &BTreeSet<u32>) {
        let Some(gpus) = &self.nvml else { return };
        for ((pid, at), used) in &mut self.uses {
            let device = &self.devices[*at];
            let is_over = used.source == GpuSource::Nvml && !pids.contains(pid);
            let Some(gpu) = device.nvml.filter(|_| is_over && device.has_accounts) else {
                continue;
            };
            let Some(account) = gpus.account(gpu, *pid) else { continue };
            used.source = GpuSource::NvmlAccounts;
            used.busy = account.busy.or(used.busy);
            used.memory_peak_bytes = account.memory_peak_bytes.max(used.memory_peak_bytes);
        }
    }

    /// Walks through descriptors, unless the last walk took long and was just now.
    fn walk(&mut self, pids: &BTreeSet<u32>, now: Instant) {
        if self.walked.is_some_and(|(at, took)| now - at < took * REST) {
            return;
        }
        let (mut found, mut left) = (BTreeMap::new(), MOST_DESCRIPTORS);
        for pid in pids {
            self.read_descriptors(*pid, &mut left, &mut found);
        }
        let elapsed = self.walked.map(|(at, _)| now - at);
        self.resident.clear();
        for (key, (pid, client)) in &found {
            let name =
                |device: &GpuDevice| device.nvml.is_none() && device.name.as_bytes() == key.0;
            let Some(at) = self.devices.iter().position(name) else { continue };
            let before = self.clients.get(key);
            let busy_ns = match self.runs_already {
                true => 0,
                false => client.busy_ns_since(before, elapsed.unwrap_or_default()),
            };
            let bytes = self.resident.entry((*pid, at)).or_default();
            *bytes = bytes.saturating_add(client.resident_bytes);
            let used = self.uses.entry((*pid, at)).or_default();
            used.source = GpuSource::Drm;
            used.memory_peak_bytes = used.memory_peak_bytes.max(Some(*bytes));
            used.busy =
                sum(used.busy.or(Some(Duration::ZERO)), Some(Duration::from_nanos(busy_ns)));
        }
        if self.clients.len() > MOST_DESCRIPTORS {
            self.clients.clear();
        }
        self.clients.extend(found.into_iter().map(|(key, (_, client))| (key, client)));
        self.runs_already &= pids.is_empty();
        self.walked = Some((now, now.elapsed()));
    }

    /// A client that several processes have is the first one's.
    fn read_descriptors(
        &mut self,
        pid: u32,
        left: &mut usize,
        found: &mut BTreeMap<ClientKey, (u32, DrmClient)>,
    ) {
        let process = self.proc.join(pid.to_string());
        // It has ended, or is not to be looked at.
        let Ok(links) = std::fs::read_dir(process.join("fd")) else { return };
        for link in links.flatten().take(*left) {
            *left -= 1;
            let Ok(target) = std::fs::read_link(link.path()) else { continue };
            let Some(at) = self.devices.iter().position(|device| device.files.contains(&target))
            else {
                continue;
            };
            let used = self.uses.entry((pid, at)).or_default();
            used.opened.insert(target);
            let text = std::fs::read(process.join("fdinfo").join(link.file_name()));
            if let Some((key, client)) = parse_client(&text.unwrap_or_default()) {
                found.entry(key).or_insert((pid, client));
            }
        }
    }
}

impl ProcessLook {
    fn nothing() -> ProcessLook {
        ProcessLook { memory_bytes: Some(0), busy: Some(Duration::ZERO) }
    }
}

fn sum(so_far: Option<Duration>, more: Option<Duration>) -> Option<Duration> {
    Some(so_far?.saturating_add(more?))
}

fn of_nvml(gpus: &Gpus) -> Vec<GpuDevice> {
    let named = (0..).zip(gpus.names()).map(|(number, device)| {
        let file = device.minor.map(|minor| PathBuf::from(format!("/dev/nvidia{minor}")));
        GpuDevice {
            name: device.bus.unwrap_or_else(|| format!("GPU {number}")),
            uuid: device.uuid,
            files: file.into_iter().collect(),
            nvml: Some(number),
            has_accounts: device.has_accounts,
        }
    });
    named.collect()
}

/// GPUs that programs may compute on have a file `renderD…`; `card…` of the same device is another way to it.
fn add_of_drm(devices: &mut Vec<GpuDevice>, class: &Path) {
    let names = names_in(class);
    let is_node = |name: &str, prefix: &str| {
        let number = name.strip_prefix(prefix);
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    };
    for prefix in ["renderD", "card"] {
        for name in names.iter().filter(|name| is_node(name, prefix)) {
            let Ok(folder) = class.join(name).join("device").canonicalize() else { continue };
            let Some(bus) = folder.file_name().and_then(|bus| bus.to_str()) else { continue };
            let file = Path::new("/dev/dri").join(name);
            match devices.iter_mut().find(|device| device.name == bus) {
                Some(device) => device.files.push(file),
                None if prefix == "card" => {}
                None => devices.push(GpuDevice {
                    name: bus.to_owned(),
                    files: vec![file],
                    ..GpuDevice::default()
                }),
            }
        }
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
