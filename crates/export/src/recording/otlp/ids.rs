//! Ids of spans, and which is in which.

use std::collections::BTreeSet;

use weigh_schema::region::PhaseRow;
use weigh_schema::summary::Job;

use crate::metrics::scope_label::hash;

/// The label by which a job belongs to a trace that is there already.
const TRACEPARENT: &str = "traceparent";

/// Ids of the spans of one job.
pub struct TraceIds {
    trace: String,
    parent: Option<String>,
    seed: String,
}

impl TraceIds {
    pub fn new(job: &Job) -> TraceIds {
        let seed = format!("{}\0{}\0{}", job.node, job.id, job.started.as_nanosecond());
        match job.labels.get(TRACEPARENT).and_then(|text| trace_and_parent(text)) {
            Some((trace, parent)) => TraceIds { trace, parent: Some(parent), seed },
            None => {
                let half = |number: u8| id(&format!("trace\0{number}\0{seed}"));
                TraceIds { trace: half(0) + &half(1), parent: None, seed }
            }
        }
    }

    pub fn trace(&self) -> &str {
        &self.trace
    }

    /// The span around the job's.
    pub fn parent_of_job(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    pub fn of_job(&self) -> String {
        self.id("job")
    }

    pub fn of_process(&self, pid: u32, started_ns: i64) -> String {
        self.id(&format!("process\0{pid}\0{started_ns}"))
    }

    pub fn of_phase(&self, row: &PhaseRow) -> String {
        let PhaseRow { name, process, thread, iteration, started_ns, ended_ns, .. } = row;
        self.id(&format!(
            "phase\0{process}\0{thread}\0{started_ns}\0{ended_ns}\0{iteration}\0{name}"
        ))
    }

    fn id(&self, of: &str) -> String {
        id(&format!("{of}\0{}", self.seed))
    }
}

/// Sixteen digits, not all of them 0. The hash has its last bytes in few bits, so they are spread over all.
fn id(of: &str) -> String {
    let mut mixed = hash(of.as_bytes());
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(factor);
    }
    format!("{:016x}", (mixed ^ (mixed >> 33)).max(1))
}

/// `00-TRACE-PARENT-FLAGS`; none where the text is no such thing.
fn trace_and_parent(text: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, parent, flags] = parts[..] else { return None };
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_some = |text: &str| text.bytes().any(|byte| byte != b'0');
    let is_valid = is_hex(version, 2)
        && version != "ff"
        && is_hex(flags, 2)
        && is_hex(trace, 32)
        && is_some(trace)
        && is_hex(parent, 16)
        && is_some(parent);
    is_valid.then(|| (trace.to_string(), parent.to_string()))
}

/// When processes were started: a PID may have been that of several.
#[derive(Default)]
pub struct ProcessTable(BTreeSet<(u32, i64)>);

impl ProcessTable {
    pub fn add(&mut self, pid: u32, started_ns: i64) {
        self.0.insert((pid, started_ns));
    }

    /// The start of the process that had the PID at that moment.
    pub fn started_before(&self, pid: u32, at_ns: i64) -> Option<i64> {
        self.0.range((pid, i64::MIN)..=(pid, at_ns)).next_back().map(|(_, started_ns)| *started_ns)
    }
}

/// Each phase with the innermost one around it on its thread.
pub fn nested(phases: &mut [PhaseRow]) -> impl Iterator<Item = (&PhaseRow, Option<&PhaseRow>)> {
    phases.sort_by(|a, b| {
        let begin = |row: &PhaseRow| (row.process, row.thread, row.started_ns);
        begin(a).cmp(&begin(b)).then(b.ended_ns.cmp(&a.ended_ns))
    });
    let mut around: Vec<&PhaseRow> = Vec::new();
    phases.iter().map(move |row| {
        let holds = |outer: &PhaseRow| {
            (outer.process, outer.thread) == (row.process, row.thread)
                && outer.ended_ns >= row.ended_ns
        };
        while around.last().is_some_and(|outer| !holds(outer)) {
            around.pop();
        }
        let parent = around.last().copied();
        around.push(row);
        (row, parent)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, thread: u32, started_ns: i64, ended_ns: i64) -> PhaseRow {
        let name = name.to_string();
        PhaseRow { name, process: 7, thread, started_ns, ended_ns, ..PhaseRow::default() }
    }

    #[test]
    fn a_phase_is_in_the_innermost_one_around_it_on_its_thread() {
        let mut rows = [
            phase("inner", 1, 20, 30),
            phase("other thread", 2, 21, 29),
            phase("outer", 1, 10, 100),
            phase("second", 1, 30, 90),
            phase("in second", 1, 31, 40),
            phase("overlaps", 1, 80, 95),
            phase("after", 1, 120, 130),
        ];
        let found: Vec<(&str, Option<&str>)> = nested(&mut rows)
            .map(|(row, parent)| (row.name.as_str(), parent.map(|row| row.name.as_str())))
            .collect();
        let expected = [
            ("outer", None),
            ("inner", Some("outer")),
            ("second", Some("outer")),
            ("in second", Some("second")),
            ("overlaps", Some("outer")),
            ("after", None),
            ("other thread", None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_pid_is_that_of_who_had_it_then() {
        let mut table = ProcessTable::default();
        [(7, 100), (7, 500), (8, 50)].iter().for_each(|(pid, at)| table.add(*pid, *at));
        let found = [99, 100, 499, 500].map(|at| table.started_before(7, at));
        assert_eq!(found, [None, Some(100), Some(100), Some(500)]);
        assert_eq!(table.started_before(9, 1000), None);
    }

    #[test]
    fn a_traceparent_is_taken_as_the_standard_writes_it_and_nothing_else() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let found = trace_and_parent(&format!("00-{trace}-00f067aa0ba902b7-01")).unwrap();
        assert_eq!(found, (trace.to_string(), "00f067aa0ba902b7".to_string()));
        let zero = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("00-{trace}-00f067aa0ba902b7"),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{zero}-00f067aa0ba902b7-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            format!("00-{trace}-00f067aa0ba902b7-01-x"),
            "00-\u{e4}-\u{e4}-01".to_string(),
        ] {
            assert_eq!(trace_and_parent(&wrong), None, "{wrong}");
        }
    }
}
