//! Reads a stream of `weigh trace` until it ends, and says what it has seen and lost:
//! `cargo run --example follows PID FIELD [BUFFER]`.
//!
//! Says "ready"; in the end, a line: seen, lost, missing, the sum of the field in all events, and how often it was
//! waked.

use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use libweigh::{Reason, Stream, StreamOptions};

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

unsafe extern "C" {
    fn poll(fds: *mut PollFd, count: u64, timeout: i32) -> i32;
}

fn wait(stream: &Stream) {
    const IN: i16 = 1;
    let mut ready = PollFd { fd: stream.as_fd().as_raw_fd(), events: IN, revents: 0 };
    // SAFETY: one such structure, which outlives the call.
    assert_eq!(unsafe { poll(&raw mut ready, 1, -1) }, 1);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let pid = words.next().ok_or("a process is wanted")?.parse()?;
    let field = words.next().ok_or("a field is wanted")?;
    let options = StreamOptions { buffer: words.next(), count: 1, ..StreamOptions::default() };
    let mut stream = Stream::open(pid, &options)?;
    assert!(stream.name(0).is_some_and(|name| name.contains(':')) && stream.name(999).is_none());
    assert_eq!(stream.field(0, "no such field"), Err(Reason::NoField));
    let refused = stream.control(r#"{"remove":{"id":77}}"#);
    assert!(
        matches!(&refused, Err((Reason::Refused, why)) if why.contains("no probe 77")),
        "{refused:?}"
    );
    let field = stream.field(0, &field)?;
    assert!(stream.description().contains("\"events\""));
    assert!(stream.next(Some(Duration::ZERO)).is_none() && !stream.has_ended());
    println!("ready");
    std::io::stdout().flush()?;
    let (mut seen, mut sum, mut waked) = (0, 0, 0);
    while !stream.has_ended() {
        wait(&stream);
        waked += 1;
        while let Some(event) = stream.next(Some(Duration::ZERO)) {
            assert!(event.header().time_ns > 0 && event.text(&field).is_none());
            seen += 1;
            sum += event.number(&field).unwrap_or(0);
        }
    }
    let lost = stream.lost(None);
    println!("{seen} {} {} {sum} {waked}", lost.overrun, lost.missing);
    Ok(())
}
