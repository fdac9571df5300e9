//! The stream `profiles`: regions of programs, which their user and root read.

use std::io;
use std::time::Instant;

use jiff::Timestamp;
use weigh_account::regions::top_profile;
use weigh_collect::host;
use weigh_schema::stream::{
    PROFILES, ProgramProfile, RecordBody, RecordClient, RecordSource, StreamRecord,
};
use weigh_schema::top::TopProfile;

use super::door::StreamDoor;
use super::record::{EncodedRecord, Visibility};
use super::server::{StreamServer, now_ns};
use super::spans::SpanNote;
use crate::profiles::{ProfileNote, ProfileServer, profile_notes};

impl StreamServer {
    /// Reads what programs share: its host gives it a thread. They come to it by this door. Errors: no descriptors are left.
    pub fn profile_server(&mut self, door: &mut StreamDoor) -> io::Result<ProfileServer> {
        let (link, notes) = profile_notes(self.keeper.waker());
        let (server, profiles) = ProfileServer::new(link)?;
        door.set_profiles(profiles);
        self.profile_notes = Some(notes);
        Ok(server)
    }

    /// Says whether somebody looks: programs that do not publish are read more often then.
    pub(super) fn note_watched(&self) {
        let Some(notes) = &self.profile_notes else { return };
        let has_reader =
            self.streams.get(PROFILES).is_some_and(|stream| stream.buffer.readers() > 0);
        notes.set_watched(
            has_reader || self.connections.values().any(|one| one.looks_at_programs()),
        );
    }

    /// What was read of programs since.
    pub(super) fn take_profiles(&mut self) {
        let Some(notes) = &self.profile_notes else { return };
        let (taken, refused) = (notes.take(), notes.take_refused());
        self.refuse_profiles(refused);
        for ProfileNote { source, profile, is_refused } in taken {
            self.write_profile(source, profile, is_refused);
        }
    }

    /// How programs stand whose spans have come: what is due, or all in the end.
    pub(super) fn write_spans(&mut self, is_end: bool) {
        let now = Instant::now();
        let notes = match self.otlp.as_mut().map(|otlp| &mut otlp.spans) {
            None => return,
            Some(spans) if is_end => spans.finish(now),
            Some(spans) if spans.deadline().is_some_and(|due| due <= now) => spans.records(now),
            Some(_) => return,
        };
        for SpanNote { user, profile, is_refused } in notes {
            let source = RecordSource { uid: Some(user), pid: None, client: RecordClient::Otlp };
            self.write_profile(source, profile, is_refused);
        }
    }

    pub(super) fn refuse_profiles(&mut self, count: u64) {
        let stream = self.streams.get_mut(PROFILES);
        stream.into_iter().for_each(|stream| stream.refused += count);
    }

    /// Adds how a program stands; where its user has published too much it is known, and no record.
    pub(super) fn write_profile(
        &mut self,
        source: RecordSource,
        profile: ProgramProfile,
        is_refused: bool,
    ) {
        let Some(uid) = source.uid else { return };
        let user = (uid, host::user_name(uid));
        let row = top_profile(&profile, user, source.pid, Timestamp::now());
        self.known_profiles.take(row, Instant::now());
        if is_refused {
            return self.refuse_profiles(1);
        }
        let time_ns = now_ns();
        let Some(stream) = self.streams.get_mut(PROFILES) else { return };
        let sequence = stream.buffer.next_sequence();
        let body = RecordBody::Profile(Box::new(profile));
        let record = StreamRecord { sequence, time_ns, source, body };
        let record = EncodedRecord::new(record, &Visibility::Everybody);
        let bytes = record.bytes();
        stream.buffer.write(record.into(), bytes, time_ns);
        self.answer_waiting(PROFILES);
    }

    /// The programs that have published their regions lately, all users' together.
    pub fn profiles(&mut self) -> Vec<TopProfile> {
        self.known_profiles.known(Instant::now())
    }
}
