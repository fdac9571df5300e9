//! Reads `/proc/pressure`; emits `node_pressure_*_seconds_total`, as the kernel has them since boot.

use weigh_parse::node::pressure_totals;
use weigh_schema::{Metric, Quality, metric, metric_name};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer};
use super::reader::NodeReader;

/// Files, and the metrics of the lines `some` and `full`. That of the CPU has no second line that means anything.
const FILES: [(&str, &str, Option<&str>); 3] = [
    ("cpu", metric_name::node_pressure_cpu_some_seconds_total, None),
    (
        "memory",
        metric_name::node_pressure_memory_some_seconds_total,
        Some(metric_name::node_pressure_memory_full_seconds_total),
    ),
    (
        "io",
        metric_name::node_pressure_io_some_seconds_total,
        Some(metric_name::node_pressure_io_full_seconds_total),
    ),
];

struct PressureFile {
    file: KernelFile,
    metrics: [Option<&'static Metric>; 2],
}

struct Pressure(Vec<PressureFile>);

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let open = |(name, some, full): &(&str, &str, Option<&str>)| {
        let file = KernelFile::open(roots.proc.join("pressure").join(name), FileShape::OneRecord);
        let metrics = [metric(some), full.and_then(metric)];
        file.map(|file| PressureFile { file, metrics })
    };
    let files: Result<Vec<_>, _> = FILES.iter().map(open).collect();
    let files = files.map_err(|error| {
        NodeError::Absent(format!(
            "{error}: the kernel keeps no pressure (it was built without CONFIG_PSI, or starts without psi=1)"
        ))
    });
    Ok(Box::new(Pressure(files?)))
}

impl NodeReader for Pressure {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        out.node();
        for PressureFile { file, metrics } in &self.0 {
            let totals = pressure_totals(file.read(buffer)?);
            if totals == [None; 2] {
                return Err(file.holds_no("total"));
            }
            for (metric, total) in metrics.iter().zip(totals) {
                metric.iter().for_each(|metric| out.parts(metric, Quality::Exact, total, 1e6));
            }
        }
        Ok(())
    }
}
