//! Streams of the agent: records with sequence numbers, which many clients read, each at its own position.
//!
//! A record that a client finds no more was lost to it, and it is told how many those are.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use crate::program_profile::{ProgramProfile, ProgramState};
use crate::rule::{LONGEST_TEXT_BYTES, RuleEvent, Severity};
use crate::scope::Scope;
use crate::top::{TopCollector, TopReport};
pub use crate::trace_query::{MOST_QUERY_BYTES, TraceQuery};
use crate::unit::Unit;
use crate::zero::is_zero;

/// The schema's name and version of `weigh agent status --json`.
pub const AGENT_STATUS: &str = "weigh.agent-status/1";

/// The stream of the node: a [`TopReport`] per tick.
pub const NODE: &str = "node";
/// The stream of what clients publish.
pub const PUSHED: &str = "pushed";
/// The stream of what rules say: a [`RuleEvent`] each.
pub const EVENTS: &str = "events";
/// The stream of regions of programs: a [`ProgramProfile`] each time that one was read.
pub const PROFILES: &str = "profiles";

/// Samples of one request at most.
pub const MOST_PUSHED: usize = 64;
/// Bytes of a metric's name, or of a scope, that a client publishes.
pub const MOST_NAME_BYTES: usize = 100;
/// The shortest time between two looks at the node that a reader can have.
pub const SHORTEST_INTERVAL_MS: u64 = 100;

/// What a write and a read do to the buffer of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StreamPolicy {
    /// A record replaces the one before it; reads leave it.
    ReplaceRead,
    /// Records are added; one that all readers have taken goes.
    FillDrain,
    /// A record replaces the one before it, and goes when all readers have taken it.
    ReplaceDrain,
    /// Records are added, so many at most, then each replaces the oldest; reads leave them.
    FillRead(u32),
}

impl StreamPolicy {
    /// Records that there is room for at most.
    pub fn capacity(self) -> usize {
        match self {
            StreamPolicy::ReplaceRead | StreamPolicy::ReplaceDrain => 1,
            StreamPolicy::FillDrain => usize::MAX,
            StreamPolicy::FillRead(records) => records.max(1) as usize,
        }
    }

    /// Whether a record goes when all readers have taken it.
    pub fn drains(self) -> bool {
        matches!(self, StreamPolicy::FillDrain | StreamPolicy::ReplaceDrain)
    }
}

impl fmt::Display for StreamPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamPolicy::ReplaceRead => f.write_str("replace-read"),
            StreamPolicy::FillDrain => f.write_str("fill-drain"),
            StreamPolicy::ReplaceDrain => f.write_str("replace-drain"),
            StreamPolicy::FillRead(records) => write!(f, "fill({records})-read"),
        }
    }
}

impl FromStr for StreamPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<StreamPolicy, String> {
        let records = || text.strip_prefix("fill(")?.strip_suffix(")-read")?.parse().ok();
        match text {
            "replace-read" => Ok(StreamPolicy::ReplaceRead),
            "fill-drain" => Ok(StreamPolicy::FillDrain),
            "replace-drain" => Ok(StreamPolicy::ReplaceDrain),
            _ => records()
                .filter(|records| *records > 0)
                .map(StreamPolicy::FillRead)
                .ok_or_else(|| "expected replace-read, fill-drain, replace-drain or fill(K)-read, K a number of records from 1 on".to_string()),
        }
    }
}

impl TryFrom<String> for StreamPolicy {
    type Error = String;

    fn try_from(text: String) -> Result<StreamPolicy, String> {
        text.parse()
    }
}

impl From<StreamPolicy> for String {
    fn from(policy: StreamPolicy) -> String {
        policy.to_string()
    }
}

/// Asks for records of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRead {
    /// The stream's name.
    pub stream: String,
    /// The first sequence number that is wanted; 0: the oldest that is there. One that the stream has not reached yet, as
    /// after a new start of the agent, is taken for 0.
    pub from_sequence: u64,
    /// About how many bytes of records are taken at once; one record comes in any case.
    pub at_most_bytes: u64,
    /// Of those that are there, the newest alone.
    #[serde(default)]
    pub newest: bool,
    /// Whether the answer waits for a record, for ten seconds at most.
    #[serde(default)]
    pub wait: bool,
    /// How often this reader looks, in milliseconds. As long as it is connected the node is read no less often, down to
    /// [`SHORTEST_INTERVAL_MS`]. None: it takes what there is.
    #[serde(default)]
    pub interval_ms: Option<u64>,
}

/// Records of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamRecords {
    /// The number of the first of them; where there is none, the next that will be.
    pub first_sequence: u64,
    /// What to ask from the next time.
    pub next_sequence: u64,
    /// Records between the one that was asked for and `next_sequence` that are not there any more.
    pub lost: u64,
    /// Records between them that this reader may not see: profiles of other users' programs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden: u64,
    /// When the numbering began, in nanoseconds since 1970: numbers with another one are of other records.
    pub numbering_ns: u64,
    /// In the order of their numbers.
    pub records: Vec<StreamRecord>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Its number; the first of a stream is 1.
    pub sequence: u64,
    /// When it was written, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Who has written it.
    pub source: RecordSource,
    /// What it says.
    pub body: RecordBody,
}

