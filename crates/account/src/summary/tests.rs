use proptest::prelude::*;
use weigh_schema::Number;

use super::*;

#[test]
fn a_wait_from_the_start_of_the_machine_is_no_value() {
    let mut reading = JobReading::default();
    reading.population.threads_peak = 3;
    let value = |waited_ns: u64, reading: &mut JobReading| {
        reading.counters.set(Counter::BlockDelay, waited_ns);
        metrics(&measured(reading, &[]))[metric_name::delay_block_seconds].clone()
    };
    let possible = value(5_000_000_000, &mut reading);
    assert_eq!((possible.value, possible.quality), (Some(Number::Real(5.0)), Quality::Exact));
    let impossible = value(82_902_000_000_000, &mut reading);
    assert_eq!((impossible.value, impossible.quality), (None, Quality::Unavailable));
    assert!(impossible.reason.is_some_and(|why| why.contains("from the start of the machine")));
}

fn measured<'a>(reading: &'a JobReading, notes: &'a [Note]) -> Measured<'a> {
    Measured {
        wall_seconds: 2.0,
        reading,
        source: Mechanism::Bpf,
        looks: &[],
        cores_peak: None,
        given: BTreeMap::new(),
        notes,
    }
}

/// Of a real number the last digit would be another.
#[test]
fn sums_are_told_to_the_last_digit() {
    let mut reading = JobReading::default();
    let odd = (1 << 60) + 1;
    reading.counters.set(Counter::ReadChars, odd);
    let read = &metrics(&measured(&reading, &[]))[metric_name::io_read_bytes_total];
    assert_eq!((read.value, read.quality), (Some(Number::Whole(odd)), Quality::Exact));
}

#[test]
fn every_metric_has_a_value_or_a_reason() {
    let reading = JobReading::default();
    let metrics = metrics(&measured(&reading, &[]));
    assert_eq!(metrics.len(), METRICS.len());
    for (name, value) in metrics {
        assert_eq!(value.value.is_none(), value.quality == Quality::Unavailable, "{name}");
        assert!(value.value.is_some() || value.reason.is_some(), "{name}");
    }
}

#[test]
fn huge_pages_that_are_left_out_are_named() {
    let mut reading = JobReading::default();
    reading.memory.rss_sum_peak = 1000;
    reading.memory.floor_peak = 1000;
    let parts = MemoryParts { anonymous: 700, unshared: 700, shared: 100, file: 200 };
    reading.memory.parts_at_peak = Some(parts);
    let before = metrics(&measured(&reading, &[]));
    assert_eq!(before["memory_peak_bytes"].quality, Quality::Exact);
    for (name, bytes) in [("anonymous", 700), ("shared", 100), ("file", 200)] {
        let value = &before[&format!("memory_peak_{name}_bytes")];
        assert_eq!((value.value, value.quality), (Some(Number::Whole(bytes)), Quality::Exact));
    }
    reading.memory.hugetlb_peak = 2 << 20;
    let after = metrics(&measured(&reading, &[]));
    let peak = &after["memory_peak_bytes"];
    assert_eq!((peak.value, peak.quality), (Some(Number::Whole(1000)), Quality::Estimated));
    assert!(peak.reason.as_deref().is_some_and(|why| why.contains("2097152")));
    assert_eq!(after["memory_peak_hugetlb_bytes"].value, Some(Number::Whole(2 << 20)));
}

#[test]
fn sums_add_and_take_away() {
    let mut reading = JobReading::default();
    reading.counters.set(Counter::ReadChars, 1_000_003);
    reading.counters.set(Counter::SocketReadChars, 20);
    let metrics = metrics(&measured(&reading, &[]));
    assert_eq!(metrics["io_read_bytes_total"].value, Some(Number::Whole(1_000_023)));
}

