//! The slowest calls that were about files, in words, of all that a recording has; those that wait at pipes and their
//! like for another process come behind the others.

use std::cmp::Reverse;
use std::collections::HashSet;

use weigh_schema::Unit;
use weigh_schema::amount::show_amount;
use weigh_schema::io::IoCall;

/// So many are shown.
const MOST: usize = 20;

/// Takes every call, and keeps the slowest.
#[derive(Debug, Default)]
pub struct SlowestCalls {
    calls: Vec<IoCall>,
    /// Pipes and their like, by device and inode.
    waited_at: HashSet<(u32, u64)>,
}

impl SlowestCalls {
    /// At this object a call waits for another process: such calls come behind all others.
    pub fn waits_at(&mut self, object: (u32, u64)) {
        self.waited_at.insert(object);
    }

    /// Takes one in.
    pub fn push(&mut self, call: IoCall) {
        self.calls.push(call);
        if self.calls.len() >= 8 * MOST {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let waits = |call: &IoCall| self.waited_at.contains(&(call.device, call.inode));
        let time_ns = |call: &IoCall| (call.time_seconds * 1e9) as u64;
        self.calls.sort_by_key(|call| (waits(call), Reverse(time_ns(call)), call.time_ns));
        self.calls.truncate(MOST);
    }

    /// A line for each, the slowest first. `start_ns` is when the job began.
    pub fn lines(mut self, start_ns: i64) -> Vec<String> {
        self.thin();
        self.calls.iter().map(|call| line(call, start_ns)).collect()
    }
}

fn line(call: &IoCall, start_ns: i64) -> String {
    let seconds = |seconds: f64| show_amount(seconds, Unit::Seconds);
    let moved = match &call.kind {
        Some(_) if call.error.0 == 0 => {
            let bytes = show_amount(call.bytes as f64, Unit::Bytes);
            // Many calls are called what they do.
            match call.call == call.deed {
                true => format!(" {bytes}"),
                false => format!(" {} {bytes}", call.deed),
            }
        }
        _ if call.call == call.deed => String::new(),
        _ => format!(" ({})", call.deed),
    };
    let failed = match call.error.0 {
        0 => String::new(),
        error => format!(", failed with error {}", -error),
    };
    let place = call.offset_bytes.map_or_else(String::new, |offset| format!(" at {offset}"));
    let file = call.path.as_deref().map_or_else(String::new, |path| format!(", {path}"));
    let at = call.time_ns.saturating_sub(start_ns) as f64 / 1e9;
    format!(
        "{} in {}{moved}{place}{failed}{file}; thread {} of process {}, {} after the start",
        seconds(call.time_seconds),
        call.call,
        call.tid,
        call.pid,
        seconds(at.max(0.0)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_many_come_first() {
        let mut slowest = SlowestCalls::default();
        for n in 0..1000u32 {
            slowest.push(IoCall {
                time_seconds: f64::from(n * 7919 % 1000) / 1e3,
                call: "pread64".into(),
                deed: "read".into(),
                kind: Some("positioned".into()),
                path: Some("/a".into()),
                offset_bytes: Some(17),
                bytes: 4096,
                pid: 5,
                tid: 6,
                time_ns: 2_500_000_000,
                ..IoCall::default()
            });
        }
        let lines = slowest.lines(1_000_000_000);
        assert_eq!(lines.len(), MOST);
        let expected = "999.0 ms in pread64 read 4.0 KiB at 17, /a; thread 6 of process 5, 1.500 s after the start";
        assert_eq!(lines[0].replace('\u{202f}', " "), expected);
        assert!(lines[1].starts_with("998"), "{}", lines[1]);
    }

    #[test]
    fn a_call_that_is_called_what_it_does_says_so_once() {
        let read = IoCall {
            call: "read".into(),
            deed: "read".into(),
            kind: Some("plain".into()),
            bytes: 41,
            time_seconds: 0.0609,
            ..IoCall::default()
        };
        let close =
            IoCall { call: "close".into(), deed: "close".into(), kind: None, ..read.clone() };
        let said = |call: &IoCall| line(call, 0).replace('\u{202f}', " ");
        assert!(said(&read).starts_with("60.9 ms in read 41 B;"), "{}", said(&read));
        assert!(said(&close).starts_with("60.9 ms in close;"), "{}", said(&close));
    }

    /// A call that waits at a pipe waits for another process.
    #[test]
    fn waiting_at_pipes_comes_behind_the_files() {
        let of = |path: &str, inode: u64, time_seconds: f64| IoCall {
            call: "read".into(),
            deed: "read".into(),
            path: Some(path.into()),
            inode,
            time_seconds,
            ..IoCall::default()
        };
        let mut slowest = SlowestCalls::default();
        slowest.waits_at((0, 7));
        slowest.push(of("/a", 5, 0.001));
        for _ in 0..1000 {
            slowest.push(of("pipe:[7]", 7, 2.0));
        }
        let lines = slowest.lines(0);
        assert_eq!(lines.len(), MOST);
        assert!(lines[0].contains("/a") && lines[1].contains("pipe:[7]"), "{lines:?}");
    }
}
