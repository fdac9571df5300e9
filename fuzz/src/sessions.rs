//! Frames between the agent's sessions and users' weigh.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use weigh_wire::{
    Answer, FileRequest, Head, JobRequest, Message, StreamRequest, VERSION, WriteRequest, decode,
    encode, receive,
};

/// Frames of each list, one behind the other, without their first word, which changes with the list.
pub fn session_messages(data: &[u8]) {
    let lists = [
        each::<JobRequest>,
        each::<FileRequest>,
        each::<WriteRequest>,
        each::<StreamRequest>,
        each::<Answer>,
    ];
    lists.iter().for_each(|each| each(data));
}

fn each<M: Message>(data: &[u8]) {
    // Hardly ever of this version.
    assert!(decode::<M>(data, 0).is_ok_and(|found| found.is_none()) || data.len() >= 32);
    let mut rest = data;
    while !rest.is_empty() {
        let frame = [&VERSION.to_ne_bytes()[..], rest].concat();
        let received = Head::parse(&frame).map_or(0, |head| head.descriptors as usize % 3);
        let Ok(Some((message, end))) = decode::<M>(&frame, received) else {
            return assert!(sent::<M>(&frame).is_none() || received > 0);
        };
        assert!(received > 0 || sent::<M>(&frame).is_some());
        is_written_as_understood(&message, received);
        rest = &rest[end - 8..];
    }
}

fn is_written_as_understood<M: Message>(message: &M, descriptors: usize) {
    // What was written with fewer bytes may be longer than is allowed.
    let Ok(frame) = encode(message, descriptors) else { return };
    let (again, end) = decode::<M>(&frame, descriptors).unwrap().unwrap();
    assert_eq!(end, frame.len());
    assert_eq!(encode(&again, descriptors).unwrap(), frame);
}

/// The same from a stream, as long as it has room for it.
fn sent<M: Message>(frame: &[u8]) -> Option<M> {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&frame[..frame.len().min(1 << 16)]).unwrap();
    drop(ours);
    Some(receive(&theirs).ok()??.0)
}
