//! Series of a recording: they end where the summary stands, and their samples are where they belong.

use std::time::Duration;

use crate::recording::mixed;
use crate::support::measured::Measured;
use crate::support::run::Weigh;
use crate::support::workload;
use weigh_account::SamplingSchedule;
use weigh_schema::recording::SampleRow;
use weigh_schema::{Group, METRICS, MetricKind, Quality};

/// The samples of one series of the job, by time.
fn series(measured: &Measured, name: &str) -> Vec<SampleRow> {
    let mut rows = measured.samples();
    rows.retain(|row| row.metric == name && row.scope == "job");
    rows.sort_by_key(|row| row.time_ns);
    rows
}

fn greatest(samples: &[SampleRow]) -> f64 {
    samples.iter().map(|row| row.value).fold(f64::MIN, f64::max)
}

#[test]
fn series_end_where_the_summary_stands() {
    needs_root!();
    let measured = mixed().options("--interval 20ms").measure();
    let compared = series_agree(&measured);
    assert!(compared >= 8, "only {compared} series");
}

/// What a follower does not know, or a collector knows better, is nothing in the rows, not 0.
#[test]
fn by_whatever_means_series_end_where_the_summary_stands() {
    needs_root!();
    let ways = [
        "--mechanism bpf --files",
        "--mechanism bpf --written",
        "--mechanism bpf --without network",
        "--mechanism bpf --level 2",
        "--mechanism ptrace",
        "--mechanism ptrace --level 3",
        "--mechanism preload",
        "--mechanism preload --level 2",
        "--mechanism poll",
        "--mechanism poll --files",
    ];
    for way in ways {
        let job =
            format!("{} 23 opened-; sleep 0.2; head -c 99999 /dev/zero > f", workload("open"));
        let measured = Weigh::bash(&job).options(&format!("{way} --interval 20ms")).end();
        assert!(measured.status.success(), "{way}\n{}", measured.everything());
        println!("{way}: {} series", series_agree(&measured));
        if way.contains("--files") {
            let opened = measured.number("files_opened_total");
            measured.check(opened >= 23.0, || format!("{way}: {opened} opens"));
            let of_processes = measured
                .processes()
                .iter()
                .any(|row| row.metrics.contains_key("files_opened_total"));
            measured.check(!of_processes, || format!("{way}: fanotify counted by process"));
        }
    }
    // Too short for a look.
    series_agree(&Weigh::run(["true"]).options("--mechanism poll").end());
}

/// Every series of a counter ends at the summary's value, no peak's goes beyond it, and what has no value has no
/// rows. Returns how many were compared.
#[track_caller]
fn series_agree(measured: &Measured) -> u32 {
    let mut compared = 0;
    for metric in METRICS {
        let Some(name) = metric.series else { continue };
        let samples = series(measured, name);
        let Some(value) = measured.value(metric.name).number() else {
            measured.check(samples.is_empty(), || {
                format!("{} is not known: {name} {samples:?}", metric.name)
            });
            continue;
        };
        // The last scan of a short job comes after its last sample.
        if samples.is_empty() && (metric.group == Group::Files || metric.kind == MetricKind::Peak) {
            continue;
        }
        measured.check(!samples.is_empty(), || format!("{} has no series", metric.name));
        compared += 1;
        match metric.kind {
            MetricKind::Counter => {
                let falls = samples.windows(2).find(|two| two[1].value < two[0].value);
                measured.check(falls.is_none(), || format!("{name} goes down: {falls:?}"));
                let last = samples[samples.len() - 1].value;
                measured.check(last == value, || format!("{name} ends at {last}, not {value}"));
            }
            MetricKind::Peak => {
                let most = greatest(&samples);
                // Until a first look at what is shared, the series can but take the sum, which is
                // the summary's upper bound.
                let looked_at = metric.name == "memory_peak_bytes"
                    && measured.value(metric.name).quality != Quality::Exact;
                let bound =
                    if looked_at { measured.number("memory_peak_rss_sum_bytes") } else { value };
                measured.check(most <= bound * 1.000_001, || format!("{name} reaches {most}"));
            }
            MetricKind::Floor => {
                let least = samples.iter().map(|sample| sample.value).fold(f64::MAX, f64::min);
                measured.check(least >= value, || format!("{name} falls to {least}"));
            }
            MetricKind::Gauge => {}
        }
    }
    compared
}

#[test]
fn samples_come_at_the_interval() {
    needs_root!();
    for (interval, text, lasts) in [(0.01, "10ms", "1"), (0.1, "100ms", "1.05"), (1.0, "1s", "2.2")]
    {
        let measured =
            Weigh::run(["sleep", lasts]).options(&format!("--interval {text}")).measure();
        let samples = series(&measured, "cpu_seconds").len() as f64;
        // One more at the end. A busy machine may make weigh late, but not early.
        let expected = measured.number("wall_seconds") / interval;
        measured.check((expected / 2.0..=expected + 2.0).contains(&samples), || {
            format!("{samples} samples at {text}, expected {expected}")
        });
    }
}

