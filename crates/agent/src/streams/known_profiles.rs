//! Programs that publish their regions, each as it was read last: what is shown of the node.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weigh_schema::stream::ProgramState;
use weigh_schema::top::TopProfile;

/// Programs that are known, and those of one user.
const MOST: usize = 512;
const MOST_OF_A_USER: usize = 128;
/// One that has ended is known for so long; spans, where no more come.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// User and process; of spans, as the program says, and what it calls itself.
type ProfileKey = (u32, Option<u32>, Option<(Option<u32>, String)>);

fn key_of(row: &TopProfile) -> ProfileKey {
    let spans = row.pid.is_none().then(|| (row.told_pid, row.name.clone()));
    (row.uid, row.pid, spans)
}

/// The latest row of each program.
#[derive(Default)]
pub struct KnownProfiles(BTreeMap<ProfileKey, (TopProfile, Instant)>);

impl KnownProfiles {
    /// It came now. Where a user has too many, the one that has ended longest goes.
    pub fn take(&mut self, row: TopProfile, now: Instant) {
        let key = key_of(&row);
        if !self.0.contains_key(&key) {
            let of_user = self.0.keys().filter(|(uid, _, _)| *uid == key.0).count();
            if (self.0.len() >= MOST || of_user >= MOST_OF_A_USER) && !self.make_room(key.0) {
                return;
            }
        }
        self.0.insert(key, (row, now));
    }

    fn make_room(&mut self, user: u32) -> bool {
        let ended = self.0.iter().filter(|(key, (row, _))| key.0 == user && is_over(row));
        let oldest = ended.min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone());
        oldest.and_then(|key| self.0.remove(&key)).is_some()
    }

    /// Those that are known, by user and process.
    pub fn known(&mut self, now: Instant) -> Vec<TopProfile> {
        self.0
            .retain(|_, (row, at)| !is_over(row) || now.saturating_duration_since(*at) < KNOWN_FOR);
        self.0.values().map(|(row, _)| row.clone()).collect()
    }
}

/// Whether it goes with time. Of spans nobody says when their program has ended.
fn is_over(row: &TopProfile) -> bool {
    row.pid.is_none() || row.state != ProgramState::Running
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn row(uid: u32, pid: u32, state: ProgramState) -> TopProfile {
        TopProfile {
            uid,
            user: uid.to_string(),
            pid: Some(pid),
            told_pid: None,
            name: "solver".into(),
            name_base64: None,
            state,
            job: None,
            time: Timestamp::UNIX_EPOCH,
            calls_total: 17,
            publishes_total: 3,
            regions: Vec::new(),
            regions_left_out: 0,
        }
    }

    #[test]
    fn what_runs_stays_and_what_has_ended_makes_room() {
        let (mut known, now) = (KnownProfiles::default(), Instant::now());
        let take = |known: &mut KnownProfiles, pid, state| {
            known.take(row(7, pid, state), now);
        };
        (0..100).for_each(|pid| take(&mut known, pid, ProgramState::Running));
        (100..300).for_each(|pid| take(&mut known, pid, ProgramState::Ended));
        known.take(row(8, 1, ProgramState::CutShort), now);
        known.take(TopProfile { pid: None, ..row(8, 2, ProgramState::Running) }, now);
        let count = |known: &mut KnownProfiles, seconds| {
            let found = known.known(now + Duration::from_secs(seconds));
            [7, 8].map(|uid| found.iter().filter(|row| row.uid == uid).count())
        };
        assert_eq!(count(&mut known, 59), [128, 2]);
        assert_eq!(count(&mut known, 60), [100, 0]);
        let other: Vec<u32> = (300..330).collect();
        other.iter().for_each(|pid| take(&mut known, *pid, ProgramState::Running));
        assert_eq!(count(&mut known, 60), [128, 0], "nothing that runs goes for another");
    }
}