/// Who has written a record, as the kernel has told the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSource {
    /// The user; null where the kernel does not tell.
    pub uid: Option<u32>,
    /// The process; null where the kernel does not tell.
    pub pid: Option<u32>,
    /// How it has come.
    pub client: RecordClient,
}

/// How a record has come to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordClient {
    /// It is the agent's own.
    Agent,
    /// By the agent's socket.
    Socket,
    /// By a datagram of StatsD.
    Statsd,
    /// As metrics or spans of OpenTelemetry.
    Otlp,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordBody {
    /// The node at a tick.
    Node(Box<TopReport>),
    /// What a client has published.
    Sample(PushedSample),
    /// A rule has begun or ceased to hold.
    Event(Box<RuleEvent>),
    /// Something has happened, as a client says.
    PublishedEvent(Box<PushedEvent>),
    /// Regions of a program, as they stood; shown to its user and to root.
    Profile(Box<ProgramProfile>),
}

/// Something that has happened, as a client tells it. It is no event of a rule, and sets no command off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PushedEvent {
    /// What it is about.
    pub scope: Scope,
    /// What has happened, in a word.
    pub name: String,
    /// How much it matters.
    pub severity: Severity,
    /// It in words, at most [`LONGEST_TEXT_BYTES`].
    pub text: String,
}

impl PushedEvent {
    /// Whether it may be taken. Errors: what is wrong, and what was expected.
    pub fn check(&self) -> Result<(), String> {
        check_metric(&self.name)?;
        check_scope(&self.scope.to_string())?;
        match (1..=LONGEST_TEXT_BYTES).contains(&self.text.len()) {
            true => Ok(()),
            false => {
                Err(format!("{}: a text of 1 to {LONGEST_TEXT_BYTES} bytes is expected", self.name))
            }
        }
    }
}

/// A value that a client publishes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PushedSample {
    /// What it is about.
    pub scope: Scope,
    /// The metric's name.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// Its unit; null where none was said.
    pub unit: Option<Unit>,
    /// Of a stream of `weigh trace`: what was asked of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Box<TraceQuery>>,
}

impl PushedSample {
    /// Whether its names and its value may be taken. Errors: what is wrong, and what was expected.
    pub fn check(&self) -> Result<(), String> {
        check_metric(&self.metric)?;
        check_scope(&self.scope.to_string())?;
        if self.query.as_ref().is_some_and(|query| query.asked.len() > MOST_QUERY_BYTES) {
            return Err(format!(
                "{}: what was asked has more than {MOST_QUERY_BYTES} bytes",
                self.metric
            ));
        }
        match self.value.is_finite() {
            true => Ok(()),
            false => Err(format!("{}: the value is no finite number", self.metric)),
        }
    }
}

/// A name that every exporter can write as it is.
fn check_metric(name: &str) -> Result<(), String> {
    let is_letter = |c: u8| c.is_ascii_alphabetic() || c == b'_';
    let is_fine = name.len() <= MOST_NAME_BYTES
        && name.bytes().next().is_some_and(is_letter)
        && name.bytes().all(|c| is_letter(c) || c.is_ascii_digit());
    let expected = format!(
        "a name has letters, digits and _, no digit first, and at most {MOST_NAME_BYTES} of them"
    );
    if is_fine { Ok(()) } else { Err(format!("{}: {expected}", excerpt(name))) }
}

fn check_scope(scope: &str) -> Result<(), String> {
    let is_of_one = |c: u8| c.is_ascii_alphanumeric() || b"_.:/@-".contains(&c);
    let is_fine =
        !scope.is_empty() && scope.len() <= MOST_NAME_BYTES && scope.bytes().all(is_of_one);
    let expected =
        format!("a scope has letters, digits and _.:/@-, and at most {MOST_NAME_BYTES} of them");
    if is_fine { Ok(()) } else { Err(format!("{}: {expected}", excerpt(scope))) }
}

/// The beginning of a text from outside, quoted, without what a terminal would act on.
fn excerpt(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", crate::Printable(&start))
}

/// Changes the policy of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// The stream's name.
    pub stream: String,
    /// The policy from now on.
    pub policy: StreamPolicy,
}

/// Switches a collector of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorSwitch {
    /// The collector's name.
    pub collector: String,
    /// Whether it is read from now on.
    pub is_on: bool,
}

/// The schema's name and version of the file in which streams survive a restart of the agent.
pub const AGENT_STATE: &str = "weigh.agent-state/1";

/// A stream in that file; its records follow, a line each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamCheckpoint {
    /// Always [`AGENT_STATE`].
    pub schema: String,
    /// The stream's name.
    pub stream: String,
    /// Its policy.
    pub policy: StreamPolicy,
    /// The number of the record that comes next.
    pub next_sequence: u64,
    /// When the numbering began.
    pub numbering_ns: u64,
    /// Records that readers did not find.
    pub lost_total: u64,
    /// Records that were refused.
    pub refused_total: u64,
    /// Records that follow.
    pub records: u64,
}

