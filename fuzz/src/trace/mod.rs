//! Both sides of a conversation about a stream of `weigh trace`: the files of `crates/session` with it, as they are.

#![allow(dead_code, missing_docs, unused_imports, clippy::all)]

mod control;
#[path = "../../../crates/session/src/products/trace/description.rs"]
mod description;
mod stream_host;

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::replay::filter::RecordedFilter;

use control::{Answer, Ask, Conversation};
use description::Description;
use stream_host::{HostAnswer, HostAsk};

/// What one side says, as lines; behind the first zero, what is in the rings that are described.
pub fn conversation(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (said, rings) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (mut other, own) = UnixStream::pair().unwrap();
    other.write_all(said).unwrap();
    other.shutdown(Shutdown::Write).unwrap();
    let talk = Conversation::new(own).unwrap();
    let mut lines = 0;
    while let Ok((line, with)) = talk.line() {
        assert!(with.is_empty() && line.ends_with(b"\n"));
        lines += 1;
        again::<HostAsk>(&line);
        again::<Ask>(&line);
        again::<Answer<serde_json::Value>>(&line);
        match again::<HostAnswer>(&line) {
            Some(HostAnswer::Opened(attached)) => read(&attached.description, rings),
            Some(HostAnswer::Stream(answer)) => described(answer, rings),
            _ => {}
        }
        if let Some(answer) = again::<Answer>(&line) {
            described(answer, rings);
        }
    }
    assert_eq!(lines, said.iter().filter(|byte| **byte == b'\n').count());
    assert!(talk.ended().is_none());
}

/// What is understood is said as it was.
fn again<T: DeserializeOwned + Serialize>(line: &[u8]) -> Option<T> {
    let message: T = serde_json::from_slice(line).ok()?;
    let text = serde_json::to_vec(&message).unwrap();
    let same: T = serde_json::from_slice(&text).ok()?;
    assert_eq!(serde_json::to_vec(&same).unwrap(), text);
    Some(message)
}

fn described(answer: Answer, rings: &[u8]) {
    match answer {
        Answer::Description(description) => read(&description, rings),
        Answer::Attached(attached) => read(&attached.description, rings),
        _ => {}
    }
}

fn read(description: &Description, mut rings: &[u8]) {
    let probes: Vec<Option<Probe>> =
        description.events.iter().map(|event| event.as_read().ok()).collect();
    let known: Vec<&Probe> = probes.iter().flatten().collect();
    let filter = RecordedFilter::parse("pid > 0", &known).ok();
    while let Some(record) = Record::new(rings) {
        for probe in &known {
            if probe.record_bytes != record.size() {
                continue;
            }
            filter.iter().for_each(|filter| {
                filter.holds(probe, record);
            });
            for value in probe.values(record) {
                let _ = value.to_string();
            }
        }
        match rings.get(record.size() as usize..) {
            Some(behind) if record.size() > 0 => rings = behind,
            _ => break,
        }
    }
}
