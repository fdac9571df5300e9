//! Reads NVML, in a thread that nobody waits for; emits `node_gpu_*` of each GPU.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use weigh_schema::node_metric::*;
use weigh_schema::update::Scope;
use weigh_schema::{Number, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::ReadBuffer;
use super::reader::NodeReader;
use crate::gpu::{DeviceSample, GpuError, Gpus};

/// How often the thread looks.
const PERIOD: Duration = Duration::from_secs(1);

/// How long its first look is waited for.
const PATIENCE: Duration = Duration::from_millis(20);

type Look = Result<Vec<DeviceSample>, GpuError>;

struct GpuThread {
    looks: Receiver<Look>,
    latest: Vec<DeviceSample>,
}

pub(super) fn open(_: &NodeRoots, _: &mut ReadBuffer) -> Result<Box<dyn NodeReader>, NodeError> {
    let (sender, looks) = sync_channel(1);
    let look = move || {
        let gpus = match Gpus::open(None) {
            Ok(gpus) => gpus,
            Err(error) => return drop(sender.send(Err(error))),
        };
        // Ends when nobody reads, or after an error that has been sent.
        loop {
            let look = gpus.devices();
            let is_over = look.is_err();
            if sender.send(look).is_err() || is_over {
                return;
            }
            std::thread::sleep(PERIOD);
        }
    };
    let thread = std::thread::Builder::new().name("weigh-gpu".into()).spawn(look);
    thread.map_err(|error| NodeError::Absent(format!("no thread for the GPUs: {error}")))?;
    // That there is no library is known at once.
    let latest = match looks.recv_timeout(PATIENCE) {
        Ok(look) => look.map_err(absent)?,
        Err(_) => Vec::new(),
    };
    Ok(Box::new(GpuThread { looks, latest }))
}

fn absent(error: GpuError) -> NodeError {
    NodeError::Absent(error.to_string())
}

impl NodeReader for GpuThread {
    fn read(&mut self, _: &mut ReadBuffer, out: &mut BlockWriter<'_>) -> Result<(), NodeError> {
        match self.looks.try_recv() {
            Ok(look) => self.latest = look.map_err(absent)?,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                return Err(NodeError::Absent("the thread of the GPUs has ended".to_string()));
            }
        }
        for (gpu, device) in self.latest.iter().enumerate() {
            let gpu = gpu as u32;
            out.instance([b"gpu", &gpu.to_ne_bytes()], || Scope::Gpu(gpu));
            put_device(device, out);
        }
        Ok(())
    }
}

fn put_device(device: &DeviceSample, out: &mut BlockWriter<'_>) {
    out.count(&node_gpu_memory_total_bytes, Quality::Exact, device.memory_total_bytes);
    out.count(&node_gpu_memory_used_bytes, Quality::Exact, device.memory_used_bytes);
    for (metric, value) in [
        (&node_gpu_utilization_ratio, device.utilization_ratio),
        (&node_gpu_celsius, device.celsius),
        (&node_gpu_watts, device.watts),
        (&node_gpu_joules_total, device.joules),
    ] {
        out.put(metric, Quality::Sampled, value.map(Number::Real));
    }
}
