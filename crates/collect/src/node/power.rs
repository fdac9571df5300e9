//! Reads energy counters of `/sys/class/powercap`; emits `node_power_zone_joules_total`, from the first reading on. Not run
//! on a real one.

use std::path::Path;

use weigh_parse::node::attribute;
use weigh_schema::Quality;
use weigh_schema::node_metric::node_power_zone_joules_total;
use weigh_schema::update::Scope;

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer, first_line, names_in};
use super::reader::NodeReader;

struct Zone {
    file: KernelFile,
    name: String,
    /// Where the counter begins again.
    range_uj: u64,
    last_uj: Option<u64>,
    total_uj: u64,
}

struct Power(Vec<Zone>);

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let class = roots.sys.join("class/powercap");
    let mut zones = Vec::new();
    for folder in names_in(&class) {
        let path = class.join(&folder);
        if path.join("energy_uj").exists() {
            zones.push(open_zone(&path, &folder)?);
        }
    }
    match zones.is_empty() {
        true => Err(NodeError::Absent(format!(
            "this machine has no power zones in {}",
            class.display()
        ))),
        false => Ok(Box::new(Power(zones))),
    }
}

/// `intel-rapl:0:0/core`.
fn open_zone(path: &Path, folder: &str) -> Result<Zone, NodeError> {
    let name = first_line(&path.join("name")).unwrap_or_default();
    let range = first_line(&path.join("max_energy_range_uj")).and_then(|text| text.parse().ok());
    Ok(Zone {
        file: KernelFile::open(path.join("energy_uj"), FileShape::Small)?,
        name: format!("{folder}/{name}"),
        range_uj: range.unwrap_or(u64::MAX),
        last_uj: None,
        total_uj: 0,
    })
}

impl Zone {
    fn add(&mut self, now_uj: u64) {
        let step = self.last_uj.map_or(0, |last| match now_uj.checked_sub(last) {
            Some(step) => step,
            None => self.range_uj.saturating_sub(last).saturating_add(now_uj),
        });
        self.total_uj = self.total_uj.saturating_add(step);
        self.last_uj = Some(now_uj);
    }
}

impl NodeReader for Power {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        for zone in &mut self.0 {
            let now = zone.file.read(buffer).ok().and_then(attribute);
            let now = now.and_then(|now| u64::try_from(now).ok());
            now.into_iter().for_each(|now| zone.add(now));
            out.instance([b"power", zone.name.as_bytes()], || Scope::PowerZone(zone.name.clone()));
            let total = now.map(|_| zone.total_uj);
            out.parts(&node_power_zone_joules_total, Quality::Estimated, total, 1e6);
        }
        Ok(())
    }
}
