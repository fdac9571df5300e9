//! Spans of OpenTelemetry that programs send to the agent: as regions, which their user and root read.
//!
//! Reads messages; emits how each program stands, once a second while spans come, and a last time when none has come for long.
//! Refuses who is not known, and more spans than a user may send now.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weigh_account::regions::{RegionTotals, SpanBounds, SpanTable, program_profile};
use weigh_collect::otlp::{each_span, peer_user};
use weigh_schema::stream::{ProgramProfile, ProgramState};
use weigh_wire::Payload as _;

use crate::otlp_intake::{OtlpMessage, OtlpReply};
use crate::rate_limit::RateLimit;

/// Spans of a user: so many at once, and then so many a second.
const OF_A_USER: (u32, u32) = (20_000, 2_000);
/// Bytes of its records, the same.
const BYTES: (u32, u32) = (1 << 18, 1 << 16);
/// Programs of a user, and of all.
const PROGRAMS_OF_A_USER: usize = 16;
const PROGRAMS: usize = 64;
/// What is held of a program.
const BOUNDS: SpanBounds = SpanBounds { spans: 2_000, names: 500, places: 1_000 };
/// Between two records of a program.
const RECORDS: Duration = Duration::from_secs(1);
/// After so long without a span a program is forgotten: spans that come later begin at 0.
const SILENCE: Duration = Duration::from_secs(600);

/// User, process as it says, service as it says.
type ProgramKey = (u32, u32, String);

struct SpanProgram {
    table: SpanTable,
    last: Instant,
    /// Spans at the record before; traces without another one since are added up.
    taken_before: u64,
    /// Whether what was added up has been told.
    is_told: bool,
}

/// A record that is due.
pub struct SpanNote {
    pub user: u32,
    pub profile: ProgramProfile,
    /// Whether its user has published too much for a record of it.
    pub is_refused: bool,
}

/// What programs have sent.
pub struct ProgramSpans {
    programs: BTreeMap<ProgramKey, SpanProgram>,
    of_users: RateLimit,
    bytes: RateLimit,
    next_records: Option<Instant>,
}

impl Default for ProgramSpans {
    fn default() -> ProgramSpans {
        ProgramSpans {
            programs: BTreeMap::new(),
            of_users: RateLimit::new(OF_A_USER.0, OF_A_USER.1),
            bytes: RateLimit::new(BYTES.0, BYTES.1),
            next_records: None,
        }
    }
}

impl ProgramSpans {
    /// Takes a message, all of it or nothing.
    pub fn take(&mut self, message: OtlpMessage<'_>, now: Instant) -> OtlpReply {
        let OtlpMessage { body, stream, peer, .. } = message;
        match peer.find(|| peer_user(stream)) {
            Some(user) => self.take_body(user, body, now),
            None => OtlpReply::Refused("nobody knows who has sent it"),
        }
    }

    fn take_body(&mut self, user: u32, body: &[u8], now: Instant) -> OtlpReply {
        let mut count = 0u32;
        let mut keys = std::collections::BTreeSet::new();
        let is_read = each_span(body, &mut |span| {
            count = count.saturating_add(1);
            keys.insert((user, span.process, span.service.to_string()));
        });
        if is_read.is_err() || !self.of_users.allows_ever(count) {
            return OtlpReply::Refused("spans that make no sense, or too many at once");
        }
        if !self.has_room(user, &keys) {
            return OtlpReply::Refused("spans of more programs than a user may have");
        }
        if !self.of_users.has(user.into(), count, now) {
            return OtlpReply::Busy;
        }
        self.of_users.take(user.into(), count, now);
        // It was read whole before.
        let _ = each_span(body, &mut |span| {
            let key = (user, span.process, span.service.to_string());
            let program = self.programs.entry(key).or_insert_with(|| SpanProgram::new(now));
            (program.last, program.is_told) = (now, false);
            program.table.add(span.process, &span);
        });
        self.next_records.get_or_insert(now + RECORDS);
        OtlpReply::Accepted
    }

    fn has_room(&self, user: u32, keys: &std::collections::BTreeSet<ProgramKey>) -> bool {
        let new = keys.iter().filter(|key| !self.programs.contains_key(key)).count();
        let of_user = self.programs.keys().filter(|(of, _, _)| *of == user).count();
        new == 0 || (of_user + new <= PROGRAMS_OF_A_USER && self.programs.len() + new <= PROGRAMS)
    }

    /// When records are due, or a program is to be forgotten.
    pub fn deadline(&self) -> Option<Instant> {
        let silent = self.programs.values().map(|program| program.last + SILENCE).min();
        self.next_records.into_iter().chain(silent).min()
    }

    /// What is due now.
    pub fn records(&mut self, now: Instant) -> Vec<SpanNote> {
        let is_due = self.next_records.is_some_and(|due| due <= now);
        let over = |program: &SpanProgram| now.saturating_duration_since(program.last) >= SILENCE;
        let keys: Vec<ProgramKey> = self.programs.keys().cloned().collect();
        let mut notes = Vec::new();
        for key in keys {
            let Some(program) = self.programs.get_mut(&key) else { continue };
            if over(program) {
                notes.extend(self.end(&key, now));
            } else if is_due && program.add_up() {
                let profile = program.describe(&key, ProgramState::Running);
                notes.push(self.note(key.0, profile, now));
            }
        }
        if is_due {
            let is_open = self.programs.values().any(|program| !program.is_told);
            self.next_records = is_open.then(|| now + RECORDS);
        }
        notes
    }

    /// The agent ends: all that has come is told.
    pub fn finish(&mut self, now: Instant) -> Vec<SpanNote> {
        let keys: Vec<ProgramKey> = self.programs.keys().cloned().collect();
        keys.iter().filter_map(|key| self.end(key, now)).collect()
    }

    fn end(&mut self, key: &ProgramKey, now: Instant) -> Option<SpanNote> {
        let mut program = self.programs.remove(key)?;
        program.table.add_up_silent(u64::MAX);
        let profile = program.describe(key, ProgramState::Left);
        Some(self.note(key.0, profile, now))
    }

    fn note(&mut self, user: u32, profile: ProgramProfile, now: Instant) -> SpanNote {
        let mut bytes = Vec::new();
        let _ = profile.write(&mut bytes);
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let has_room = self.bytes.has(user.into(), count, now);
        if has_room {
            self.bytes.take(user.into(), count, now);
        }
        SpanNote { user, profile, is_refused: !has_room }
    }
}

impl SpanProgram {
    fn new(now: Instant) -> SpanProgram {
        let table = SpanTable::new(BOUNDS);
        SpanProgram { table, last: now, taken_before: 0, is_told: true }
    }

    /// Adds up the traces that are silent; whether there is something to tell.
    fn add_up(&mut self) -> bool {
        if self.is_told {
            return false;
        }
        let (taken, held) = self.table.taken_and_held();
        self.table.add_up_silent(self.taken_before);
        self.taken_before = taken;
        let left = self.table.taken_and_held().1;
        self.is_told = left == 0;
        left < held
    }

    fn describe(&self, (_, process, service): &ProgramKey, state: ProgramState) -> ProgramProfile {
        let made = self.table.rows();
        let mut totals = RegionTotals::default();
        totals.spans(made.processes, made.threads);
        totals.lose("places", made.lost_places);
        totals.lose("names", made.lost_names);
        totals.lose("rows", made.left_out);
        made.rows.iter().for_each(|row| totals.row(row));
        let profile = program_profile(totals, service, state);
        ProgramProfile { told_pid: (*process != 0).then_some(*process), ..profile }
    }
}