#[test]
fn what_is_thrown_away_unwritten_may_be_another_programs() {
    let mut reading = JobReading::default();
    let name = "storage_written_bytes_total";
    reading.counters.set(Counter::StorageWritten, 8192);
    let value = &metrics(&measured(&reading, &[]))[name];
    assert_eq!((value.value, value.quality), (Some(Number::Whole(8192)), Quality::Exact));
    // All that was there before the job was thrown away.
    reading.counters.set(Counter::StorageCancelled, 40_960);
    let value = &metrics(&measured(&reading, &[]))[name];
    assert_eq!((value.value, value.quality), (Some(Number::Whole(8192)), Quality::Estimated));
    let reason = value.reason.as_deref().unwrap();
    assert!(reason.contains("between 0 and 8192"), "{reason}");
    reading.counters.set(Counter::StorageWritten, 0);
    let value = &metrics(&measured(&reading, &[]))[name];
    assert_eq!((value.value, value.quality), (Some(Number::Whole(0)), Quality::Exact));
    // More than a real number can tell.
    reading.counters.set(Counter::StorageWritten, (1 << 53) + 1);
    let value = &metrics(&measured(&reading, &[]))[name];
    assert_eq!(value.value, Some(Number::Whole((1 << 53) + 1)));
}

#[test]
fn the_split_adds_up_to_the_exact_total() {
    let mut reading = JobReading::default();
    reading.counters.set(Counter::Runtime, 3_000_000_000);
    reading.counters.set(Counter::UserTicks, 8_000_000);
    reading.counters.set(Counter::SystemTicks, 4_000_000);
    let (user, system) = cpu_split(&reading.counters);
    assert!((user - 2.0).abs() < 1e-9 && (system - 1.0).abs() < 1e-9);
}

#[test]
fn a_note_can_take_a_value_away_or_qualify_it() {
    let reading = JobReading::default();
    let note = |quality| Note::new("net_sent_bytes_total", quality, "no tracepoint");
    let notes = [note(Quality::Unavailable)];
    let value = &metrics(&measured(&reading, &notes))["net_sent_bytes_total"];
    assert_eq!((value.value, value.quality), (None, Quality::Unavailable));
    let notes = [note(Quality::Estimated)];
    let value = &metrics(&measured(&reading, &notes))["net_sent_bytes_total"];
    assert_eq!(value.quality, Quality::Estimated);
    assert_eq!(value.reason.as_deref(), Some("no tracepoint"));
}

fn estimate(memory: &MemoryReading, looks: &[SharedMemoryReading]) -> Value {
    estimate_peak(memory, looks, Mechanism::Bpf)
}

fn reading(floor_peak: u64, rss_sum_peak: u64, spaces_at_peak: u64) -> MemoryReading {
    MemoryReading { floor_peak, rss_sum_peak, spaces_at_peak, ..Default::default() }
}

fn look(union_bytes: u64, rss_sum_bytes: u64, spaces: u64) -> SharedMemoryReading {
    SharedMemoryReading { at_ns: 1, union_bytes, rss_sum_bytes, spaces, certain_bytes: None }
}

#[test]
fn a_look_that_tells_no_address_spaces_apart_is_no_lower_bound() {
    let uncertain = SharedMemoryReading { certain_bytes: Some(61), ..look(360, 369, 6) };
    let peak = estimate(&reading(60, 370, 6), &[uncertain]);
    assert_eq!((peak.number(), peak.quality), (Some(361.0), Quality::Estimated));
    assert!(peak.reason.unwrap().contains("between 61 and 370"));
}

#[test]
fn bounds_that_meet_are_exact() {
    let peak = estimate(&reading(995, 1000, 1), &[]);
    assert_eq!((peak.number(), peak.quality, peak.reason), (Some(1000.0), Quality::Exact, None));
}

#[test]
fn a_look_at_the_peak_settles_it() {
    let peak = estimate(&reading(500, 2510, 5), &[look(503, 2500, 5)]);
    assert_eq!((peak.number(), peak.quality), (Some(513.0), Quality::Sampled));
    assert!(peak.reason.unwrap().contains("between 503 and 2510"));
}

#[test]
fn a_look_below_the_peak_is_scaled_within_the_bounds() {
    let memory = MemoryReading { likely_peak: 1000, ..reading(300, 1000, 4) };
    let peak = estimate(&memory, &[look(250, 500, 4)]);
    assert_eq!((peak.number(), peak.quality), (Some(500.0), Quality::Estimated));
}

