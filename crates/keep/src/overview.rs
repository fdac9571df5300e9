//! Series in bounded memory: as they are while they are short, then in slots of time that get wider as they grow.
//!
//! Of each slot the least, the greatest and the last value are kept, so that a spike of one sample is never lost.
//! Takes samples in any order; refuses values that are no numbers.

use std::collections::{BTreeMap, HashMap};

use crate::sample_scan::ScannedSample;

/// Slots of a series: when there are more, each two become one.
pub(crate) const SLOTS_MOST: usize = 4096;
/// Of the first series of a recording that is followed: so fine that a stretch which they do not resolve is short.
const FINE_SLOTS_MOST: usize = 16_384;
/// So many of them.
const FINE_SERIES: usize = 64;
/// Series of one recording that have an overview.
pub(crate) const SERIES_MOST: usize = 256;
/// A longer name is nobody's.
const NAME_BYTES_MOST: usize = 1024;
/// Other series that are counted.
pub(crate) const COUNTED_MOST: usize = 20_000;

/// What fell into one slot of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverviewSlot {
    /// When its last value was taken, nanoseconds since the Unix epoch.
    pub last_ns: i64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The last value.
    pub last: f64,
}

impl OverviewSlot {
    /// A slot of one sample.
    pub fn new(time_ns: i64, value: f64) -> OverviewSlot {
        OverviewSlot { last_ns: time_ns, min: value, max: value, last: value }
    }

    /// Takes in what another slot has.
    pub fn add(&mut self, other: OverviewSlot) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if other.last_ns >= self.last_ns {
            (self.last_ns, self.last) = (other.last_ns, other.last);
        }
    }
}

/// One series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesOverview {
    /// In the order of time.
    pub(crate) slots: Vec<OverviewSlot>,
    /// A slot is 2 to the power of this nanoseconds wide.
    pub(crate) shift: u32,
    pub(crate) samples: u64,
    /// Of all samples.
    pub(crate) first_ns: i64,
}

impl SeriesOverview {
    /// Takes a sample in: quickly, where it is later than all before.
    pub fn push(&mut self, time_ns: i64, value: f64) {
        self.push_within(SLOTS_MOST, time_ns, value);
    }

    fn push_within(&mut self, slots_most: usize, time_ns: i64, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.first_ns = if self.samples == 0 { time_ns } else { self.first_ns.min(time_ns) };
        self.samples += 1;
        let sample = OverviewSlot::new(time_ns, value);
        let slot = time_ns >> self.shift;
        match self.slots.last_mut() {
            Some(last) if last.last_ns >> self.shift == slot => last.add(sample),
            Some(last) if last.last_ns >> self.shift > slot => self.insert(slot, sample),
            _ => self.slots.push(sample),
        }
        while self.slots.len() > slots_most {
            self.widen();
        }
    }

    fn insert(&mut self, slot: i64, sample: OverviewSlot) {
        let shift = self.shift;
        match self.slots.binary_search_by_key(&slot, |known| known.last_ns >> shift) {
            Ok(place) => self.slots[place].add(sample),
            Err(place) => self.slots.insert(place, sample),
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        let shift = self.shift;
        self.slots.dedup_by(|later, earlier| {
            let is_same = later.last_ns >> shift == earlier.last_ns >> shift;
            if is_same {
                earlier.add(*later);
            }
            is_same
        });
    }

    /// The slots that meet an interval, in nanoseconds since the Unix epoch.
    pub fn slots_in(&self, from_ns: i64, to_ns: i64) -> &[OverviewSlot] {
        let shift = self.shift.min(63);
        let from = self.slots.partition_point(|slot| slot.last_ns < from_ns);
        let to = self.slots.partition_point(|slot| (slot.last_ns >> shift) << shift <= to_ns);
        self.slots.get(from..to).unwrap_or_default()
    }

    /// How wide a slot is, in nanoseconds; 1 where each sample has its own.
    pub fn slot_ns(&self) -> i128 {
        if self.samples == self.slots.len() as u64 { 1 } else { 1 << self.shift.min(64) }
    }

    /// How many samples it has.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The times of the first and the last sample.
    pub fn interval(&self) -> Option<(i64, i64)> {
        self.slots.last().map(|last| (self.first_ns, last.last_ns))
    }

    /// The memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<SeriesOverview>() + self.slots.capacity() * size_of::<OverviewSlot>()
    }
}

/// The scope and the name of a series.
pub type SeriesKey = (String, String);

/// All series of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordingOverview {
    /// The first few hundred.
    pub series: BTreeMap<SeriesKey, SeriesOverview>,
    /// Samples of the others.
    pub others: BTreeMap<SeriesKey, u64>,
}

/// An overview that is being made. Samples come in rounds: after one series the same one follows as in the round before.
#[derive(Default)]
pub struct OverviewReading {
    keys: Vec<SeriesKey>,
    series: Vec<SeriesOverview>,
    /// After each series the one that followed it.
    next: Vec<usize>,
    places: HashMap<SeriesKey, usize>,
    others: BTreeMap<SeriesKey, u64>,
    last: usize,
    is_fine: bool,
}

