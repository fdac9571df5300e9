//! What was read and written over time in the invented recording, and regions.

use weigh_schema::io::{Moment, PlaceMoment};
use weigh_schema::recording::SampleRow;
use weigh_schema::region::{
    FlatRegion, KernelCosts, PhaseRow, RankImbalance, RegionCounter, RegionRow, RegionsFound,
};
use weigh_schema::summary::Summary;
use weigh_schema::{Number, Quality};
use weigh_show::regions::RegionLine;
use weigh_show::report::{IoOverTime, JobSeries, RegionsBuilder, RegionsPage, Survey};

/// What two processes did over time, where that was followed: the one writes a file, the other reads it.
pub fn io_over_time(summary: &Summary) -> Option<IoOverTime> {
    summary.io.as_ref()?;
    let start_ns = summary.job.started.as_nanosecond() as i64;
    let rows: Vec<(Moment, PlaceMoment)> = (1..=40).map(|n| step(start_ns, n)).collect();
    let mut survey = Survey::default();
    rows.iter().for_each(|(moment, place)| {
        survey.moment(moment);
        survey.place(place);
    });
    let mut over_time = survey.choose(start_ns, None).expect("there is something");
    rows.iter().for_each(|(moment, place)| {
        over_time.moment(moment);
        over_time.place(place);
    });
    Some(over_time.finish())
}

fn step(start_ns: i64, n: u64) -> (Moment, PlaceMoment) {
    let time_ns = start_ns + n as i64 * 1_000_000_000;
    let (is_writer, path) = (n <= 20, "/srv/build/objects.rsp".to_string());
    let (read_bytes, written_bytes) = if is_writer { (0, 1003 * n) } else { (1009 * n, 0) };
    let moment = Moment {
        time_ns,
        seconds: 1.0,
        uses_total: 1,
        pid: if is_writer { 4711 } else { 4712 },
        process: if is_writer { "cc1" } else { "ld" }.to_string(),
        path: path.clone(),
        read_bytes: Some(read_bytes),
        written_bytes: Some(written_bytes),
        call_seconds: 0.01 * n as f64,
        ..Moment::default()
    };
    let from_bytes = (n % 20) * 4096;
    let to_bytes = from_bytes + 4096;
    let place = PlaceMoment {
        time_ns,
        path,
        from_bytes,
        to_bytes,
        read_bytes,
        written_bytes,
        ..PlaceMoment::default()
    };
    (moment, place)
}

/// Samples as the page takes them.
pub fn series(summary: &Summary, samples: &[SampleRow]) -> JobSeries {
    let mut series = JobSeries::new(summary.job.started.as_nanosecond() as i64);
    samples.iter().for_each(|row| series.push(row));
    series
}

/// Regions of a program with a hostile name.
pub fn regions() -> Option<RegionsPage> {
    let mut builder = RegionsBuilder::new(0);
    let phase = PhaseRow { name: HOSTILE.into(), ended_ns: 1_000_000, ..PhaseRow::default() };
    builder.phase(&phase);
    builder.sample(&SampleRow {
        time_ns: 500_000,
        scope: "process:7".into(),
        metric: format!("region:{HOSTILE}"),
        value: 41.0,
    });
    let numbers = [("sent_bytes_total".to_string(), Number::Whole(411))];
    let costs = KernelCosts {
        quality: Quality::Estimated,
        reason: Some("1 things that it caused had not come to their end".into()),
        measured: vec!["socket".into()],
        counters: [("cycles_total".to_string(), Number::Whole(7))].into(),
        parts: [("socket".to_string(), numbers.into())].into(),
        later: [("pending_total".to_string(), Number::Whole(1))].into(),
    };
    let row = RegionRow {
        name: HOSTILE.into(),
        error_seconds: Some(0.01),
        min_seconds: Some(0.1),
        max_seconds: Some(0.2),
        kernel_costs: Some(costs.clone()),
        ..RegionRow::default()
    };
    let lines = [RegionLine { depth: 1, row: &row, threads: 1 }];
    let ranks = RankImbalance { ranks: 2, max_rank: 1, ..RankImbalance::default() };
    let flat = FlatRegion {
        name: HOSTILE.into(),
        name_base64: Some("/w==".into()),
        error_seconds: Some(0.01),
        min_seconds: Some(0.1),
        max_seconds: Some(0.2),
        unbalanced_calls: 1,
        open_calls: 1,
        ranks: Some(ranks),
        kernel_costs: Some(costs),
        ..FlatRegion::default()
    };
    let counter = RegionCounter {
        name: HOSTILE.into(),
        name_base64: Some("/w==".into()),
        kind: "counter".into(),
        value: 41.0,
        samples: 1,
        min: 41.0,
        max: 41.0,
    };
    let plain = RegionCounter { name_base64: None, ..counter.clone() };
    let found = RegionsFound {
        processes_total: 2,
        threads_total: 2,
        publishes_total: 3,
        publishes_read_total: 2,
        counters: vec![counter, plain],
        metadata: [("input".to_string(), HOSTILE.to_string())].into(),
        metadata_differs: vec!["input".into()],
        ..RegionsFound::default()
    };
    let bound = FlatRegion { kernel_costs: Some(KernelCosts::default()), ..FlatRegion::default() };
    builder.finish(Some(&found), &lines, vec![flat, FlatRegion::default(), bound])
}

/// What a program may call anything.
pub const HOSTILE: &str = "</script><script>alert(1)</script>";
