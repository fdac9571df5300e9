//! Reads `/proc/stat`; emits `node_cpu_*_seconds_total` of each CPU and of all, interrupts, switches, forks, threads that
//! run and that wait for I/O.

use weigh_parse::node::{CpuTicks, StatLine, each_stat_line};
use weigh_schema::node_metric::*;
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer};
use super::reader::NodeReader;

/// In the order of the line. What the timer's ticks meet is sampled.
static STATES: [(&Metric, Quality); 10] = [
    (&node_cpu_user_seconds_total, Quality::Sampled),
    (&node_cpu_nice_seconds_total, Quality::Sampled),
    (&node_cpu_system_seconds_total, Quality::Sampled),
    (&node_cpu_idle_seconds_total, Quality::Sampled),
    (&node_cpu_iowait_seconds_total, Quality::Estimated),
    (&node_cpu_irq_seconds_total, Quality::Sampled),
    (&node_cpu_softirq_seconds_total, Quality::Sampled),
    (&node_cpu_steal_seconds_total, Quality::Exact),
    (&node_cpu_guest_seconds_total, Quality::Sampled),
    (&node_cpu_guest_nice_seconds_total, Quality::Sampled),
];

fn total(name: &[u8]) -> Option<&'static Metric> {
    Some(match name {
        b"intr" => &node_interrupts_total,
        b"ctxt" => &node_context_switches_total,
        b"processes" => &node_forks_total,
        b"procs_running" => &node_threads_running,
        b"procs_blocked" => &node_threads_blocked,
        b"softirq" => &node_softirqs_total,
        _ => return None,
    })
}

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let file = KernelFile::open(roots.proc.join("stat"), FileShape::OneRecord)?;
    Ok(Box::new(Cpu { file, ticks_per_second: rustix::param::clock_ticks_per_second() as f64 }))
}

struct Cpu {
    file: KernelFile,
    ticks_per_second: f64,
}

impl NodeReader for Cpu {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let text = self.file.read(buffer)?;
        let mut has_cpus = false;
        let mut is_in_totals = false;
        each_stat_line(text, |line| match line {
            StatLine::Cpu(core, ticks) => {
                has_cpus = true;
                match core {
                    None => out.node(),
                    Some(core) => {
                        out.instance([b"core", &core.to_ne_bytes()], || Scope::Core(core))
                    }
                }
                self.put_states(&ticks, out);
            }
            StatLine::Total(name, value) => {
                let Some(metric) = total(name) else { return };
                if !std::mem::replace(&mut is_in_totals, true) {
                    out.node();
                }
                out.count(metric, Quality::Exact, Some(value));
            }
        });
        if has_cpus { Ok(()) } else { Err(self.file.holds_no("CPU")) }
    }
}

impl Cpu {
    fn put_states(&self, ticks: &CpuTicks, out: &mut BlockWriter<'_>) {
        for ((metric, quality), ticks) in STATES.iter().zip(ticks) {
            out.parts(metric, *quality, *ticks, self.ticks_per_second);
        }
    }
}
