//! What the agent tells of a program's regions: a record of its stream, and a row of a report of the node.

use jiff::Timestamp;
use weigh_schema::byte_text;
use weigh_schema::program_profile::{MOST_PROFILE_REGIONS, ProgramProfile, ProgramState};
use weigh_schema::region::FlatRegion;
use weigh_schema::top::TopProfile;

use super::totals::RegionTotals;

/// Counters, and pieces of metadata, of one record.
const COUNTERS: usize = 100;
const METADATA: usize = 20;
/// Regions of a row, and letters of their names.
const ROW_REGIONS: usize = 5;
const ROW_NAME: usize = 80;

/// A record of what a program has told so far.
pub fn program_profile(totals: RegionTotals, name: &str, state: ProgramState) -> ProgramProfile {
    let (mut regions, regions_left_out) = totals.finish_with(MOST_PROFILE_REGIONS);
    let counters_left_out = regions.counters.len().saturating_sub(COUNTERS) as u64;
    regions.counters.truncate(COUNTERS);
    let metadata_left_out = regions.metadata.len().saturating_sub(METADATA) as u64;
    regions.metadata = regions.metadata.into_iter().take(METADATA).collect();
    let told_pid = None;
    ProgramProfile {
        name: byte_text::shown(name),
        name_base64: byte_text::base64(name),
        told_pid,
        state,
        regions,
        regions_left_out,
        counters_left_out,
        metadata_left_out,
    }
}

/// The row of a report for such a record.
pub fn top_profile(
    profile: &ProgramProfile,
    (uid, user): (u32, String),
    pid: Option<u32>,
    time: Timestamp,
) -> TopProfile {
    let found = &profile.regions;
    let regions: Vec<FlatRegion> = found.top.iter().take(ROW_REGIONS).map(short).collect();
    let others = (found.top.len() - regions.len()) as u64;
    TopProfile {
        uid,
        user,
        pid,
        told_pid: profile.told_pid,
        name: cut(&profile.name),
        name_base64: profile.name_base64.clone(),
        state: profile.state,
        job: None,
        time,
        calls_total: found.calls_total,
        publishes_total: found.publishes_total,
        regions,
        regions_left_out: profile.regions_left_out + others,
    }
}

fn short(region: &FlatRegion) -> FlatRegion {
    FlatRegion { name: cut(&region.name), kernel_costs: None, ranks: None, ..region.clone() }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(ROW_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use weigh_schema::region::{RegionKind, RegionRow};

    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let mut totals = RegionTotals::default();
        for number in 0..MOST_PROFILE_REGIONS as u64 + 7 {
            let name = format!("{}{number}", "\u{e4}".repeat(100));
            let (path, seconds) = (vec![name.clone()], number as f64);
            totals.row(&RegionRow {
                name,
                path,
                kind: RegionKind::Region,
                calls: number,
                inclusive_seconds: seconds,
                exclusive_seconds: seconds,
                ..RegionRow::default()
            });
        }
        let profile = program_profile(totals, "solver", ProgramState::Running);
        assert_eq!((profile.regions.top.len(), profile.regions_left_out), (50, 7));
        assert_eq!(profile.regions.calls_total, (0..57).sum::<u64>());
        let row = top_profile(&profile, (7, "ann".into()), Some(9), Timestamp::UNIX_EPOCH);
        assert_eq!((row.regions.len(), row.regions_left_out, row.regions[0].calls), (5, 52, 56));
        assert_eq!(row.regions[0].name, "\u{e4}".repeat(80) + "…");
    }
}
