//! What was read and written over time in the invented recording.

use weigh_schema::io::{Moment, PlaceMoment};
use weigh_schema::summary::Summary;
use weigh_show::report::{IoOverTime, Survey};

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
