//! The node: a source of samples of the whole machine, for `weigh top`, the agent, pages and exporters.
//!
//! Reads the collectors of the node, once per interval and with one wake-up each; emits their samples to a sink. A
//! collector that fails is in the statuses; the source itself goes on.

use std::time::{Duration, Instant};

use weigh_collect::clock::Moment;
use weigh_collect::node::{NodeBlock, NodeCollectors, NodeGroup, NodeStatus};
use weigh_schema::sample::Sample;

use crate::command::Command;
use crate::error::SourceError;
use crate::source::Source;

/// What the collectors have found at one time.
#[derive(Clone, Copy)]
pub struct NodeTick<'a> {
    /// When it began, on the clock of recordings.
    pub at: Moment,
    collectors: &'a NodeCollectors,
}

impl<'a> NodeTick<'a> {
    /// Values that this tick has read, and values that are no longer known.
    pub fn samples(self) -> impl Iterator<Item = Sample<'a>> {
        self.collectors.samples()
    }
}

/// Takes what the node's collectors find; borrowed samples, so that a tick allocates nothing.
pub trait SampleSink {
    /// Takes one tick.
    fn take(&mut self, tick: NodeTick<'_>);
}

/// Samples of the node, at an interval.
pub struct NodeSource<S> {
    collectors: NodeCollectors,
    /// What takes them.
    pub sink: S,
    interval: Duration,
    next: Instant,
}

impl<S: SampleSink> NodeSource<S> {
    /// The first tick is at once.
    pub fn new(collectors: NodeCollectors, interval: Duration, sink: S) -> NodeSource<S> {
        NodeSource { collectors, sink, interval, next: Instant::now() }
    }

    /// The collectors.
    pub fn collectors(&mut self) -> &mut NodeCollectors {
        &mut self.collectors
    }

    /// How each collector fares.
    pub fn statuses(&self) -> impl Iterator<Item = NodeStatus<'_>> {
        self.collectors.statuses()
    }

    /// The samples of each collector, always in the same order.
    pub fn blocks(&self) -> impl Iterator<Item = NodeBlock<'_>> {
        self.collectors.blocks()
    }

    /// The control groups of the latest tick.
    pub fn groups(&self) -> impl Iterator<Item = &NodeGroup> {
        self.collectors.groups()
    }

    /// Reads the collectors from now on at another interval.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
        self.next = self.next.min(Instant::now() + interval);
    }

    /// Whether it is time, and then reads.
    pub fn tick_if_due(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        let at = Moment::now();
        self.collectors.tick(at);
        self.sink.take(NodeTick { at, collectors: &self.collectors });
        self.next += self.interval;
        // Ticks that were missed, as while the machine slept, are not made up for.
        if self.next <= now {
            self.next = now + self.interval;
        }
        true
    }
}

impl<S: SampleSink> Source for NodeSource<S> {
    fn deadline(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        self.tick_if_due();
        Ok(())
    }

    fn is_over(&mut self, _: &Command) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Launcher;
    use crate::engine::Session;
    use crate::source::SessionEnd;

    #[derive(Default)]
    struct Counted {
        ticks: Vec<Moment>,
        samples: usize,
    }

    impl SampleSink for Counted {
        fn take(&mut self, tick: NodeTick<'_>) {
            self.ticks.push(tick.at);
            self.samples += tick.samples().filter(|sample| sample.value.is_some()).count();
        }
    }

    #[test]
    fn it_ticks_at_its_interval_until_it_is_stopped() {
        let interval = Duration::from_millis(50);
        let mut source = NodeSource::new(NodeCollectors::default(), interval, Counted::default());
        let end = Some(Instant::now() + Duration::from_millis(500));
        let mut session = Session::new(Launcher::prepare().expect("signals").stay(), end);
        assert_eq!(session.run(&mut source).expect("runs"), SessionEnd::Time);
        let ticks = source.sink.ticks.len();
        // A busy machine may miss some.
        assert!((2..=11).contains(&ticks), "{ticks}");
        assert!(source.sink.samples >= 60 * ticks, "{}", source.sink.samples);
    }
}
