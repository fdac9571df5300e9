//! Reads `fdinfo` of files of `/dev/dri` and amdgpu's files in `/sys/class/drm`; emits `node_gpu_*` of GPUs that NVML does
//! not know. Not run on a real one.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weigh_parse::node::attribute;
use weigh_schema::byte_text;
use weigh_schema::node_metric::*;
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Number, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer, names_in};
use super::reader::NodeReader;
use crate::gpu::drm::{ClientKey, DrmClient, parse_client};

/// Between two walks through the descriptors of all processes.
pub(super) const PERIOD: Duration = Duration::from_secs(5);

/// Descriptors that are looked at in a walk.
const MOST_DESCRIPTORS: usize = 1 << 16;

/// Attributes of a device that amdgpu has, and what one of the metric's unit is in them; 0: whole numbers.
static ATTRIBUTES: [(&str, &Metric, f64); 3] = [
    ("mem_info_vram_total", &node_gpu_memory_total_bytes, 0.0),
    ("mem_info_vram_used", &node_gpu_memory_used_bytes, 0.0),
    ("gpu_busy_percent", &node_gpu_utilization_ratio, 100.0),
];

/// A GPU.
struct Device {
    /// Its name on its bus.
    bus: Vec<u8>,
    attributes: Vec<Option<KernelFile>>,
    /// Time of engines, of clients that are gone as well.
    engine_ns: u64,
}

struct Drm {
    proc: PathBuf,
    devices: Vec<Device>,
    /// None before the first walk.
    clients: Option<BTreeMap<ClientKey, DrmClient>>,
    walked: Instant,
}

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let class = roots.sys.join("class/drm");
    let nodes = names_in(&class).into_iter().filter(|name| name.starts_with("renderD"));
    let devices: Vec<Device> = nodes.filter_map(|name| device(&class.join(name))).collect();
    match devices.is_empty() {
        true => Err(NodeError::Absent(format!(
            "this machine has no GPU without NVML in {}",
            class.display()
        ))),
        false => Ok(Box::new(Drm {
            proc: roots.proc.clone(),
            devices,
            clients: None,
            walked: Instant::now(),
        })),
    }
}

/// NVML says more of its own.
fn device(node: &Path) -> Option<Device> {
    let folder = node.join("device").canonicalize().ok()?;
    let driver = folder.join("driver").canonicalize().ok();
    if driver.is_some_and(|driver| driver.ends_with("nvidia")) {
        return None;
    }
    let file = |(name, ..): &(&str, &Metric, f64)| {
        KernelFile::open(folder.join(name), FileShape::Small).ok()
    };
    let attributes = ATTRIBUTES.iter().map(file).collect();
    Some(Device { bus: folder.file_name()?.as_bytes().to_vec(), attributes, engine_ns: 0 })
}

impl NodeReader for Drm {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let clients = self.walk();
        self.add(&clients, self.walked.elapsed());
        self.walked = Instant::now();
        for device in &self.devices {
            let name = || Scope::GpuDevice(byte_text::keep(&device.bus));
            out.instance([b"gpu", &device.bus], name);
            device.put_attributes(buffer, out);
            let own = clients.iter().filter(|((bus, _), _)| *bus == device.bus);
            let (count, resident) = own.fold((0, 0_u64), |(count, bytes), (_, client)| {
                (count + 1, bytes.saturating_add(client.resident_bytes))
            });
            let engine_ns = Some(device.engine_ns);
            out.parts(&node_gpu_engine_seconds_total, Quality::Estimated, engine_ns, 1e9);
            out.count(&node_gpu_clients, Quality::Exact, Some(count));
            out.count(&node_gpu_resident_bytes, Quality::Estimated, Some(resident));
        }
        self.clients = Some(clients);
        Ok(())
    }
}

impl Device {
    fn put_attributes(&self, buffer: &mut ReadBuffer, out: &mut BlockWriter<'_>) {
        for ((_, metric, of_one), file) in ATTRIBUTES.iter().zip(&self.attributes) {
            let Some(file) = file else { continue };
            let value = file.read(buffer).ok().and_then(attribute);
            let value = value.and_then(|value| u64::try_from(value).ok());
            let number = value.map(|value| match *of_one {
                0.0 => Number::Whole(value),
                of_one => Number::Real(value as f64 / of_one),
            });
            out.put(metric, Quality::Sampled, number);
        }
    }
}

impl Drm {
    /// Adds what engines have done since the walk before. Of a client that is new it is all; at the first walk nothing is
    /// known of when it was done.
    fn add(&mut self, clients: &BTreeMap<ClientKey, DrmClient>, elapsed: Duration) {
        let Some(before) = &self.clients else { return };
        for (key, client) in clients {
            let grown = client.busy_ns_since(before.get(key), elapsed);
            if let Some(device) = self.devices.iter_mut().find(|device| device.bus == key.0) {
                device.engine_ns = device.engine_ns.saturating_add(grown);
            }
        }
    }

    fn walk(&self) -> BTreeMap<ClientKey, DrmClient> {
        let mut clients = BTreeMap::new();
        let is_pid = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
        let processes = names_in(&self.proc).into_iter().filter(is_pid);
        let descriptors = processes.flat_map(|pid| {
            let process = self.proc.join(pid);
            names_in(&process.join("fd")).into_iter().map(move |name| (process.clone(), name))
        });
        for (process, name) in descriptors.take(MOST_DESCRIPTORS) {
            let target = std::fs::read_link(process.join("fd").join(&name));
            if target.is_ok_and(|target| target.starts_with("/dev/dri")) {
                let text = std::fs::read(process.join("fdinfo").join(&name)).unwrap_or_default();
                clients.extend(parse_client(&text));
            }
        }
        clients
    }
}
