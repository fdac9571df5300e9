//! What limits a job, in one line, as far as its totals say.
//!
//! Reads the summary's metrics. The first rule that holds speaks; of a job that is too short, none.

use weigh_schema::amount::show_amount;
use weigh_schema::metric_name;
use weigh_schema::summary::Summary;
use weigh_schema::{Quality, Unit, Value};

use super::rows::size;

/// Below, a job is over before anything could limit it.
const LEAST_SECONDS: f64 = 0.2;

/// Below, a GPU that was idle says little: programs take seconds to load what they need for one.
const LEAST_GPU_SECONDS: f64 = 30.0;

/// Calls below this size on average are small.
const SMALL: f64 = 4096.0;

/// So many small calls are worth a word.
const MANY: f64 = 10_000.0;

type Rule = fn(&Totals) -> Option<String>;

const RULES: [Rule; 10] =
    [killed, swapping, throttled, storage, crowded, all_cpus, small_calls, gpu, one_cpu, idle];

struct Totals<'a>(&'a Summary);

/// What limits the job, or what to look at next.
pub fn advice(summary: &Summary) -> Option<String> {
    let totals = Totals(summary);
    let is_long = totals.get(metric_name::wall_seconds)? >= LEAST_SECONDS;
    RULES.iter().filter(|_| is_long && summary.exit.is_some()).find_map(|rule| rule(&totals))
}

impl Totals<'_> {
    fn get(&self, name: &str) -> Option<f64> {
        self.0.metrics.get(name).and_then(Value::number)
    }

    /// A value that is known, and not a guess.
    fn known(&self, name: &str) -> f64 {
        let value = self.0.metrics.get(name).filter(|value| value.quality != Quality::Unavailable);
        value.and_then(Value::number).unwrap_or_default()
    }

    fn share_of_wall(&self, name: &str) -> f64 {
        self.known(name) / self.known(metric_name::wall_seconds).max(1e-9)
    }

    fn cpus(&self) -> f64 {
        f64::from(self.0.host.cpus.max(1))
    }
}

fn time(seconds: f64) -> String {
    show_amount(seconds, Unit::Seconds)
}

fn killed(totals: &Totals) -> Option<String> {
    let is_killed = totals.known(metric_name::oom_kills_total) > 0.0;
    is_killed.then(|| "it takes more memory than it may have".to_string())
}

fn swapping(totals: &Totals) -> Option<String> {
    let waited = totals.known(metric_name::delay_swapin_seconds)
        + totals.known(metric_name::delay_reclaim_seconds);
    let share = waited / totals.known(metric_name::wall_seconds);
    (share > 0.1)
        .then(|| format!("limited by memory: {} for pages to be freed or swapped in", time(waited)))
}

fn throttled(totals: &Totals) -> Option<String> {
    let waited = totals.known(metric_name::delay_cpu_throttled_seconds);
    let is_much = totals.share_of_wall(metric_name::delay_cpu_throttled_seconds) > 0.1;
    is_much.then(|| {
        format!("limited by the CPU quota of its control group: held back {}", time(waited))
    })
}

fn storage(totals: &Totals) -> Option<String> {
    let waited = totals.known(metric_name::delay_block_seconds);
    let is_much = totals.share_of_wall(metric_name::delay_block_seconds) > 0.25;
    is_much.then(|| {
        format!("limited by storage (waited {}): `weigh io` says for which files", time(waited))
    })
}

/// Threads that could run, and had no CPU, for longer than they ran.
fn crowded(totals: &Totals) -> Option<String> {
    let (waited, ran) =
        (totals.known(metric_name::delay_cpu_seconds), totals.known(metric_name::cpu_seconds));
    let is_much = waited > 0.5 * ran && totals.share_of_wall(metric_name::delay_cpu_seconds) > 0.25;
    is_much.then(|| "short of CPUs: its threads waited for one while others had them".to_string())
}

fn all_cpus(totals: &Totals) -> Option<String> {
    let (cores, cpus) = (totals.known(metric_name::cpu_cores_average), totals.cpus());
    let is_all = cores > 0.9 * cpus;
    is_all.then(|| format!("limited by CPU: {cores:.2} of {cpus:.0} CPUs were busy all the time"))
}

fn small_calls(totals: &Totals) -> Option<String> {
    let of = |what: &str, bytes: &str, calls: &str| {
        let (bytes, calls) = (totals.known(bytes), totals.known(calls));
        let average = bytes / calls.max(1.0);
        let is_small = calls > MANY && average < SMALL && bytes > 0.0;
        is_small.then(|| {
            format!(
                "{what} of {} on average are small: `weigh io` says in which files",
                size(average)
            )
        })
    };
    let reads = of("reads", metric_name::io_read_bytes_total, metric_name::io_read_calls_total);
    let has_time = totals.known(metric_name::cpu_system_seconds)
        > 0.3 * totals.known(metric_name::cpu_seconds);
    reads
        .or_else(|| {
            of("writes", metric_name::io_written_bytes_total, metric_name::io_write_calls_total)
        })
        .filter(|_| has_time)
}

/// A thread that waits for a GPU may keep a CPU busy by asking for it: then no CPU is what is short.
fn gpu(totals: &Totals) -> Option<String> {
    let busy = totals.get(metric_name::gpu_utilization_ratio)?;
    let share = show_amount(busy, Unit::Ratio);
    // A short job has hardly begun with it.
    let is_long = totals.known(metric_name::wall_seconds) >= LEAST_GPU_SECONDS;
    match busy {
        0.7.. => Some(format!("limited by the GPU: busy {share} of the time that the job had it")),
        ..0.3 if is_long => {
            Some(format!("the GPU was mostly idle: busy {share} of the time that the job had it"))
        }
        _ => None,
    }
}

fn one_cpu(totals: &Totals) -> Option<String> {
    let cores = totals.known(metric_name::cpu_cores_average);
    let is_one = (0.9..1.1).contains(&cores) && totals.cpus() > 1.0;
    is_one.then(|| {
        format!(
            "limited by one CPU: the other {:.0} of {:.0} were not used",
            totals.cpus() - 1.0,
            totals.cpus()
        )
    })
}

fn idle(totals: &Totals) -> Option<String> {
    let cores = totals.get(metric_name::cpu_cores_average)?;
    let waits = [metric_name::delay_cpu_seconds, metric_name::delay_block_seconds];
    let waited: f64 = waits.iter().map(|name| totals.share_of_wall(name)).sum();
    let is_idle = cores < 0.1 && waited < 0.1;
    is_idle
        .then(|| "it mostly waited, not for a CPU: `weigh calls` says in which calls".to_string())
}
