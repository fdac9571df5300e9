//! Clients of the kernel's DRM: what `fdinfo` of a file of `/dev/dri` says of one.
//!
//! amdgpu and i915 tell the time of engines, xe cycles of an engine's clock beside all that it made: of these a time
//! follows between two looks only.

use std::collections::BTreeMap;
use std::time::Duration;

use weigh_parse::node::{DrmLine, each_drm_line};

/// The device's name on its bus, and the client's number.
pub(crate) type ClientKey = (Vec<u8>, u64);

/// What a client had at one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DrmClient {
    engine_ns: u64,
    /// Of engines that tell it so: cycles for the client, and all.
    cycles: BTreeMap<Vec<u8>, (u64, u64)>,
    /// Its buffers that are resident.
    pub(crate) resident_bytes: u64,
}

impl DrmClient {
    /// For how long engines worked for it since a look, which was so long ago. Of one that is new it is all that is
    /// told as time.
    pub(crate) fn busy_ns_since(&self, before: Option<&DrmClient>, elapsed: Duration) -> u64 {
        let engine_ns = self.engine_ns.saturating_sub(before.map_or(0, |before| before.engine_ns));
        let Some(before) = before else { return engine_ns };
        let of_engine = |(engine, (busy, all)): (&Vec<u8>, &(u64, u64))| {
            let (busy_before, all_before) = *before.cycles.get(engine)?;
            let (busy, all) = (busy.checked_sub(busy_before)?, all.checked_sub(all_before)?);
            (all > 0).then(|| (elapsed.as_nanos() as f64 * (busy as f64 / all as f64)) as u64)
        };
        let by_cycles = self.cycles.iter().filter_map(of_engine);
        by_cycles.fold(engine_ns, u64::saturating_add)
    }
}

/// A client, where the text is of one.
pub(crate) fn parse_client(text: &[u8]) -> Option<(ClientKey, DrmClient)> {
    let (mut device, mut number, mut client) = (None, None, DrmClient::default());
    let mut memory_bytes = 0_u64;
    each_drm_line(text, |line| match line {
        DrmLine::Device(name) => device = Some(name.to_vec()),
        DrmLine::Client(id) => number = Some(id),
        DrmLine::Engine(_, ns) => client.engine_ns = client.engine_ns.saturating_add(ns),
        DrmLine::Cycles(engine, cycles) => {
            client.cycles.entry(engine.to_vec()).or_default().0 = cycles;
        }
        DrmLine::TotalCycles(engine, cycles) => {
            client.cycles.entry(engine.to_vec()).or_default().1 = cycles;
        }
        DrmLine::Resident(_, bytes) => {
            client.resident_bytes = client.resident_bytes.saturating_add(bytes);
        }
        DrmLine::Memory(_, bytes) => memory_bytes = memory_bytes.saturating_add(bytes),
    });
    if client.resident_bytes == 0 {
        client.resident_bytes = memory_bytes;
    }
    Some(((device?, number?), client))
}
