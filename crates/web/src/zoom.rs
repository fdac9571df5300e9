//! All series of a stretch that no overview resolves: read once for all charts that show it.
//!
//! Takes the samples of the stretch; emits columns of each series. Holds the latest few stretches, in bounded memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weigh_keep::{SampleVisit, ScannedSample, SeriesKey};

use crate::decimate::{ColumnBuilder, Columns, Grid};
use crate::error::ApiError;
use crate::folder::{JobPlace, Stamp};

/// Columns of all series together, while they are filled: 20 MiB.
const CELLS_MOST: usize = 1 << 19;
/// Stretches that are held.
const ZOOMS: usize = 3;

/// Which stretch of which recording, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoomKey {
    pub(crate) place: JobPlace,
    pub(crate) stamp: Stamp,
    /// Up to where its journal is read for it; 0 where there is none.
    pub(crate) journal_end: u64,
    pub(crate) grid: Grid,
}

/// Columns of one stretch.
struct Zoom {
    key: ZoomKey,
    series: HashMap<SeriesKey, Columns>,
    /// Whether there was room for all series.
    is_whole: bool,
}

impl Zoom {
    /// Columns of a series, or that there are none; none where there was no room for it.
    fn columns(&self, series: &SeriesKey) -> Option<Columns> {
        let none = self.is_whole.then(Columns::default);
        self.series.get(series).cloned().or(none)
    }
}

/// The stretches that were looked at last.
#[derive(Default)]
pub(crate) struct ZoomStore {
    /// The latest is the last.
    kept: Mutex<Vec<Arc<Zoom>>>,
    /// One is read at a time: charts of one page ask for the same one.
    reading: Mutex<()>,
}

impl ZoomStore {
    /// Columns of one series in the stretch; `scan` shows all samples of it. None where there is no room for the series.
    pub(crate) fn columns(
        &self,
        key: ZoomKey,
        series: &SeriesKey,
        scan: impl FnOnce(&mut SampleVisit<'_>) -> Result<(), ApiError>,
    ) -> Result<Option<Columns>, ApiError> {
        if let Some(zoom) = self.kept(&key) {
            return Ok(zoom.columns(series));
        }
        let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zoom) = self.kept(&key) {
            return Ok(zoom.columns(series));
        }
        let mut builder = ZoomBuilder::new(key.grid);
        scan(&mut |sample| builder.push(sample))?;
        let zoom = Arc::new(builder.finish(key));
        let columns = zoom.columns(series);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(zoom);
        if kept.len() > ZOOMS {
            kept.remove(0);
        }
        Ok(columns)
    }

    fn kept(&self, key: &ZoomKey) -> Option<Arc<Zoom>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|zoom| zoom.key == *key).cloned()
    }
}

/// Columns of all series that are being filled.
struct ZoomBuilder {
    grid: Grid,
    builders: Vec<(SeriesKey, ColumnBuilder)>,
    /// By metric: the series of that name, of which there are few.
    places: HashMap<String, Vec<usize>>,
    is_whole: bool,
}

impl ZoomBuilder {
    fn new(grid: Grid) -> ZoomBuilder {
        ZoomBuilder { grid, builders: Vec::new(), places: HashMap::new(), is_whole: true }
    }

    fn push(&mut self, sample: ScannedSample<'_>) {
        if let Some(place) = self.place(&sample) {
            self.builders[place].1.push(sample.time_ns, sample.value);
        }
    }

    fn place(&mut self, sample: &ScannedSample<'_>) -> Option<usize> {
        let of_name = self.places.get(sample.metric).map_or(&[][..], Vec::as_slice);
        let is_it = |place: &&usize| self.builders[**place].0.0 == sample.scope;
        if let Some(place) = of_name.iter().find(is_it) {
            return Some(*place);
        }
        let place = self.builders.len();
        if (place + 1) * self.grid.points > CELLS_MOST {
            self.is_whole = false;
            return None;
        }
        let key = (sample.scope.to_string(), sample.metric.to_string());
        self.places.entry(key.1.clone()).or_default().push(place);
        self.builders.push((key, ColumnBuilder::new(self.grid)));
        Some(place)
    }

    fn finish(self, key: ZoomKey) -> Zoom {
        let series = self.builders.into_iter().map(|(key, columns)| (key, columns.finish()));
        Zoom { key, series: series.collect(), is_whole: self.is_whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_read_once_for_all_series_that_there_is_room_for() {
        let store = ZoomStore::default();
        let grid = Grid { from_ns: 0, to_ns: 99, points: CELLS_MOST / 3 };
        let place = JobPlace { folder: 0, name: None };
        let key = ZoomKey { place, stamp: Stamp::default(), journal_end: 7, grid };
        let mut scans = 0;
        let mut columns = |key: &ZoomKey, metric: &str| {
            let series = ("job".to_string(), metric.to_string());
            store
                .columns(key.clone(), &series, |visit| {
                    scans += 1;
                    for metric in ["a", "b", "c", "d"] {
                        visit(ScannedSample { time_ns: 7, scope: "job", metric, value: 2.5 });
                    }
                    Ok(())
                })
                .unwrap()
        };
        assert_eq!(columns(&key, "a").unwrap().last, [2.5]);
        assert_eq!(columns(&key, "c").unwrap().max, [2.5]);
        assert_eq!(columns(&key, "d"), None, "no room");
        let small = ZoomKey { grid: Grid { points: 10, ..grid }, ..key.clone() };
        assert_eq!(columns(&small, "d").unwrap().last, [2.5]);
        assert_eq!(columns(&small, "e").unwrap(), Columns::default());
        let grown = ZoomKey { journal_end: 8, ..key };
        assert!(columns(&grown, "a").is_some());
        assert_eq!(scans, 3);
    }
}
