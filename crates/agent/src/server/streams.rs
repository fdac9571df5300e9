//! The way from the socket to the streams, and what those tell of who is served at the socket.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::time::Instant;

use weigh_schema::library::Reason;
use weigh_schema::stream::ServedUser;

use super::Server;
use crate::streams::StreamDoor;

impl Server {
    /// Clients come to these streams from now on.
    pub fn set_door(&mut self, door: StreamDoor) {
        self.door = Some(door);
    }

    /// Lets a client to the streams.
    pub(super) fn pass_to_streams(&mut self, key: u64) -> io::Result<()> {
        let Some(client) = self.clients.get(&key) else { return Ok(()) };
        let Some(door) = &self.door else {
            return client.answer(Reason::NotPermitted, 0, 0, None);
        };
        if !self.pace.allows(client.user, Instant::now()) {
            return client.answer(Reason::TooMany, 0, 0, None);
        }
        match door.pass(client.peer, client.user) {
            Some(stream) => client.answer(Reason::Measured, 0, 0, Some(stream.as_fd())),
            None => client.answer(Reason::TooMany, 0, 0, None),
        }
    }

    /// Tells the streams who is served, if that has changed.
    pub(super) fn post_served(&mut self) {
        let door = self.door.as_ref().filter(|_| self.is_changed);
        if let Some(door) = door {
            door.post(self.served());
        }
        self.is_changed = false;
    }

    fn served(&self) -> Vec<ServedUser> {
        let mut served: BTreeMap<u32, ServedUser> = BTreeMap::new();
        let mut of = |uid: u32, programs: u64, sessions: u64| {
            let user = served.entry(uid).or_insert(ServedUser { uid, ..ServedUser::default() });
            user.programs += programs;
            user.sessions += sessions;
        };
        let programs = self.clients.values().filter(|client| client.page.is_some());
        programs.for_each(|client| of(client.user, 1, 0));
        self.sessions.users().for_each(|user| of(user, 0, 1));
        served.into_values().collect()
    }
}
