//! How the agent stands, as a client is told.

use std::collections::BTreeMap;

use weigh_collect::host;
use weigh_schema::stream::{AGENT_STATUS, AgentStatus, ServedUser, StreamStatus};
use weigh_schema::top::TopCollector;

use super::page::PageAccess;
use super::server::{Stream, StreamServer, now_ns};

impl StreamServer {
    /// Errors: the client has gone.
    pub(super) fn status(
        &self,
        key: u64,
        collectors: Vec<TopCollector>,
    ) -> Result<AgentStatus, String> {
        let viewer = self.connections.get(&key).map(|one| one.viewer);
        let viewer = viewer.ok_or_else(|| "the client has gone".to_string())?;
        let user = self.connections.get(&key).map(|one| one.user);
        let may_see = |served: &ServedUser| viewer.is_trusted || user == Some(served.uid);
        Ok(AgentStatus {
            schema: AGENT_STATUS.to_string(),
            weigh: env!("CARGO_PKG_VERSION").to_string(),
            node: host::node(),
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            follows_jobs: self.settings.why_no_jobs.is_none(),
            reason: self.settings.why_no_jobs.clone(),
            interval_seconds: self.settings.interval.as_secs_f64(),
            current_interval_seconds: self.interval().as_secs_f64(),
            streams: self.streams.iter().map(|(name, one)| self.stream_status(name, one)).collect(),
            collectors,
            page: self.page.as_ref().map(PageAccess::status),
            served: self.served().into_iter().filter(may_see).collect(),
        })
    }

    fn stream_status(&self, name: &str, stream: &Stream) -> StreamStatus {
        let (buffer, now) = (&stream.buffer, now_ns());
        let waits = |key: &u64| {
            let connection = self.connections.get(key);
            let read = connection.and_then(|one| one.waits.as_ref()).map(|(read, _)| read);
            read.is_some_and(|read| read.stream == name)
        };
        let new = self.connections.keys().filter(|key| waits(key) && !buffer.has_reader(**key));
        StreamStatus {
            name: name.to_string(),
            policy: buffer.policy(),
            is_active: self.is_active(name, stream),
            size_bytes: buffer.bytes() as u64,
            most_bytes: buffer.most_bytes() as u64,
            records: buffer.len() as u64,
            bytes_per_second: buffer.bytes_per_second(now),
            outage_seconds: buffer.outage_seconds(now),
            readers: (buffer.readers() + new.count()) as u64,
            lost_total: buffer.lost(),
            refused_total: stream.refused,
            next_sequence: buffer.next_sequence(),
            numbering_ns: stream.numbering_ns,
        }
    }

    /// Those of the socket, and the clients of streams.
    fn served(&self) -> Vec<ServedUser> {
        let at_socket = self.served_at_socket().into_iter().map(|served| (served.uid, served));
        let mut served: BTreeMap<u32, ServedUser> = at_socket.collect();
        for connection in self.connections.values() {
            let uid = connection.user;
            served.entry(uid).or_insert(ServedUser { uid, ..ServedUser::default() }).readers += 1;
        }
        served.into_values().collect()
    }
}
