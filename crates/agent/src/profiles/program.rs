//! One program that shares its profile with the agent.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weigh_account::regions::{
    ProfileContext, RegionTotals, TickScale, process_rows, program_profile,
};
use weigh_collect::host::process_name;
use weigh_collect::profile::{SharedProfile, clock_pair};
use weigh_schema::profile::ProfileClock;
use weigh_schema::program_profile::{ProgramProfile, ProgramState};
use weigh_schema::region::snapshot::{ClockPair, ProfileSnapshot};
use weigh_schema::stream::{RecordClient, RecordSource};
use weigh_wire::Peer;

/// What has changed where a program has done anything.
type Progress = (u64, u64, u64, u64);

/// A program.
pub struct Program {
    pub profile: SharedProfile,
    pub peer: Peer,
    /// The user who is behind it, to whom its place is counted.
    pub user: u32,
    /// Readable when it has ended.
    pub process: Option<OwnedFd>,
    /// When it was read last, or came.
    pub read_at: Instant,
    name: String,
    publishes_seen: u64,
    publishes_read: u64,
    progress: Progress,
}

impl Program {
    /// One that has come.
    pub fn new(profile: SharedProfile, peer: Peer, user: u32, process: Option<OwnedFd>) -> Program {
        let name = process_name(peer.pid).unwrap_or_default();
        Program {
            profile,
            peer,
            user,
            process,
            read_at: Instant::now(),
            name,
            publishes_seen: 0,
            publishes_read: 0,
            progress: Progress::default(),
        }
    }

    pub fn source(&self) -> RecordSource {
        let (uid, pid) = (Some(self.peer.uid), Some(self.peer.pid));
        RecordSource { uid, pid, client: RecordClient::Socket }
    }

    /// Whether it has published since, or was not read for so long.
    pub fn is_due(&self, now: Instant, apart: Duration) -> bool {
        let since = now.saturating_duration_since(self.read_at);
        self.profile.publishes() > self.publishes_seen || since >= apart
    }

    /// As it stood at its last publish; else, after so long, as it is.
    pub fn read(&mut self, apart: Duration) -> Option<ProfileSnapshot> {
        if let Some(snapshot) = self.profile.read_published() {
            self.publishes_seen = snapshot.epoch.saturating_sub(1);
            self.publishes_read += 1;
            self.read_at = Instant::now();
            return Some(snapshot);
        }
        let is_late = self.read_at.elapsed() >= apart;
        is_late.then(|| {
            self.read_at = Instant::now();
            self.profile.read_now()
        })
    }

    /// What a read has found; none where the clock of the program cannot be read here.
    pub fn describe(
        &self,
        snapshot: &ProfileSnapshot,
        begun: &[(ProfileClock, ClockPair)],
        state: ProgramState,
    ) -> Option<ProgramProfile> {
        let now = clock_pair(snapshot.clock);
        let (_, begun) = begun.iter().find(|(clock, _)| *clock == snapshot.clock)?;
        let scale = TickScale::between(snapshot.clock, *begun, now)?;
        let until = if snapshot.has_ended { snapshot.last.ticks } else { now.ticks };
        let made = process_rows(snapshot, &ProfileContext { process: self.peer.pid, scale, until });
        let mut totals = RegionTotals::default();
        totals.process(snapshot);
        totals.publishes_read(self.publishes_read);
        totals.lose("rows", made.left_out);
        made.rows.iter().for_each(|row| totals.row(row));
        let mut profile = program_profile(totals, self.name_by(snapshot), state);
        if state != ProgramState::CutShort {
            profile.regions.cut_short_total = 0;
        }
        // Phases and events are added up here, and not kept one by one.
        profile.regions.lost.retain(|what, _| !["phases", "events"].contains(&what.as_str()));
        Some(profile)
    }

    /// Of one that had ended before it was heard what its first thread was called, as the profile says.
    fn name_by<'a>(&'a self, snapshot: &'a ProfileSnapshot) -> &'a str {
        let first = snapshot.threads.first().filter(|_| self.name.is_empty());
        first.map_or(&self.name, |thread| &thread.name)
    }

    /// Whether anything was done since the last record.
    pub fn is_news(&mut self, profile: &ProgramProfile) -> bool {
        let found = &profile.regions;
        let samples = found.counters.iter().fold(0u64, |sum, one| sum.wrapping_add(one.samples));
        let now = (found.calls_total, found.open_calls_total, found.publishes_total, samples);
        std::mem::replace(&mut self.progress, now) != now
    }
}
