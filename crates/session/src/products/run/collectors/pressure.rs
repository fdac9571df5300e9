//! The node's pressure while the job ran: for how long somebody on the whole machine waited for a resource (PSI).
//!
//! Reads the kernel's totals in `/proc/pressure` just before the command begins and just after the job has ended; emits
//! the difference. Where the kernel does not keep them the values are unavailable.

use std::time::Duration;

use weigh_collect::procfs::{self, number_after};
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};
use weigh_schema::{Mechanism, Unit, Value, metric, metric_name};

use super::collector::{
    ActiveCollector, CollectorSource, Findings, LiveValues, MissingCollector, Sampler,
};
use crate::products::run::recorder::Recorder;

/// What it is for.
pub(super) const INFO: CollectorInfo = CollectorInfo::new(
    "pressure",
    "for how long anything on the machine waited for CPU, memory or I/O",
    None,
)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "none",
    scope: "machine",
    intrusiveness: Intrusiveness::None,
    cost: "nine reads of /proc in all",
});
const FOLDER: &str = "/proc/pressure";

/// The metrics, each with its file and line. That of the CPU has no second line that means anything: somebody runs.
const TOTALS: [(&str, &str, &str); 5] = [
    (metric_name::node_pressure_cpu_some_seconds_total, "cpu", "some"),
    (metric_name::node_pressure_memory_some_seconds_total, "memory", "some"),
    (metric_name::node_pressure_memory_full_seconds_total, "memory", "full"),
    (metric_name::node_pressure_io_some_seconds_total, "io", "some"),
    (metric_name::node_pressure_io_full_seconds_total, "io", "full"),
];
const ALL: &[&str] = &[TOTALS[0].0, TOTALS[1].0, TOTALS[2].0, TOTALS[3].0, TOTALS[4].0];

/// The kernel's totals in microseconds, in the order of [`TOTALS`].
type Microseconds = [u64; TOTALS.len()];

/// It needs no option to turn it off: it reads nine files in all.
pub(super) fn start() -> ActiveCollector {
    let collector: Box<dyn CollectorSource> = match read(FOLDER) {
        Ok(before) => Box::new(Pressure { before, latest: before }),
        Err(reason) => Box::new(MissingCollector {
            name: INFO.name.to_string(),
            mechanism: Mechanism::Proc,
            state: CollectorState::Unavailable,
            reason,
            metrics: ALL,
        }),
    };
    ActiveCollector { metrics: ALL, mechanism: Mechanism::Proc, collector }
}

fn read(folder: &str) -> Result<Microseconds, String> {
    let mut totals = Microseconds::default();
    let mut latest = ("", Vec::new());
    for (total, (_, file, line)) in totals.iter_mut().zip(TOTALS) {
        let path = format!("{folder}/{file}");
        // The kernel adds up over all CPUs each time that one is read: both lines are of one reading.
        if latest.0 != file {
            latest = (file, text_of(&path)?);
        }
        let of_line = total_of(&latest.1, line);
        *total = of_line.ok_or_else(|| format!("{path} has no total of '{line}'"))?;
    }
    Ok(totals)
}

fn text_of(path: &str) -> Result<Vec<u8>, String> {
    procfs::read(path).map_err(|error| {
        format!(
            "{error}: the kernel keeps no pressure (it was built without CONFIG_PSI, or starts without psi=1)"
        )
    })
}

/// The total of a line: `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`.
fn total_of(text: &[u8], line: &str) -> Option<u64> {
    let line =
        text.split(|byte| *byte == b'\n').find(|found| found.starts_with(line.as_bytes()))?;
    let at = line.windows(6).position(|part| part == b"total=")?;
    number_after(&line[at..], b"total=")
}

struct Pressure {
    before: Microseconds,
    latest: Microseconds,
}

impl Pressure {
    /// What stands is the last that could be read.
    fn look(&mut self) {
        self.latest = read(FOLDER).unwrap_or(self.latest);
    }

