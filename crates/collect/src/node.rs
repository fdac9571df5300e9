//! Collectors of the whole machine: what `/proc` and `/sys` say of CPUs, memory, disks, interfaces, sensors and mounts.
//!
//! Reads one kernel source per collector, by descriptors that stay open; emits a block of samples per collector. One
//! that fails never stops the others: it is skipped, counted, opened again after a pause that grows, and says why.
//! In the steady state a tick allocates nothing.

mod block;
mod cpu;
mod disks;
mod drm;
mod error;
mod file;
mod filesystems;
mod gpus;
mod group_info;
mod group_source;
mod group_tree;
mod groups;
mod interfaces;
mod machine;
mod memory;
mod mounts;
mod names;
mod power;
mod pressure;
mod reader;
mod sensors;
#[cfg(test)]
mod tests;

use std::time::Duration;

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::CollectorState;
use weigh_schema::sample::{Sample, SampleTable};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

use block::SampleBlock;
pub use error::{NodeError, NodeRoots};
use file::ReadBuffer;
pub use group_info::NodeGroup;
use reader::NodeReader;
pub use weigh_parse::node::GroupKind;

use crate::clock::Moment;

/// Opens what a collector reads.
type OpenReader = fn(&NodeRoots, &mut ReadBuffer) -> Result<Box<dyn NodeReader>, NodeError>;

/// The declaration of a collector.
struct NodeCollector {
    name: &'static str,
    mechanism: Mechanism,
    /// It is read no more often than this.
    period: Duration,
    /// The same while nobody reads the node: then rules alone use it, whose times are longer.
    resting_period: Duration,
    /// The longest pause before it is opened again.
    longest_pause: Duration,
    open: OpenReader,
}

const fn of_proc(name: &'static str, open: OpenReader) -> NodeCollector {
    let (period, longest_pause) = (Duration::ZERO, Duration::from_secs(60));
    let resting_period = Duration::ZERO;
    NodeCollector { name, mechanism: Mechanism::Proc, period, resting_period, longest_pause, open }
}

impl NodeCollector {
    const fn each_second(self) -> NodeCollector {
        NodeCollector { period: SECOND, resting_period: SLOW, ..self }
    }

    const fn slow(self) -> NodeCollector {
        NodeCollector { period: SLOW, resting_period: SLOW, ..self }
    }

    /// At each tick that somebody reads.
    const fn slow_at_rest(self) -> NodeCollector {
        NodeCollector { resting_period: SLOW, ..self }
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// Space changes slowly, and windows of minutes are looked at.
const SLOW: Duration = Duration::from_secs(5);

/// What they are for.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "node",
    "CPUs, memory, disks, interfaces, sensors, NFS, Lustre and control groups of the machine (`weigh top`, `serve`, `agent`)",
    None,
)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "none; energy of the CPUs is root's",
    scope: "machine",
    intrusiveness: Intrusiveness::None,
    cost: "reads of /proc and /sys at each tick, which is once a second unless asked for more often",
});

/// Every collector of the node.
const COLLECTORS: &[NodeCollector] = &[
    of_proc("cpu", cpu::open),
    // The kernel computes the load each 5 s, sums open files in batches, and adds up events over all CPUs at each reading:
    // more often than once a second costs much and says little.
    of_proc("load", machine::open_load).each_second(),
    of_proc("processes", machine::open_processes).slow_at_rest(),
    of_proc("files", machine::open_files).each_second(),
    of_proc("memory", memory::open_meminfo),
    of_proc("vmstat", memory::open_vmstat).each_second(),
    // Three files, of each of which the kernel adds up all CPUs at a reading.
    of_proc("pressure", pressure::open).slow_at_rest(),
    of_proc("disks", disks::open),
    of_proc("interfaces", interfaces::open),
    of_proc("filesystems", filesystems::open).slow(),
    of_proc("nfs", mounts::open_nfs).each_second(),
    of_proc("lustre", mounts::open_lustre).each_second(),
    of_proc("sensors", sensors::open).each_second(),
    of_proc("power", power::open).slow_at_rest(),
    NodeCollector {
        mechanism: Mechanism::Nvml,
        longest_pause: Duration::from_secs(600),
        ..of_proc("gpu", gpus::open).each_second()
    },
    NodeCollector { period: drm::PERIOD, ..of_proc("drm", drm::open).slow() },
    of_proc("groups", groups::open).each_second(),
];