#[test]
fn a_look_at_fewer_processes_than_at_the_peak_says_nothing() {
    // A big program that forks to execute a small one, looked at while it was alone.
    let peak = estimate(&reading(421, 840, 2), &[look(420, 420, 1)]);
    assert_eq!((peak.number(), peak.quality), (Some(421.0), Quality::Estimated));
    // Five that share after a fork, looked at when there were two.
    let peak = estimate(&reading(500, 2506, 5), &[look(500, 1000, 2)]);
    assert_eq!((peak.number(), peak.quality), (Some(500.0), Quality::Estimated));
    // Even where nothing says how many there were, one alone shares with nobody.
    let peak = estimate(&reading(421, 840, 0), &[look(420, 420, 1)]);
    assert_eq!(peak.number(), Some(421.0));
}

#[test]
fn a_look_after_the_exec_does_not_double_what_was_forked() {
    // As many processes as at the peak, but one of them is the small program by now.
    let memory = MemoryReading { likely_peak: 423, ..reading(421, 840, 2) };
    let peak = estimate(&memory, &[look(421, 422, 2)]);
    assert_eq!((peak.number(), peak.quality), (Some(423.0), Quality::Estimated));
}

#[test]
fn without_a_look_what_forks_inherited_counts_once() {
    let memory = MemoryReading { likely_peak: 700, ..reading(300, 1000, 3) };
    let peak = estimate(&memory, &[]);
    assert_eq!((peak.number(), peak.quality), (Some(700.0), Quality::Estimated));
    // Never below what is certain.
    let peak = estimate(&reading(300, 1000, 3), &[]);
    assert_eq!((peak.number(), peak.quality), (Some(300.0), Quality::Estimated));
}

#[test]
fn parts_add_up_to_the_peak() {
    let parts = MemoryParts { anonymous: 100, unshared: 100, shared: 30, file: 20 };
    assert_eq!(parts_of_peak(&parts, 150.0), parts);
    // Seen a little before the peak: they are told as they were.
    assert_eq!(parts_of_peak(&parts, 160.0), parts);
    // Five processes after a fork: what they inherited counts once.
    let forked = MemoryParts { anonymous: 2500, unshared: 500, shared: 0, file: 0 };
    assert_eq!(parts_of_peak(&forked, 500.0).anonymous, 500);
    // Five that map the same memory: what is anonymous is nobody else's.
    let mapped = MemoryParts { anonymous: 10, unshared: 10, shared: 2500, file: 0 };
    let told = parts_of_peak(&mapped, 510.0);
    assert_eq!((told.anonymous, told.shared), (10, 500));
    // A program that forks to execute another keeps its files.
    let copied = MemoryParts { anonymous: 800, unshared: 400, shared: 0, file: 40 };
    let told = parts_of_peak(&copied, 425.0);
    assert_eq!((told.anonymous, told.file), (400, 25));
}

proptest! {
    #[test]
    fn no_estimate_leaves_the_interval_that_it_states(
        floor in 0u64..2000, upper in 1u64..2000, likely_peak in 0u64..3000, spaces in 0u64..6,
        looks in prop::collection::vec((0u64..2000, 0u64..2000, 0u64..6), 0..4),
    ) {
        let looks: Vec<_> = looks.into_iter().map(|(u, r, s)| look(u.min(r), r, s)).collect();
        let memory = MemoryReading { likely_peak, ..reading(floor, upper, spaces) };
        let peak = estimate(&memory, &looks);
        let bytes = peak.number().unwrap();
        let reason = peak.reason.unwrap_or_else(|| format!("between {bytes} and {bytes} bytes"));
        let words: Vec<&str> = reason.split("between ").nth(1).unwrap().split(' ').collect();
        let bound = |at: usize| words[at].parse::<f64>().unwrap();
        prop_assert!(bound(0) <= bytes && bytes <= bound(2), "{reason}: {bytes}");
    }
}
