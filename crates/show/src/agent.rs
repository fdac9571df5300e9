//! What `weigh agent status` prints.

use std::fmt::Write as _;

use weigh_schema::amount::show_size;
use weigh_schema::printable::printable;
use weigh_schema::stream::{AgentStatus, PageStatus, StreamStatus};

use crate::top::collector_line;

/// The agent, its streams, the node's collectors, and who is served.
pub fn text(status: &AgentStatus) -> String {
    let mut text = head(status);
    let _ = writeln!(
        text,
        "\n{:<8} {:<16} {:>7} {:>9} {:>9} {:>9} {:>7} {:>8} {:>8} {:>10}",
        "STREAM",
        "POLICY",
        "RECORDS",
        "SIZE",
        "RATE",
        "OUTAGE",
        "READERS",
        "LOST",
        "REFUSED",
        "NEXT"
    );
    status.streams.iter().for_each(|stream| text.push_str(&stream_line(stream)));
    let _ = writeln!(text, "\n{:<11} {:<12} {:>8} WHY", "COLLECTOR", "STATUS", "FAILED");
    let lines = status.collectors.iter().map(|collector| collector_line(collector) + "\n");
    text.extend(lines);
    let _ = writeln!(text, "\n{:>10} {:>9} {:>8} {:>8}", "USER", "PROGRAMS", "SESSIONS", "READERS");
    for served in &status.served {
        let _ = writeln!(
            text,
            "{:>10} {:>9} {:>8} {:>8}",
            served.uid, served.programs, served.sessions, served.readers
        );
    }
    text
}

fn head(status: &AgentStatus) -> String {
    let AgentStatus { weigh, node, pid, uid, interval_seconds, current_interval_seconds, .. } =
        status;
    let mut text = format!("agent of weigh {weigh} on {node}: process {pid}, user {uid}\n");
    let jobs = match status.reason.as_deref() {
        _ if status.follows_jobs => "programs with libweigh and jobs are served".to_string(),
        reason => format!(
            "programs with libweigh and jobs are not served: {}",
            printable(reason.unwrap_or("the reason is not known"))
        ),
    };
    let _ = writeln!(text, "{jobs}");
    let now = match current_interval_seconds < interval_seconds {
        true => format!(", for a reader each {current_interval_seconds} s now"),
        false => String::new(),
    };
    let _ = writeln!(text, "the node is read each {interval_seconds} s{now}");
    status.page.iter().for_each(|page| text.push_str(&page_line(page)));
    text
}

fn page_line(page: &PageStatus) -> String {
    let origin = page.origin.as_ref().map_or_else(String::new, |origin| format!(" at {origin}"));
    let by = page.pid.map_or_else(String::new, |pid| format!(" by process {pid}"));
    let starts = match page.starts {
        0 | 1 => String::new(),
        starts => format!(", started {starts} times"),
    };
    match &page.reason {
        _ if page.is_served => {
            format!("the page is served{origin}{by}{starts}; its URL: weigh agent url\n")
        }
        Some(reason) => format!("the page is not served{starts}: {}\n", printable(reason)),
        None => "the page starts\n".to_string(),
    }
}

/// Of what is not known nothing is printed: it is no 0.
fn stream_line(stream: &StreamStatus) -> String {
    let rate = stream.bytes_per_second.map(|rate| show_size(rate) + "/s");
    let outage = stream.outage_seconds.map(|seconds| format!("{seconds:.1} s"));
    let rest = if stream.is_active { "" } else { "  rests: nobody reads it" };
    format!(
        "{:<8} {:<16} {:>7} {:>9} {:>9} {:>9} {:>7} {:>8} {:>8} {:>10}{rest}\n",
        stream.name,
        stream.policy.to_string(),
        stream.records,
        show_size(stream.size_bytes as f64),
        rate.as_deref().unwrap_or("-"),
        outage.as_deref().unwrap_or("-"),
        stream.readers,
        stream.lost_total,
        stream.refused_total,
        stream.next_sequence,
    )
}

#[cfg(test)]
mod tests {
    use weigh_schema::Mechanism;
    use weigh_schema::stream::{AGENT_STATUS, ServedUser, StreamPolicy};

    use super::*;
    use weigh_schema::event::CollectorState;
    use weigh_schema::top::TopCollector;

    #[test]
    fn what_is_not_known_is_no_0_and_what_others_say_steers_no_terminal() {
        let stream = StreamStatus {
            name: "node".into(),
            policy: StreamPolicy::FillRead(60),
            is_active: false,
            size_bytes: 2048,
            most_bytes: 1 << 20,
            records: 3,
            bytes_per_second: None,
            outage_seconds: Some(60.0),
            readers: 2,
            lost_total: 17,
            refused_total: 0,
            next_sequence: 1001,
            numbering_ns: 0,
        };
        let collector = TopCollector {
            name: "cpu".into(),
            mechanism: Mechanism::Proc,
            status: CollectorState::Unavailable,
            reason: Some("no \u{1b}[2J".into()),
            no_data_seconds: None,
            failures: 3,
        };
        let status = AgentStatus {
            schema: AGENT_STATUS.into(),
            weigh: "1".into(),
            node: "n".into(),
            pid: 7,
            uid: 61234,
            follows_jobs: false,
            reason: Some("not enough rights\u{1b}".into()),
            interval_seconds: 1.0,
            current_interval_seconds: 0.1,
            streams: vec![stream],
            collectors: vec![collector],
            page: Some(PageStatus {
                address: Some("127.0.0.1:4000".parse().expect("an address")),
                origin: Some("http://127.0.0.1:4000".into()),
                is_served: true,
                pid: Some(41),
                starts: 3,
                reason: None,
            }),
            served: vec![ServedUser { uid: 1001, programs: 3, sessions: 1, readers: 2 }],
        };
        let text = text(&status);
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("not served: not enough rights\\u{1b}"), "{text}");
        let page =
            "the page is served at http://127.0.0.1:4000 by process 41, started 3 times; its URL";
        assert!(text.contains(page), "{text}");
        assert!(text.contains("each 1 s, for a reader each 0.1 s now"), "{text}");
        let line = text.lines().find(|line| line.starts_with("node")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..2], ["node", "fill(60)-read"], "{line}");
        assert!(words.contains(&"-") && words.contains(&"17") && line.contains("60.0 s"), "{line}");
        assert!(line.ends_with("rests: nobody reads it"), "{line}");
    }
}
