//! A record as it is sent: JSON, made once for all readers; rows of rules, jobs and processes that not everybody may see stand apart.

use std::collections::BTreeMap;

use weigh_schema::rule::{RuleStatus, pid_of_job};
use weigh_schema::stream::{RecordBody, StreamRecord};
use weigh_schema::top::{TopProcess, TopReport};
use weigh_wire::Payload;

/// Who may see processes and jobs in a record of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    /// Everybody.
    #[default]
    Everybody,
    /// Processes everybody, and what was typed to start them, and jobs, their user and root: the user of each process.
    OwnersInFull(BTreeMap<u32, u32>),
    /// All of it their user and root, as `/proc` has it with hidepid: the user of each process.
    Owners(BTreeMap<u32, u32>),
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// The user.
    pub uid: u32,
    /// Whether it is root, or the agent's own user.
    pub is_trusted: bool,
}

impl Viewer {
    /// One who has no processes.
    pub const STRANGER: Viewer = Viewer { uid: u32::MAX, is_trusted: false };
}

/// A record as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedRecord {
    json: Vec<u8>,
    visible_to: VisibleTo,
    /// Rows of its four lists.
    rows: Option<Rows>,
}

/// Rows, and where they belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rows {
    at: usize,
    rules: Vec<Row>,
    jobs: Vec<Row>,
    processes: Vec<Row>,
    profiles: Vec<Row>,
}