impl OverviewReading {
    /// One with more slots for the first series: of a recording that is followed, whose samples are dear to read.
    pub fn fine() -> OverviewReading {
        OverviewReading { is_fine: true, ..OverviewReading::default() }
    }

    /// Takes a sample in.
    pub fn push(&mut self, sample: ScannedSample<'_>) {
        let place = match self.next.get(self.last) {
            Some(place) if self.is_at(*place, &sample) => Some(*place),
            _ => self.look_up(&sample),
        };
        if let Some(place) = place {
            let slots =
                if self.is_fine && place < FINE_SERIES { FINE_SLOTS_MOST } else { SLOTS_MOST };
            self.series[place].push_within(slots, sample.time_ns, sample.value);
            self.next[self.last] = place;
            self.last = place;
        }
    }

    fn is_at(&self, place: usize, sample: &ScannedSample<'_>) -> bool {
        let (scope, metric) = &self.keys[place];
        metric == sample.metric && scope == sample.scope
    }

    fn look_up(&mut self, sample: &ScannedSample<'_>) -> Option<usize> {
        if sample.scope.len().max(sample.metric.len()) > NAME_BYTES_MOST {
            return None;
        }
        let key = (sample.scope.to_string(), sample.metric.to_string());
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        if self.keys.len() < SERIES_MOST {
            let place = self.keys.len();
            self.keys.push(key.clone());
            self.series.push(SeriesOverview::default());
            self.next.push(place);
            self.places.insert(key, place);
            return Some(place);
        }
        if self.others.len() < COUNTED_MOST || self.others.contains_key(&key) {
            *self.others.entry(key).or_default() += 1;
        }
        None
    }

    /// One series as far as it is read.
    pub fn series(&self, key: &SeriesKey) -> Option<&SeriesOverview> {
        self.places.get(key).map(|place| &self.series[*place])
    }

    /// All series that have an overview.
    pub fn all(&self) -> impl Iterator<Item = (&SeriesKey, &SeriesOverview)> {
        self.keys.iter().zip(&self.series)
    }

    /// The overview.
    pub fn finish(self) -> RecordingOverview {
        let series = self.keys.into_iter().zip(self.series).collect();
        RecordingOverview { series, others: self.others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: i64 = 100_000_000;
    const START_NS: i64 = 1_790_000_000_000_000_000;

    #[test]
    fn a_million_samples_take_bounded_memory_and_none_is_lost_to_the_extremes() {
        let mut series = SeriesOverview::default();
        for i in 0..1_000_000 {
            let value = match i {
                654_321 => 1e9,
                123_456 => -1e9,
                _ => (i % 7) as f64,
            };
            series.push(START_NS + i * TICK_NS, value);
        }
        let slots = &series.slots;
        assert!((SLOTS_MOST / 4..=SLOTS_MOST).contains(&slots.len()), "{}", slots.len());
        assert_eq!(series.interval(), Some((START_NS, START_NS + 999_999 * TICK_NS)));
        assert_eq!(slots.iter().map(|slot| slot.max).fold(0.0, f64::max), 1e9);
        assert_eq!(slots.iter().map(|slot| slot.min).fold(0.0, f64::min), -1e9);
        assert!(slots.windows(2).all(|pair| pair[0].last_ns < pair[1].last_ns));
        assert_eq!(slots.last().map(|slot| slot.last), Some(f64::from(999_999 % 7)));
        assert!(series.slot_ns() > i128::from(TICK_NS) && series.bytes() < 512 * 1024);
    }

    #[test]
    fn what_is_out_of_order_or_no_number_does_no_harm() {
        let mut series = SeriesOverview::default();
        for time in [5, 3, 9, 3, 4] {
            series.push(time, time as f64);
        }
        series.push(6, f64::NAN);
        series.push(7, f64::INFINITY);
        assert_eq!((series.samples(), series.interval()), (5, Some((3, 9))));
        series.push(i64::MAX, 1.0);
        series.push(i64::MIN, 1.0);
        assert_eq!(series.interval(), Some((i64::MIN, i64::MAX)));
        assert_eq!(series.slots.len(), 6);
    }

    #[test]
    fn more_series_than_have_an_overview_are_counted() {
        let mut reading = OverviewReading::default();
        for round in 0..3 {
            for number in 0..SERIES_MOST + 2 {
                let metric = format!("series {number}");
                let (scope, value) = ("job", 1.0);
                reading.push(ScannedSample { time_ns: round, scope, metric: &metric, value });
            }
        }
        let overview = reading.finish();
        assert_eq!((overview.series.len(), overview.others.len()), (SERIES_MOST, 2));
        assert!(overview.series.values().all(|series| series.samples() == 3));
        assert!(overview.others.values().all(|samples| *samples == 3));
    }
}