/// How a collector of the node fares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeStatus<'a> {
    /// Its name.
    pub name: &'static str,
    /// How it gets its values.
    pub mechanism: Mechanism,
    /// Whether it has values now, had some, or never had any.
    pub state: CollectorState,
    /// Why it has none.
    pub reason: Option<&'a str>,
    /// When it last had values; where it has none now: no data since then.
    pub last: Option<Moment>,
    /// Attempts that failed, to open it or to read it.
    pub failures: u64,
    /// Values of the last tick for which there was no room.
    pub left_out: u64,
}

/// The samples of a collector.
#[derive(Clone, Copy)]
pub struct NodeBlock<'a> {
    block: &'a SampleBlock,
    is_fresh: bool,
    /// When its values were read; none where there are none.
    pub last: Option<Moment>,
}

impl<'a> NodeBlock<'a> {
    /// All samples, whenever they were read.
    pub fn samples(self) -> impl Iterator<Item = Sample<'a>> {
        self.block.samples()
    }
}

impl SampleTable for NodeBlock<'_> {
    fn layout(&self) -> u64 {
        self.block.layout()
    }

    fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    fn places(&self) -> usize {
        self.block.len()
    }

    fn sample(&self, place: usize) -> Sample<'_> {
        self.block.sample(place)
    }
}

/// A collector, open or waiting to be opened again.
struct CollectorSlot {
    declaration: &'static NodeCollector,
    /// Whether it is read at all.
    is_on: bool,
    /// Whether nobody reads the node.
    rests: bool,
    reader: Option<Box<dyn NodeReader>>,
    block: SampleBlock,
    /// Whether the block changed at the last tick.
    is_fresh: bool,
    due_ns: u64,
    last: Option<Moment>,
    failures: u64,
    /// Since it last had values: the pause grows with them.
    failures_in_a_row: u32,
    reason: Option<String>,
}

/// The collectors of the node.
pub struct NodeCollectors {
    roots: NodeRoots,
    slots: Vec<CollectorSlot>,
    buffer: ReadBuffer,
}

impl Default for NodeCollectors {
    fn default() -> NodeCollectors {
        NodeCollectors::new(NodeRoots::default())
    }
}

impl NodeCollectors {
    /// None is open yet.
    pub fn new(roots: NodeRoots) -> NodeCollectors {
        let slots = COLLECTORS.iter().map(CollectorSlot::new).collect();
        NodeCollectors { roots, slots, buffer: ReadBuffer::default() }
    }

    /// Reads each collector that is due.
    pub fn tick(&mut self, now: Moment) {
        for slot in &mut self.slots {
            slot.tick(now, &self.roots, &mut self.buffer);
        }
    }

    /// Whether nobody reads the node, from the next tick on: then what is dear or slow is read each 5 s.
    pub fn set_resting(&mut self, rests: bool) {
        self.slots.iter_mut().for_each(|slot| slot.set_resting(rests));
    }

    /// Reads a collector from the next tick on, or not. Whether there is one of that name.
    pub fn switch(&mut self, name: &str, is_on: bool) -> bool {
        let slot = self.slots.iter_mut().find(|slot| slot.declaration.name == name);
        let Some(slot) = slot else { return false };
        slot.switch(is_on);
        true
    }

    /// What the last tick has changed: values, and values that are no longer known.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.slots.iter().filter(|slot| slot.is_fresh).flat_map(|slot| slot.block.samples())
    }

    /// The samples of each collector, always in the same order.
    pub fn blocks(&self) -> impl Iterator<Item = NodeBlock<'_>> {
        self.slots.iter().map(|slot| NodeBlock {
            block: &slot.block,
            is_fresh: slot.is_fresh,
            last: slot.last,
        })
    }

    /// The control groups that are jobs, units or containers, as the last tick found them.
    pub fn groups(&self) -> impl Iterator<Item = &NodeGroup> {
        self.slots.iter().filter_map(|slot| slot.reader.as_ref()).flat_map(|reader| reader.groups())
    }

    /// How each collector fares.
    pub fn statuses(&self) -> impl Iterator<Item = NodeStatus<'_>> {
        self.slots.iter().map(CollectorSlot::status)
    }
}