impl Rows {
    fn lists(&self) -> [&Vec<Row>; 4] {
        [&self.rules, &self.jobs, &self.processes, &self.profiles]
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    visible_to: VisibleTo,
    json: Vec<u8>,
    /// The part of it that others than those do not see; none where they see nothing of it.
    private: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum VisibleTo {
    #[default]
    Everybody,
    User(u32),
    Root,
}

/// Bytes of the rows of a record at most: command lines are anybody's.
const MOST_ROW_BYTES: usize = 1 << 20;

/// How the lists are written where they are empty. A text in JSON cannot hold it: its quotes are escaped there.
const EMPTY_LISTS: &[u8] = br#""rules":[],"jobs":[],"processes":[],"profiles":[]"#;
const RULES: &[u8] = br#""rules":["#;
const JOBS: &[u8] = br#"],"jobs":["#;
const PROCESSES: &[u8] = br#"],"processes":["#;
const PROFILES: &[u8] = br#"],"profiles":["#;

impl EncodedRecord {
    /// As it is sent. Processes of the node that there is no room for, from the last on, are left out and counted.
    pub fn new(mut record: StreamRecord, visibility: &Visibility) -> EncodedRecord {
        let RecordBody::Node(report) = &mut record.body else {
            let visible_to = match (&record.body, record.source.uid) {
                (RecordBody::Profile(_), Some(uid)) => VisibleTo::User(uid),
                (RecordBody::Profile(_), None) => VisibleTo::Root,
                _ => VisibleTo::Everybody,
            };
            return EncodedRecord { json: json(&record), visible_to, rows: None };
        };
        let mut rows = take_rows(report, visibility);
        let json = json(&record);
        let is_there = |at: &usize| json[*at..].starts_with(EMPTY_LISTS);
        // Without the place nobody sees any row.
        let at = (0..json.len()).rev().find(is_there);
        rows.at = at.unwrap_or_default();
        EncodedRecord { json, visible_to: VisibleTo::Everybody, rows: at.map(|_| rows) }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let rows = self.rows.iter().flat_map(Rows::lists).flatten();
        let of_rows: usize = rows.map(|row| row.json.len() + size_of::<Row>()).sum();
        self.json.len() + of_rows + size_of::<EncodedRecord>()
    }

    /// Whether a reader may see anything of it.
    pub fn is_visible(&self, viewer: Viewer) -> bool {
        self.visible_to.includes(viewer)
    }

    /// Writes it as a reader may see it.
    pub fn write(&self, viewer: Viewer, to: &mut Vec<u8>) {
        let Some(rows) = &self.rows else { return to.extend_from_slice(&self.json) };
        to.extend_from_slice(&self.json[..rows.at]);
        to.extend_from_slice(RULES);
        write_list(&rows.rules, viewer, to);
        to.extend_from_slice(JOBS);
        write_list(&rows.jobs, viewer, to);
        to.extend_from_slice(PROCESSES);
        write_list(&rows.processes, viewer, to);
        to.extend_from_slice(PROFILES);
        write_list(&rows.profiles, viewer, to);
        to.push(b']');
        to.extend_from_slice(&self.json[rows.at + EMPTY_LISTS.len()..]);
    }
}

impl VisibleTo {
    fn includes(self, viewer: Viewer) -> bool {
        match self {
            VisibleTo::Everybody => true,
            VisibleTo::User(uid) => viewer.is_trusted || viewer.uid == uid,
            VisibleTo::Root => viewer.is_trusted,
        }
    }
}

impl Row {
    /// As it is for a reader, in parts; none where it is not there for it.
    fn parts(&self, viewer: Viewer) -> Option<[&[u8]; 2]> {
        if self.visible_to.includes(viewer) {
            return Some([&self.json, &[]]);
        }
        let (start, end) = self.private?;
        Some([&self.json[..start as usize], &self.json[end as usize..]])
    }
}

/// The part that is in a text and not in a shorter one, which has all the rest; none where that is not so.
fn part_left_out(full: &[u8], short: &[u8]) -> Option<(u32, u32)> {
    let alike = |(a, b): &(&u8, &u8)| a == b;
    let start = full.iter().zip(short).take_while(alike).count();
    let end = full.len().checked_sub(short.len() - start)?;
    let is_rest = full.get(end..)? == &short[start..];
    is_rest.then_some((u32::try_from(start).ok()?, u32::try_from(end).ok()?))
}

fn write_list(list: &[Row], viewer: Viewer, to: &mut Vec<u8>) {
    for (at, parts) in list.iter().filter_map(|row| row.parts(viewer)).enumerate() {
        if at > 0 {
            to.push(b',');
        }
        parts.iter().for_each(|part| to.extend_from_slice(part));
    }
}

fn take_rows(report: &mut TopReport, visibility: &Visibility) -> Rows {
    let visible_to = |pid: u32| match visibility {
        Visibility::Everybody => VisibleTo::Everybody,
        Visibility::Owners(owners) | Visibility::OwnersInFull(owners) => {
            owners.get(&pid).map_or(VisibleTo::Root, |uid| VisibleTo::User(*uid))
        }
    };
    // What is said of a job names it.
    let job = |rule: &RuleStatus| rule.scope.as_ref().and_then(pid_of_job);
    let rules = std::mem::take(&mut report.rules);
    let rules = rules.iter().map(|rule| Row {
        visible_to: job(rule).map_or(VisibleTo::Everybody, visible_to),
        json: json(rule),
        private: None,
    });
    let rules = rules.collect();
    let mut left = MOST_ROW_BYTES;
    let mut fits = |row: &Row| {
        left = left.saturating_sub(row.json.len() + 1);
        left > 0
    };
    let jobs = std::mem::take(&mut report.jobs);
    let jobs = jobs.iter().map(|job| Row {
        visible_to: visible_to(job.pid),
        json: json(job),
        private: None,
    });
    let jobs: Vec<Row> = jobs.take_while(&mut fits).collect();
    let profiles = std::mem::take(&mut report.profiles);
    let rows = profiles.iter().map(|profile| Row {
        visible_to: VisibleTo::User(profile.uid),
        json: json(profile),
        private: None,
    });
    let of_profiles: Vec<Row> = rows.take_while(&mut fits).collect();
    report.profiles_left_out += (profiles.len() - of_profiles.len()) as u64;
    let processes = std::mem::take(&mut report.processes);
    let is_listed = matches!(visibility, Visibility::OwnersInFull(_));
    let rows = processes.iter().map(|row| {
        let full = json(row);
        let private = is_listed.then(|| part_left_out(&full, &json(&without_command(row))));
        Row { visible_to: visible_to(row.pid), json: full, private: private.flatten() }
    });
    let rows: Vec<Row> = rows.take_while(&mut fits).collect();
    report.processes_left_out += (processes.len() - rows.len()) as u64;
    Rows { at: 0, rules, jobs, processes: rows, profiles: of_profiles }
}

fn without_command(process: &TopProcess) -> TopProcess {
    TopProcess { command: Vec::new(), command_base64: Vec::new(), ..process.clone() }
}

/// Of types that JSON has a form for, always.
fn json(value: &impl Payload) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = value.write(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use weigh_schema::rule::{RuleStanding, Severity, scope_of_job};
    use weigh_schema::stream::{RecordClient, RecordSource};
    use weigh_schema::top::{TOP, TopJob, TopProcess, TopValue};
    use weigh_schema::update::Scope;
    use weigh_schema::{Number, Quality, Unit};

    use super::*;

    fn rule(scope: Scope) -> RuleStatus {
        RuleStatus {
            rule: "swap".into(),
            state: RuleStanding::Holds,
            severity: Severity::Warning,
            scope: Some(scope),
            metric: "cpu_cores".into(),
            value: Some(1.0),
            unit: Unit::Cores,
            per_second: false,
            true_seconds: Some(1.0),
            for_seconds: 0.0,
            text: "it swaps".into(),
            paste: String::new(),
            reason: None,
        }
    }

    fn process(pid: u32, user: &str, word: &str) -> TopProcess {
        TopProcess {
            pid,
            parent_pid: 1,
            user: user.into(),
            name: word.into(),
            name_base64: None,
            command: vec![word.into()],
            command_base64: Vec::new(),
            state: "R".into(),
            threads: 1,
            cpu_cores: None,
            cpu_seconds: 0.5,
            memory_rss_bytes: 4096,
            job: None,
        }
    }

    fn of_node(report: TopReport, visibility: &Visibility) -> EncodedRecord {
        let source = RecordSource { uid: Some(1), pid: Some(2), client: RecordClient::Agent };
        let body = RecordBody::Node(Box::new(report));
        EncodedRecord::new(StreamRecord { sequence: 17, time_ns: 19, source, body }, visibility)
    }

    /// With names that look like the lists themselves.
    fn report() -> TopReport {
        let evil = "\"jobs\":[],\"processes\":[]";
        let value = TopValue {
            value: Some(Number::Whole(7)),
            unit: Unit::Count,
            quality: Quality::Exact,
            per_second: None,
        };
        TopReport {
            schema: TOP.into(),
            node: evil.into(),
            time: "2026-01-02T03:04:05Z".parse().unwrap(),
            interval_seconds: Some(1.0),
            user: None,
            metrics: [(evil.to_string().into(), [(evil.to_string(), value)].into())].into(),
            cores: Vec::new(),
            collectors: Vec::new(),
            jobs: vec![TopJob {
                pid: 7,
                user: "ann".into(),
                command: vec![evil.into()],
                command_base64: Vec::new(),
                processes: 1,
                cpu_cores: None,
                memory_rss_sum_bytes: 1,
                ..TopJob::default()
            }],
            rules: vec![rule("node".to_string().into()), rule(scope_of_job(7))],
            processes: vec![
                process(8, "ann", evil),
                process(9, "bob", "b"),
                process(10, "root", "c"),
                process(11, "ann", "d"),
            ],
            processes_unreadable: 3,
            ..TopReport::default()
        }
    }

    fn seen(record: &EncodedRecord, uid: u32, is_trusted: bool) -> TopReport {
        let mut bytes = Vec::new();
        record.write(Viewer { uid, is_trusted }, &mut bytes);
        let record = StreamRecord::read(&bytes).expect("a record");
        assert_eq!((record.sequence, record.time_ns), (17, 19));
        let RecordBody::Node(report) = record.body else { panic!("of the node") };
        *report
    }

    #[test]
    fn with_hidepid_each_user_sees_its_own_processes_and_root_all() {
        let everybody = of_node(report(), &Visibility::Everybody);
        assert_eq!(seen(&everybody, 1234, false), report());
        let owners = [(7, 1001), (8, 1001), (9, 1002), (10, 0), (11, 1001)];
        let owners = Visibility::Owners(owners.into());
        let hidden = of_node(report(), &owners);
        assert_eq!(seen(&hidden, 0, true), report());
        let pids = |uid: u32| {
            let report = seen(&hidden, uid, false);
            let pids: Vec<u32> = report.processes.iter().map(|process| process.pid).collect();
            (report.rules.len(), report.jobs.len(), pids)
        };
        assert_eq!(pids(1001), (2, 1, vec![8, 11]));
        assert_eq!(pids(1002), (1, 0, vec![9]));
        // Root of a user namespace is not trusted.
        assert_eq!(pids(1234), (1, 0, vec![]));
        // A process whose user is not known is nobody's.
        let unknown = of_node(report(), &Visibility::Owners(BTreeMap::new()));
        assert!(seen(&unknown, 0, false).processes.is_empty());
        assert_eq!(seen(&unknown, 0, true), report());
    }

    #[test]
    fn of_others_a_user_sees_that_they_run_and_not_what_was_typed() {
        let owners = [(7, 1001), (8, 1001), (9, 1002), (10, 0), (11, 1001)];
        let record = of_node(report(), &Visibility::OwnersInFull(owners.into()));
        assert_eq!(seen(&record, 0, true), report());
        let commands = |uid: u32| {
            let report = seen(&record, uid, false);
            let typed = report.processes.iter().map(|process| process.command.len());
            (report.rules.len(), report.jobs.len(), typed.collect::<Vec<usize>>())
        };
        assert_eq!(commands(1001), (2, 1, vec![1, 0, 0, 1]));
        assert_eq!(commands(1002), (1, 0, vec![0, 1, 0, 0]));
        assert_eq!(commands(Viewer::STRANGER.uid), (1, 0, vec![0; 4]));
        let expected = TopProcess { command: Vec::new(), ..process(9, "bob", "b") };
        assert_eq!(seen(&record, 1001, false).processes[1], expected);
        // Where it is not known whose a process is, only root sees all of it.
        let unknown = of_node(report(), &Visibility::OwnersInFull(BTreeMap::new()));
        assert!(seen(&unknown, 1001, false).processes.iter().all(|one| one.command.is_empty()));
    }

    #[test]
    fn the_part_left_out_makes_the_shorter_text_whatever_stands_in_both() {
        for (full, short) in [
            ("{\"a\":[\"x\",\"x\"],\"b\":1}", "{\"a\":[],\"b\":1}"),
            ("[[]]", "[]"),
            ("aaaa", "aa"),
            ("abab", "ab"),
            ("a", "a"),
        ] {
            let (start, end) = part_left_out(full.as_bytes(), short.as_bytes()).expect("a part");
            let rest = format!("{}{}", &full[..start as usize], &full[end as usize..]);
            assert_eq!(rest, short, "{full}");
        }
        assert_eq!(part_left_out(b"abc", b"axc"), None);
        assert_eq!(part_left_out(b"abc", b"abcd"), None);
    }

    #[test]
    fn a_record_has_a_bound_and_says_what_it_leaves_out() {
        let mut report = report();
        // As JSON six times as long.
        let evil = "\x1b".repeat(4096);
        report.processes = (0..1000).map(|pid| process(pid, "ann", &evil)).collect();
        let record = of_node(report, &Visibility::Everybody);
        assert!(record.bytes() < MOST_ROW_BYTES + (64 << 10), "{}", record.bytes());
        let seen = seen(&record, 1, false);
        assert!(seen.processes.len() > 10, "{}", seen.processes.len());
        assert_eq!(seen.processes.len() as u64 + seen.processes_left_out, 1000);
    }
}
