//! The way from the socket to the streams, and what those tell of who is served at the socket.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Instant;

use weigh_schema::library::Reason;
use weigh_schema::stream::ServedUser;
use weigh_wire::Peer;

use crate::client::Client;
use crate::rate_limit::RateLimit;
use crate::streams::StreamDoor;

/// Lets a client to the streams. Errors: it has gone.
pub fn pass_to_streams(
    client: &Client,
    door: Option<&StreamDoor>,
    pace: &mut RateLimit,
) -> io::Result<()> {
    let Some(door) = door else { return client.answer(Reason::NotPermitted, 0, 0, None) };
    let stream = match pace.allows(client.user, Instant::now()) {
        true => door.pass(client.peer, client.user),
        false => None,
    };
    match stream {
        Some(stream) => client.answer(Reason::Measured, 0, 0, Some(stream.as_fd())),
        None => client.answer(Reason::TooMany, 0, 0, None),
    }
}

/// Hands a program's profile on. Nobody waits for an answer: one that is not taken is counted, where streams are served.
pub fn pass_profile(
    file: OwnedFd,
    (peer, user): (Peer, u32),
    door: Option<&StreamDoor>,
    pace: &mut RateLimit,
) {
    let Some(profiles) = door.and_then(StreamDoor::profiles) else { return };
    match pace.allows(user, Instant::now()) {
        true => profiles.pass(file, peer, user),
        false => profiles.refuse(),
    }
}

/// What each user has: programs that are measured, and sessions.
pub fn served<'a>(
    clients: impl Iterator<Item = &'a Client>,
    sessions: impl Iterator<Item = u32>,
) -> Vec<ServedUser> {
    let mut served: BTreeMap<u32, ServedUser> = BTreeMap::new();
    let mut of = |uid: u32, programs: u64, sessions: u64| {
        let user = served.entry(uid).or_insert(ServedUser { uid, ..ServedUser::default() });
        user.programs += programs;
        user.sessions += sessions;
    };
    clients.filter(|client| client.page.is_some()).for_each(|client| of(client.user, 1, 0));
    sessions.for_each(|user| of(user, 0, 1));
    served.into_values().collect()
}