/// How the agent stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Always [`AGENT_STATUS`].
    pub schema: String,
    /// The version of weigh.
    pub weigh: String,
    /// The node's name.
    pub node: String,
    /// The agent's process.
    pub pid: u32,
    /// The agent's user.
    pub uid: u32,
    /// Whether it serves programs with libweigh and follows jobs.
    pub follows_jobs: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often the node is read while no reader wants it more often.
    pub interval_seconds: f64,
    /// How often it is read now.
    pub current_interval_seconds: f64,
    /// The streams.
    pub streams: Vec<StreamStatus>,
    /// The node's collectors.
    pub collectors: Vec<TopCollector>,
    /// The page that is served of it, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<PageStatus>,
    /// Who is served: to root and the agent's own user all, to others themselves alone.
    pub served: Vec<ServedUser>,
}

/// How the page of an agent stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageStatus {
    /// Where it is served; null before that is known.
    pub address: Option<SocketAddr>,
    /// How its URLs begin; null before that is known.
    #[serde(default)]
    pub origin: Option<String>,
    /// Whether it is served now, as far as the agent knows.
    pub is_served: bool,
    /// The process that serves it, where the agent has started it.
    pub pid: Option<u32>,
    /// How often that was started.
    pub starts: u64,
    /// Why it is not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whom a token of the page is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageViewer {
    /// The user, who sees what it may see; null for a program that collects the node's metrics, and sees these alone.
    pub uid: Option<u32>,
}

/// How a stream stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Its name.
    pub name: String,
    /// Its policy.
    pub policy: StreamPolicy,
    /// Whether records are made: those of the node are while anybody reads them, and for as long after as they are kept.
    pub is_active: bool,
    /// Bytes that its records have now.
    pub size_bytes: u64,
    /// Bytes that they may have.
    pub most_bytes: u64,
    /// Records that are there.
    pub records: u64,
    /// Bytes that are written to it in a second, at the latest rate; null where that is not known.
    pub bytes_per_second: Option<f64>,
    /// For how long a reader can stop and lose nothing, at the latest rate; null where that is not known.
    pub outage_seconds: Option<f64>,
    /// Clients that read it now.
    pub readers: u64,
    /// Records that readers have not found any more, or will not, summed over readers.
    pub lost_total: u64,
    /// Records that were refused because their user, or their client, has published too many.
    pub refused_total: u64,
    /// The number of the record that comes next.
    pub next_sequence: u64,
    /// When the numbering began, in nanoseconds since 1970.
    pub numbering_ns: u64,
}

/// What a user has of the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedUser {
    /// The user; of a process in a user namespace, who made that.
    pub uid: u32,
    /// Programs with libweigh that are measured.
    pub programs: u64,
    /// Jobs, their files and streams of events that are followed.
    pub sessions: u64,
    /// Clients of streams.
    pub readers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_written() {
        for policy in [
            StreamPolicy::ReplaceRead,
            StreamPolicy::FillDrain,
            StreamPolicy::ReplaceDrain,
            StreamPolicy::FillRead(17),
        ] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            let json = serde_json::to_string(&policy).expect("writes");
            assert_eq!(serde_json::from_str::<StreamPolicy>(&json).expect("reads"), policy);
        }
        for wrong in ["", "fill-read", "fill(0)-read", "fill(-1)-read", "fill(5000000000)-read"] {
            assert!(wrong.parse::<StreamPolicy>().is_err(), "{wrong}");
        }
    }

    fn sample(metric: &str, scope: &str, value: f64) -> PushedSample {
        PushedSample {
            scope: scope.to_string().into(),
            metric: metric.to_string(),
            value,
            unit: None,
            query: None,
        }
    }

    #[test]
    fn names_from_outside_are_held_to_a_few_letters() {
        let long = "a".repeat(MOST_NAME_BYTES + 1);
        assert_eq!(sample("queue_length_7", "job:17@node-3", -1.5).check(), Ok(()));
        assert_eq!(sample(&long[1..], "node", 0.0).check(), Ok(()));
        for name in ["", "7up", "a b", "a\x1b[2J", "<b>", "a\"", "\u{e4}", &long, "a\n"] {
            let refused = sample(name, "node", 1.0).check().expect_err(name);
            assert!(!refused.contains('\x1b') && refused.len() < 300, "{refused}");
        }
        for scope in ["", "a b", "x\ny", "<", &long] {
            assert!(sample("a", scope, 1.0).check().is_err(), "{scope}");
        }
        assert!(sample("a", "node", f64::NAN).check().is_err());
        let asking = |bytes| {
            let query = TraceQuery { asked: "a".repeat(bytes), followed_pid: None };
            PushedSample { query: Some(query.into()), ..sample("a", "node", 1.0) }.check()
        };
        assert_eq!(asking(MOST_QUERY_BYTES), Ok(()));
        assert!(asking(MOST_QUERY_BYTES + 1).is_err());
    }
}