/// A tick may come a little early.
const EARLY_NS: u64 = 50_000_000;

impl CollectorSlot {
    fn new(declaration: &'static NodeCollector) -> CollectorSlot {
        CollectorSlot {
            declaration,
            is_on: true,
            rests: false,
            reader: None,
            block: SampleBlock::default(),
            is_fresh: false,
            due_ns: 0,
            last: None,
            failures: 0,
            failures_in_a_row: 0,
            reason: None,
        }
    }

    fn tick(&mut self, now: Moment, roots: &NodeRoots, buffer: &mut ReadBuffer) {
        self.is_fresh = false;
        if !self.is_on {
            return self.rest();
        }
        if now.ns() < self.due_ns {
            return;
        }
        match self.read(roots, buffer) {
            Ok(()) => self.succeeded(now),
            Err(error) => self.failed(now, &error),
        }
    }

    fn read(&mut self, roots: &NodeRoots, buffer: &mut ReadBuffer) -> Result<(), NodeError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => self.reader.insert((self.declaration.open)(roots, buffer)?),
        };
        let mut writer = self.block.writer();
        reader.read(buffer, &mut writer)?;
        writer.finish();
        Ok(())
    }

    fn succeeded(&mut self, now: Moment) {
        self.is_fresh = true;
        self.last = Some(now);
        self.failures_in_a_row = 0;
        self.reason = None;
        self.due_ns = self.next_ns(now);
    }

    /// When it is due again after it was read.
    fn next_ns(&self, last: Moment) -> u64 {
        let NodeCollector { period, resting_period, .. } = self.declaration;
        let period = if self.rests { resting_period } else { period }.as_nanos() as u64;
        last.ns().saturating_add(period.saturating_sub(EARLY_NS))
    }

    /// Who begins to read waits no longer than the shorter period; a pause after a failure stays.
    fn set_resting(&mut self, rests: bool) {
        self.rests = rests;
        if let Some(last) = self.last.filter(|_| self.reason.is_none() && self.is_on) {
            self.due_ns = self.next_ns(last);
        }
    }

    /// What was known is known no longer; it is closed, and opened again later.
    fn failed(&mut self, now: Moment, error: &NodeError) {
        // Said once: from then on nothing changes.
        self.is_fresh = self.failures_in_a_row == 0 && !self.block.is_empty();
        self.block.forget();
        self.reader = None;
        self.failures += 1;
        self.failures_in_a_row += 1;
        self.reason = Some(weigh_schema::printable::in_words(error.to_string()));
        let growing = SECOND.saturating_mul(1 << self.failures_in_a_row.min(12).saturating_sub(1));
        // What the machine has not got seldom comes.
        let is_absent = matches!(error, NodeError::Absent(_)) && self.last.is_none();
        let longest = self.declaration.longest_pause;
        let pause = if is_absent { longest } else { growing.min(longest) }.as_nanos() as u64;
        self.due_ns = now.ns().saturating_add(pause);
    }

    fn switch(&mut self, is_on: bool) {
        if self.is_on != is_on {
            (self.is_on, self.reader, self.reason) = (is_on, None, None);
            (self.due_ns, self.failures_in_a_row) = (0, 0);
        }
    }

    /// It is off: what was known is known no longer, said once.
    fn rest(&mut self) {
        if self.due_ns == 0 {
            self.is_fresh = !self.block.is_empty();
            self.block.forget();
            self.due_ns = u64::MAX;
        }
    }

    fn status(&self) -> NodeStatus<'_> {
        let state = match (&self.reason, self.last) {
            _ if !self.is_on => CollectorState::Disabled,
            (None, _) => CollectorState::Active,
            (Some(_), Some(_)) => CollectorState::Degraded,
            (Some(_), None) => CollectorState::Unavailable,
        };
        NodeStatus {
            name: self.declaration.name,
            mechanism: self.declaration.mechanism,
            state,
            reason: self.reason.as_deref(),
            last: self.last,
            failures: self.failures,
            left_out: self.block.left_out(),
        }
    }
}
