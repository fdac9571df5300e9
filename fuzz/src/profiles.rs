//! Profiles of regions, as a hostile program may leave them in memory that it shares.

use weigh_account::regions::{
    FlatRegions, ProfileContext, RegionTotals, TickScale, counter_series, phase_rows, process_rows,
    region_tree,
};
use weigh_parse::profile::{ProfileReader, ReadAt};
use weigh_schema::profile::{MAGIC, head, layout};
use weigh_schema::region::snapshot::ProfileSnapshot;

/// Words, with a head that is not refused for its first three.
pub fn profile(data: &[u8]) {
    let mut words: Vec<u64> =
        data.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())).collect();
    if words.len() > head::BYTES {
        (words[head::MAGIC], words[head::LAYOUT]) = (MAGIC, layout());
        words[head::BYTES] = 8 * words.len() as u64;
    }
    let mut reader = match ProfileReader::new(&words) {
        Ok(reader) => reader,
        Err(refusal) => return assert!(!refusal.to_string().is_empty()),
    };
    let epoch = ProfileReader::epoch(&words);
    for which in [ReadAt::Publish(epoch), ReadAt::Now, ReadAt::End] {
        rows(&reader.read(&words, which));
    }
    assert!(reader.read_rings(&words).is_none_or(|snapshot| snapshot.nodes.is_empty()));
}

fn rows(snapshot: &ProfileSnapshot) {
    let scale = TickScale::between(snapshot.clock, snapshot.first, snapshot.last);
    let Some(scale) = scale else { return };
    let context = ProfileContext { process: 1, scale, until: snapshot.last.ticks };
    let made = process_rows(snapshot, &context);
    assert_eq!(phase_rows(snapshot, &context, 0).len(), snapshot.phases.len());
    assert!(counter_series(snapshot, 8).len() <= 8);
    let (mut totals, mut flat) = (RegionTotals::default(), FlatRegions::default());
    totals.process(snapshot);
    for row in &made.rows {
        assert!(row.inclusive_seconds.is_finite() && row.exclusive_seconds >= 0.0);
        assert!(row.open_seconds.is_none_or(|seconds| seconds >= 0.0));
        totals.row(row);
        flat.add(row);
    }
    assert!(region_tree(&made.rows, true).len() <= made.rows.len());
    assert!(flat.finish().len() <= made.rows.len() && totals.finish().processes_total == 1);
}
