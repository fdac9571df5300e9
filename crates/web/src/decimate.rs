//! A series as columns: of each the least, the greatest and the last value, so that a spike of one sample is seen at
//! every zoom.

use serde::Serialize;
use weigh_keep::{OverviewSlot, SeriesOverview};

const NANOSECONDS: f64 = 1e9;
/// So many slots of an overview in an interval are enough for it, however many columns are asked for.
const SLOTS_ENOUGH: usize = 1000;

/// Which times are asked for, in how many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// The first nanosecond since the Unix epoch.
    pub(crate) from_ns: i64,
    /// The last one.
    pub(crate) to_ns: i64,
    /// Columns, at most.
    pub(crate) points: usize,
}

impl Grid {
    /// Nanoseconds of the interval.
    fn span(&self) -> i128 {
        i128::from(self.to_ns) - i128::from(self.from_ns) + 1
    }

    /// The column that a time is in; none where it is outside.
    fn column(&self, time_ns: i64) -> Option<usize> {
        if time_ns < self.from_ns || time_ns > self.to_ns {
            return None;
        }
        let since = i128::from(time_ns) - i128::from(self.from_ns);
        usize::try_from(since * self.points as i128 / self.span()).ok()
    }
}

/// Columns that are being filled.
pub(crate) struct ColumnBuilder {
    grid: Grid,
    cells: Vec<Option<OverviewSlot>>,
}

impl ColumnBuilder {
    pub(crate) fn new(grid: Grid) -> ColumnBuilder {
        ColumnBuilder { grid, cells: vec![None; grid.points] }
    }

    /// Takes a sample in, in any order of time.
    pub(crate) fn push(&mut self, time_ns: i64, value: f64) {
        if value.is_finite() && time_ns <= self.grid.to_ns {
            self.add(OverviewSlot::new(time_ns, value));
        }
    }

    /// A slot that reaches beyond the end is of the last column: what it has may lie before.
    fn add(&mut self, cell: OverviewSlot) {
        let Some(place) = self.grid.column(cell.last_ns.min(self.grid.to_ns)) else { return };
        match self.cells.get_mut(place) {
            Some(Some(known)) => known.add(cell),
            Some(none) => *none = Some(cell),
            None => {}
        }
    }

    /// The columns that have values.
    pub(crate) fn finish(self) -> Columns {
        let mut columns = Columns::default();
        for cell in self.cells.into_iter().flatten() {
            columns.time.push(cell.last_ns as f64 / NANOSECONDS);
            columns.min.push(cell.min);
            columns.max.push(cell.max);
            columns.last.push(cell.last);
        }
        columns
    }
}

/// Columns of a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Columns {
    /// When the last value of each was taken: seconds since the Unix epoch.
    pub(crate) time: Vec<f64>,
    /// The least value of each.
    pub(crate) min: Vec<f64>,
    /// The greatest.
    pub(crate) max: Vec<f64>,
    /// The last.
    pub(crate) last: Vec<f64>,
}

impl Columns {
    /// Little endian: how many there are (32 bits), then times, least, greatest and last values (64 bits each).
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let count = self.time.len() as u32;
        let mut bytes = Vec::with_capacity(4 + 32 * self.time.len());
        bytes.extend(count.to_le_bytes());
        for values in [&self.time, &self.min, &self.max, &self.last] {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes
    }
}

/// Whether an overview is fine enough for these columns.
pub(crate) fn resolves(series: &SeriesOverview, grid: Grid) -> bool {
    series.slot_ns() * grid.points as i128 <= grid.span()
        || series.slot_ns() == 1
        || series.slots_in(grid.from_ns, grid.to_ns).len() >= SLOTS_ENOUGH
}

/// The columns of an overview, as fine as it has them.
pub(crate) fn columns(series: &SeriesOverview, grid: Grid) -> Columns {
    let mut columns = ColumnBuilder::new(grid);
    series.slots_in(grid.from_ns, grid.to_ns).iter().for_each(|slot| columns.add(*slot));
    columns.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greatest(series: &SeriesOverview, grid: Grid) -> f64 {
        columns(series, grid).max.into_iter().fold(0.0, f64::max)
    }

    const TICK_NS: i64 = 100_000_000;
    const START_NS: i64 = 1_790_000_000_000_000_000;

    #[test]
    fn a_spike_of_one_sample_in_a_million_is_seen_at_every_zoom() {
        let mut series = SeriesOverview::default();
        for i in 0..1_000_000 {
            let value = match i {
                654_321 => 1e9,
                123_456 => -1e9,
                _ => (i % 7) as f64,
            };
            series.push(START_NS + i * TICK_NS, value);
        }
        let (first, last) = series.interval().unwrap();
        for points in [1, 7, 100, 1000, 20_000] {
            let grid = Grid { from_ns: first, to_ns: last, points };
            assert!(resolves(&series, grid), "{points}");
            let columns = columns(&series, grid);
            assert!(columns.time.len() <= points);
            assert_eq!(columns.max.iter().copied().fold(0.0, f64::max), 1e9, "{points}");
            assert_eq!(columns.min.iter().copied().fold(0.0, f64::min), -1e9, "{points}");
            assert!(columns.time.windows(2).all(|pair| pair[0] < pair[1]));
            assert_eq!(columns.last.last(), Some(&f64::from(999_999 % 7)));
        }
        let close = START_NS + 654_321 * TICK_NS;
        // Whatever stretch it is the last of.
        let long = Grid { from_ns: first, to_ns: close, points: 100 };
        assert!(resolves(&series, long));
        assert_eq!(greatest(&series, long), 1e9);
        let grid = Grid { from_ns: close - 10 * TICK_NS, to_ns: close + 10 * TICK_NS, points: 500 };
        assert!(!resolves(&series, grid), "a zoom into it has to be read again");
    }

    #[test]
    fn columns_of_samples_and_of_an_overview_agree() {
        let mut series = SeriesOverview::default();
        let grid = Grid { from_ns: 1000, to_ns: 1999, points: 10 };
        let mut columns = ColumnBuilder::new(grid);
        for i in 0..3000 {
            series.push(i, ((i * 37) % 101) as f64);
            columns.push(i, ((i * 37) % 101) as f64);
        }
        assert!(resolves(&series, grid));
        let columns = columns.finish();
        assert_eq!(columns.time.len(), 10);
        assert_eq!(columns, super::columns(&series, grid));
        assert_eq!(columns.last[0], ((1099 * 37) % 101) as f64);
    }

    #[test]
    fn bytes_are_a_count_and_four_arrays() {
        let mut columns = ColumnBuilder::new(Grid { from_ns: 0, to_ns: 9, points: 2 });
        columns.push(1, 4.0);
        columns.push(2, 3.0);
        let bytes = columns.finish().to_bytes();
        let doubles: Vec<f64> = bytes[4..]
            .chunks(8)
            .map(|eight| f64::from_le_bytes(eight.try_into().unwrap()))
            .collect();
        assert_eq!((bytes[..4].to_vec(), doubles), (vec![1, 0, 0, 0], vec![2e-9, 3.0, 4.0, 3.0]));
    }
}