/// Samples are close together at first, less so where each is a look at `/proc`.
#[test]
fn a_short_job_has_a_series_worth_drawing() {
    needs_root!();
    let samples = |job: Weigh, options: &str| {
        let measured = job.options(options).end();
        measured.check(measured.status.success(), || measured.everything());
        (series(&measured, "cpu_seconds").len(), measured)
    };
    let (by_bpf, measured) = samples(Weigh::workload("spin 1300 1"), "--mechanism bpf");
    // 96 if they cost nothing. What they cost holds them apart: more where nothing is optimised or others run.
    measured.check((10..=140).contains(&by_bpf), || format!("{by_bpf} samples"));
    // One CPU is used, and the peak is over windows: between two samples the kernel's clock may say more.
    let peak = measured.number("cpu_cores_peak");
    let average = measured.number("cpu_cores_average");
    measured
        .check(peak < 1.1 && peak >= average * 0.99, || format!("{peak}, {average} on average"));
    let waits = || Weigh::run(["sleep", "1.3"]);
    // What a look costs holds them apart: by polling it is dear where nothing is optimised.
    for (options, least) in
        [("--mechanism ptrace", 10), ("--mechanism preload", 10), ("--mechanism poll", 4)]
    {
        let (number, measured) = samples(waits(), options);
        let most = measured.number("wall_seconds") / 0.1 + 3.0;
        measured.check(number >= least && number as f64 <= most, || {
            format!("{number} samples by {options}")
        });
    }
    let (number, measured) = samples(waits(), "--interval 1s");
    measured.check(number <= 8, || format!("{number} samples each second"));
}

/// What weigh's loop takes of a CPU for each sample is read by the job meanwhile: how many there are then is judged by the
/// schedule at that cost, whatever the build and the other load.
#[test]
fn samples_are_as_close_as_their_cost_allows() {
    needs_root!();
    let look = "look() { read -r cpu _ < /proc/$PPID/task/$PPID/schedstat; \
                echo $1_cpu_ns=$cpu; echo $1_us=${EPOCHREALTIME/[.,]/}; } >> $TRUTH_FILE";
    let line = format!("{look}; sleep 0.1; look from; sleep 1.1; look to; sleep 0.1");
    let measured = Weigh::bash(&line).options("--mechanism bpf").measure();
    let all = series(&measured, "cpu_seconds");
    let [from, to] = ["from_us", "to_us"].map(|moment| 1000 * measured.truth(moment) as i64);
    let count = all.iter().filter(|row| (from..to).contains(&row.time_ns)).count();
    let cpu_ns = measured.truth("to_cpu_ns") - measured.truth("from_cpu_ns");
    let cost = Duration::from_nanos(cpu_ns / count.max(1) as u64);
    // From the start on: a moment of the job's is 0.1 s of it.
    let ticks = |until: Duration| {
        let mut schedule = SamplingSchedule::of_counters();
        let mut ticks = 0;
        while schedule.next() < until {
            ticks += 1;
            schedule.sampled(schedule.next(), cost);
        }
        ticks
    };
    let expected = ticks(Duration::from_millis(1200)) - ticks(Duration::from_millis(100));
    // Each may come late on a busy machine, by as much as they are apart.
    measured.check(2 * count >= expected, || format!("{count} of {expected} samples at {cost:?}"));
    let is_cheap = cost < Duration::from_micros(120);
    measured.check(all.len() >= 50 || !is_cheap, || format!("{} samples at {cost:?}", all.len()));
}

#[test]
fn a_peak_between_two_ticks_has_a_sample() {
    needs_root!();
    let measured = Weigh::workload("spike 300000001 1").options("--interval 1s").measure();
    for (metric, name) in [
        ("memory_peak_rss_sum_bytes", "memory_rss_sum_bytes"),
        ("memory_peak_bytes", "memory_bytes"),
    ] {
        let samples = series(&measured, name);
        let most = greatest(&samples);
        let peak = measured.number(metric);
        measured.check(most >= peak * 0.999 && most <= peak, || {
            format!("{name} reaches {most}, {metric} is {peak}")
        });
        // It is gone when the program sleeps for the last 200 ms.
        let last = &samples[samples.len() - 1];
        let at = samples.iter().find(|row| row.value == most).expect("there is one");
        let before = (last.time_ns - at.time_ns) as f64 * 1e-9;
        measured.check(before > 0.15 && last.value < 50e6, || {
            format!("the peak is {before} s before the last sample: {last:?}")
        });
    }
}
