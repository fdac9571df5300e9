//! Messages between a session of the agent and its user's weigh.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::follow;

#[allow(dead_code, missing_docs, unused_imports, clippy::all)]
#[path = "../../crates/agent/src/files/wire.rs"]
mod files;

/// Requests of either kind, and answers, as they come from a stream: with the bytes that some announce.
pub fn session_messages(data: &[u8]) {
    each::<follow::wire::Ask>(data, follow::wire::MOST_ASKED);
    each::<files::Ask>(data, files::MOST_ASKED);
    each::<follow::wire::Tell>(data, follow::wire::MOST_TOLD);
    let stream = filled(data);
    while let Ok(Some((told, _))) = files::receive::<files::Tell>(&stream, files::MOST_ASKED) {
        if let files::Tell::Records(_, length) | files::Tell::Kept(length) = told
            && let Ok(bytes) = files::receive_bytes(&stream, length)
        {
            assert_eq!(bytes.bytes().len(), length);
        }
    }
}

/// What is taken is written as it was understood.
fn each<T: DeserializeOwned + Serialize>(data: &[u8], most: usize) {
    let stream = filled(data);
    while let Ok(Some((message, with))) = follow::wire::receive::<T>(&stream, most) {
        assert!(with.is_none());
        let text = serde_json::to_vec(&message).unwrap();
        if let Ok(again) = serde_json::from_slice::<T>(&text) {
            assert_eq!(serde_json::to_vec(&again).unwrap(), text);
        }
    }
}

fn filled(data: &[u8]) -> UnixStream {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(data).unwrap();
    theirs
}
