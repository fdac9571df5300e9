//! Profiles of programs that have ended by the time they are heard.

use std::os::fd::{AsFd as _, OwnedFd};

use weigh_collect::calls::KernelCalls;
use weigh_wire::peer_of;

use super::Server;
use crate::served::pass_profile;

impl Server {
    /// A profile is there before its program is known.
    pub(super) fn pass_left_profile(
        &mut self,
        file: OwnedFd,
        connection: &OwnedFd,
        calls: &mut KernelCalls,
    ) {
        let Ok(peer) = peer_of(connection) else { return };
        let found = calls.credentials_of(connection.as_fd(), peer.pid, None).ok().flatten();
        let user = found.filter(|found| found.has_connected).map_or(peer.uid, |found| found.behind);
        pass_profile(file, (peer, user), self.door.as_ref(), &mut self.pace);
    }

    /// A process has ended: what it has said last may be its profile.
    pub(super) fn end_process(&mut self, key: u64, calls: &mut KernelCalls) {
        if let Some(client) = self.clients.get(&key)
            && let Some(file) = client.take_profile()
        {
            let from = (client.peer, client.user);
            pass_profile(file, from, self.door.as_ref(), &mut self.pace);
        }
        self.drop_client(key, calls);
    }
}