    fn seconds(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let spent = std::array::from_fn::<_, { TOTALS.len() }, _>(|i| {
            self.latest[i].saturating_sub(self.before[i]) as f64 / 1e6
        });
        ALL.iter().copied().zip(spent)
    }
}

impl CollectorSource for Pressure {
    fn begin(&mut self) {
        self.look();
        self.before = self.latest;
    }

    fn sampler(&mut self) -> Option<&mut dyn Sampler> {
        Some(self)
    }

    fn live_values(&self) -> Option<&dyn LiveValues> {
        Some(self)
    }

    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder) -> CollectorStatus {
        findings.given.extend(self.seconds().map(|(name, seconds)| {
            let unit = metric(name).map_or(Unit::Seconds, |metric| metric.unit);
            let value = Value::exact(unit, seconds, Mechanism::Proc);
            (name.to_string(), value)
        }));
        CollectorStatus::new(INFO.name, Mechanism::Proc, CollectorState::Active, None)
    }
}

impl Sampler for Pressure {
    /// The last look is made when the job has just ended, before other collectors take their time.
    fn samples(&mut self, _: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        self.look();
        Vec::new()
    }

    fn is_of_windows(&self) -> bool {
        true
    }
}

impl LiveValues for Pressure {
    fn value(&self, name: &str) -> Option<f64> {
        self.seconds().find_map(|(known, seconds)| (known == name).then_some(seconds))
    }

    fn looks_apart(&self, _metric: &str) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: &[u8] = b"some avg10=1.55 avg60=2.20 avg300=12.18 total=21251265428\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";

    #[test]
    fn totals_are_of_their_line() {
        assert_eq!(total_of(IO, "some"), Some(21_251_265_428));
        assert_eq!(total_of(IO, "full"), Some(7));
        assert_eq!(total_of(b"some avg10=1.55\n", "some"), None);
        assert_eq!(total_of(b"", "some"), None);
    }

    #[test]
    fn every_total_is_a_metric() {
        for name in ALL {
            assert!(metric(name).is_some_and(|metric| metric.unit == Unit::Seconds), "{name}");
        }
    }

    #[test]
    fn where_the_kernel_keeps_none_the_reason_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().to_str().expect("a text");
        let why = read(folder).expect_err("nothing is there");
        assert!(why.contains(folder) && why.contains("psi=1"), "{why}");
        for file in ["cpu", "memory", "io"] {
            std::fs::write(format!("{folder}/{file}"), IO).expect("a file");
        }
        assert_eq!(read(folder), Ok([21_251_265_428, 21_251_265_428, 7, 21_251_265_428, 7]));
    }

    /// The kernel's own totals, read before and after by the test, hold it from both sides.
    #[test]
    fn the_difference_is_the_kernels() {
        let Ok(before) = read(FOLDER) else {
            println!("ignored: this kernel keeps no pressure");
            return;
        };
        let mut pressure = Pressure { before: [0; 5], latest: [0; 5] };
        pressure.begin();
        let begun = read(FOLDER).expect("as before");
        // More threads than CPUs: some of them wait.
        let threads = 3 * std::thread::available_parallelism().map_or(1, |count| count.get());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let started = std::time::Instant::now();
                    while started.elapsed().as_millis() < 100 {}
                });
            }
        });
        let ended = read(FOLDER).expect("as before");
        pressure.samples(&Vec::new);
        let after = read(FOLDER).expect("as before");
        for (i, (name, seconds)) in pressure.seconds().enumerate() {
            let least = (ended[i] - begun[i]) as f64 / 1e6;
            let most = (after[i] - before[i]) as f64 / 1e6;
            assert!((least..=most).contains(&seconds), "{name}: {least} {seconds} {most}");
            assert_eq!(pressure.value(name), Some(seconds));
        }
        assert!(pressure.value(ALL[0]) > Some(0.02), "{:?}", pressure.value(ALL[0]));
    }
}
