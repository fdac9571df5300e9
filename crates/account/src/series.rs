//! Samples over time from successive readings of the job.

use weigh_schema::event::{JobReading, SharedMemoryReading};
use weigh_schema::{Counter, Formula, METRICS, metric_name};

/// Turns readings into samples; remembers the one before, for rates.
#[derive(Default)]
pub struct Series {
    last: Option<JobReading>,
    /// CPU time and time at the end of the last window of `cores_peak`.
    window: (u64, u64),
    cores_peak: Option<f64>,
    /// Which part of the sum is not shared, and among how many address spaces that was seen.
    shared_part: Option<(f64, u64)>,
}

/// Rates over less time than this say more about the clock tick than about the job.
const SHORTEST_RATE_NS: u64 = 9_000_000;

impl Series {
    /// The samples of one reading, by series name. Counters never go back: a thread that is just
    /// between alive and ended may be missing from a reading for a moment.
    pub fn samples(&mut self, reading: &JobReading) -> Vec<(&'static str, f64)> {
        let mut reading = reading.clone();
        if let Some(last) = &self.last {
            reading.counters = reading.counters.at_least(&last.counters);
        }
        let mut samples = Vec::new();
        for metric in METRICS {
            if let (Some(series), Formula::Sum { .. }) = (metric.series, metric.formula)
                && let Some(value) = crate::summary::sum_of(metric, &reading.counters)
            {
                samples.push((series, value));
            }
        }
        let memory = &reading.memory;
        samples.extend([
            ("memory_bytes", self.memory_now(memory.rss_sum, memory.floor, memory.spaces)),
            ("memory_rss_sum_bytes", memory.rss_sum as f64),
            ("memory_virtual_bytes", memory.virtual_size as f64),
            ("memory_swap_bytes", memory.swap as f64),
            ("processes", reading.population.processes as f64),
            ("threads", reading.population.threads as f64),
            (metric_name::processes_total, reading.population.processes_total as f64),
        ]);
        self.rate(reading, &mut samples);
        samples
    }

    /// Ends a window of `cores_peak` at the last reading that gave a rate. Samples may be closer together.
    pub fn end_window(&mut self) {
        let Some(last) = &self.last else { return };
        let now = (last.counters.get(Counter::Runtime), last.at_ns);
        let elapsed = now.1.saturating_sub(self.window.1);
        if elapsed >= SHORTEST_RATE_NS {
            let cores = now.0.saturating_sub(self.window.0) as f64 / elapsed as f64;
            self.cores_peak = Some(self.cores_peak.unwrap_or(0.0).max(cores));
            self.window = now;
        }
    }

    fn rate(&mut self, reading: JobReading, samples: &mut Vec<(&'static str, f64)>) {
        use Counter::Runtime;
        let (earlier, start) = match &self.last {
            Some(last) => (last.counters.get(Runtime), last.at_ns),
            None => (0, 0),
        };
        let elapsed = reading.at_ns.saturating_sub(start);
        if elapsed >= SHORTEST_RATE_NS {
            let used = reading.counters.get(Runtime).saturating_sub(earlier);
            let cores = used as f64 / elapsed as f64;
            samples.push(("cpu_cores", cores));
            self.last = Some(reading);
        }
    }

    /// The samples of a new memory peak: the sum, its lower bound with sharing counted once, and of how many address
    /// spaces.
    pub fn peak_samples(&self, rss_sum: u64, floor: u64, spaces: u64) -> Vec<(&'static str, f64)> {
        vec![
            ("memory_bytes", self.memory_now(rss_sum, floor, spaces)),
            ("memory_rss_sum_bytes", rss_sum as f64),
        ]
    }

    /// Takes note of which part of the sum is not shared, for the samples that follow.
    pub fn shared(&mut self, look: &SharedMemoryReading) {
        if look.rss_sum_bytes > 0 {
            let part = look.union_bytes as f64 / look.rss_sum_bytes as f64;
            self.shared_part = Some((part, look.spaces));
        }
    }

    /// Memory with sharing counted once. A look at fewer address spaces says nothing of what these have in common.
    fn memory_now(&self, rss_sum: u64, floor: u64, spaces: u64) -> f64 {
        let sum = rss_sum as f64;
        let telling = self.shared_part.filter(|(_, seen)| *seen >= spaces.max(2));
        let part = telling.map_or(0.0, |(part, _)| part);
        (sum * part).clamp((floor as f64).min(sum), sum)
    }

    /// The greatest rate over a window, if one was long enough.
    pub fn cores_peak(&self) -> Option<f64> {
        self.cores_peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ns: u64, runtime: u64) -> JobReading {
        let mut reading = JobReading { at_ns, ..Default::default() };
        reading.counters.set(Counter::Runtime, runtime);
        reading
    }

    #[test]
    fn every_series_is_declared() {
        let declared: Vec<_> = METRICS.iter().filter_map(|m| m.series).collect();
        for (name, _) in Series::default().samples(&reading(1_000_000_000, 1)) {
            assert!(declared.contains(&name), "{name} is not declared");
        }
    }

    #[test]
    fn rates_are_between_readings_and_the_peak_is_kept() {
        let mut series = Series::default();
        series.samples(&reading(1_000_000_000, 500_000_000));
        series.end_window();
        let busy = series.samples(&reading(2_000_000_000, 2_000_000_000));
        series.end_window();
        assert!(busy.contains(&("cpu_cores", 1.5)));
        series.samples(&reading(3_000_000_000, 2_000_000_000));
        series.end_window();
        assert_eq!(series.cores_peak(), Some(1.5));
    }

    #[test]
    fn the_peak_is_over_windows_however_close_the_samples_are() {
        let mut series = Series::default();
        let burst = series.samples(&reading(10_000_000, 40_000_000));
        assert!(burst.contains(&("cpu_cores", 4.0)));
        series.samples(&reading(500_000_000, 40_000_000));
        assert_eq!(series.cores_peak(), None);
        series.samples(&reading(1_000_000_000, 500_000_000));
        series.end_window();
        assert_eq!(series.cores_peak(), Some(0.5));
        // A last window that is too short says nothing.
        series.samples(&reading(1_002_000_000, 502_000_000));
        series.end_window();
        assert_eq!(series.cores_peak(), Some(0.5));
    }

    #[test]
    fn memory_that_may_be_shared_counts_once_until_a_look_tells() {
        let mut series = Series::default();
        let memory = |samples: Vec<(&str, f64)>| samples[0].1;
        assert_eq!(memory(series.peak_samples(840, 421, 2)), 421.0);
        let look = |union_bytes, rss_sum_bytes, spaces| SharedMemoryReading {
            at_ns: 1,
            union_bytes,
            rss_sum_bytes,
            spaces,
            certain_bytes: None,
        };
        series.shared(&look(420, 420, 1));
        assert_eq!(memory(series.peak_samples(840, 421, 2)), 421.0);
        series.shared(&look(630, 840, 2));
        assert_eq!(memory(series.peak_samples(840, 421, 2)), 630.0);
        assert_eq!(memory(series.peak_samples(1260, 421, 3)), 421.0);
    }

    #[test]
    fn a_counter_never_goes_back() {
        let mut series = Series::default();
        series.samples(&reading(1_000_000_000, 500_000_000));
        let after = series.samples(&reading(2_000_000_000, 400_000_000));
        assert!(after.contains(&("cpu_seconds", 0.5)));
    }
}
