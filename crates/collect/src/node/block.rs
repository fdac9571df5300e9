//! The samples of one collector. Their order stays from tick to tick, so that a tick only overwrites values.

use weigh_schema::sample::Sample;
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Number, Quality, Unit};

/// Samples of a collector at most: a machine with more than that many devices is not shown whole.
const MOST: usize = 1 << 16;

/// What several samples are about, by the kernel's bytes and as a scope.
struct Instance {
    key: [Vec<u8>; 2],
    scope: Scope,
}

struct Series {
    instance: usize,
    metric: &'static Metric,
    quality: Quality,
    value: Option<Number>,
}

/// The samples of one collector.
#[derive(Default)]
pub(super) struct SampleBlock {
    instances: Vec<Instance>,
    series: Vec<Series>,
    left_out: u64,
    /// Counts changes of what stands where.
    layout: u64,
}

impl SampleBlock {
    /// Begins to write the values of a tick.
    pub fn writer(&mut self) -> BlockWriter<'_> {
        self.left_out = 0;
        BlockWriter { block: self, instances: 0, series: 0 }
    }

    /// All samples, in the order in which they were written.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.series.iter().map(|series| self.sample_of(series))
    }

    fn sample_of(&self, series: &Series) -> Sample<'_> {
        Sample {
            scope: &self.instances[series.instance].scope,
            metric: series.metric,
            value: series.value,
            quality: series.quality,
        }
    }

    /// The sample at a place, in the order in which they were written.
    pub fn sample(&self, place: usize) -> Sample<'_> {
        self.sample_of(&self.series[place])
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Another number as soon as any place has another scope or metric.
    pub fn layout(&self) -> u64 {
        self.layout
    }

    fn shorten(&mut self, instances: usize, series: usize) {
        if self.instances.len() > instances || self.series.len() > series {
            self.layout += 1;
        }
        self.instances.truncate(instances);
        self.series.truncate(series);
    }

    /// No value is known any more.
    pub fn forget(&mut self) {
        for series in &mut self.series {
            (series.value, series.quality) = (None, Quality::Unavailable);
        }
    }

    /// Whether there never was a sample.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Samples of the last tick for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Writes the samples of a tick over those of the last one. Where instance or metric differ from it, all that follow are
/// made anew.
pub(super) struct BlockWriter<'a> {
    block: &'a mut SampleBlock,
    instances: usize,
    series: usize,
}

impl BlockWriter<'_> {
    /// What the next samples are about; `scope` is called where it is new.
    pub fn instance(&mut self, key: [&[u8]; 2], scope: impl FnOnce() -> Scope) {
        let is_same = |instance: &Instance| instance.key[0] == key[0] && instance.key[1] == key[1];
        if !self.block.instances.get(self.instances).is_some_and(is_same) {
            self.block.shorten(self.instances, self.series);
            let key = key.map(<[u8]>::to_vec);
            self.block.instances.push(Instance { key, scope: scope() });
        }
        self.instances += 1;
    }

    /// The whole node.
    pub fn node(&mut self) {
        self.instance([b"node", b""], || Scope::Node);
    }

    /// A value about the last instance.
    pub fn put(&mut self, metric: &'static Metric, quality: Quality, value: Option<Number>) {
        let Some(instance) = self.instances.checked_sub(1) else { return };
        if self.series >= MOST {
            self.block.left_out += 1;
            return;
        }
        let quality = if value.is_some() { quality } else { Quality::Unavailable };
        let next = Series { instance, metric, quality, value };
        match self.block.series.get_mut(self.series) {
            Some(series) if series.instance == instance && std::ptr::eq(series.metric, metric) => {
                *series = next
            }
            _ => {
                self.block.series.truncate(self.series);
                self.block.series.push(next);
                self.block.layout += 1;
            }
        }
        self.series += 1;
    }

    /// A whole number.
    pub fn count(&mut self, metric: &'static Metric, quality: Quality, value: Option<u64>) {
        self.put(metric, quality, value.map(Number::Whole));
    }

    /// A whole number of parts, of which so many are one.
    pub fn parts(
        &mut self,
        metric: &'static Metric,
        quality: Quality,
        value: Option<u64>,
        of_one: f64,
    ) {
        debug_assert!(metric.unit != Unit::Bytes && metric.unit != Unit::Count, "{}", metric.name);
        self.put(metric, quality, value.map(|parts| Number::Real(parts as f64 / of_one)));
    }

    /// So many samples are not written, for lack of room.
    pub fn leave_out(&mut self, samples: u64) {
        self.block.left_out += samples;
    }

    /// What was there and was not written is gone.
    pub fn finish(self) {
        self.block.shorten(self.instances, self.series);
    }
}
