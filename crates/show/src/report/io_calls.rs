//! The slowest calls that were about files, in words, of all that a recording has.

use std::cmp::Reverse;

use weigh_schema::Unit;
use weigh_schema::amount::show_amount;
use weigh_schema::io::IoCall;

/// So many are shown.
const MOST: usize = 20;

/// Takes every call, and keeps the slowest.
#[derive(Debug, Default)]
pub struct SlowestCalls {
    calls: Vec<IoCall>,
}

impl SlowestCalls {
    /// Takes one in.
    pub fn push(&mut self, call: IoCall) {
        self.calls.push(call);
        if self.calls.len() >= 8 * MOST {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let key = |call: &IoCall| (Reverse((call.time_seconds * 1e9) as u64), call.time_ns);
        self.calls.sort_by_key(key);
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
            format!(" {} {}", call.deed, show_amount(call.bytes as f64, Unit::Bytes))
        }
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
}
