//! What `weigh explain` says of calls: the slow ones beside the ordinary ones of each kind.

mod counters;
mod phase;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::amount::{parse_duration, show_amount, show_number_of};
pub use crate::call_row::INTERVAL;
use crate::subsystem::Subsystem;
use crate::unit::Unit;
use crate::zero::is_zero;
pub use counters::{COUNTERS, Counter, CounterDifference, RUN_QUEUE};
pub use phase::{PHASE_REPORT, PhaseResource, PhaseUsage, PhaseVerdict, ResourceKind};

/// The schema of the report.
pub const REPORT: &str = "weigh.explain/3";

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// Calls with those of their kind.
    #[default]
    Call,
    /// Intervals of libweigh, all with each other.
    Interval,
    /// Intervals of libweigh, with those of the same token.
    Token,
}

impl Of {
    /// What so many of them are called.
    pub fn plural(self) -> &'static str {
        match self {
            Of::Call => "calls",
            Of::Interval | Of::Token => "intervals",
        }
    }

    /// So many of them: `1 call`, `1 234 calls`.
    pub fn number(self, number: u64) -> String {
        let one = match self {
            Of::Call => "call",
            Of::Interval | Of::Token => "interval",
        };
        show_number_of(number, one, self.plural())
    }
}

/// Where the time of an interval goes between its calls, which is no part of the kernel.
pub static PROGRAM: Subsystem = Subsystem {
    name: "program",
    help: "the program itself, from one call of an interval to the next",
    busy: "in the program itself",
    waits: "waiting in the program itself",
    fields: &[],
};

/// The part of the kernel of that name, or the program itself.
pub fn part_named(name: &str) -> Option<&'static Subsystem> {
    if name == PROGRAM.name { Some(&PROGRAM) } else { Subsystem::named(name) }
}

/// Which calls of a kind are the slow ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowRule {
    /// The slowest, this share of all, if they took at least twice the median.
    Share(f64),
    /// All that took so many seconds.
    Seconds(f64),
}

/// A text that is neither a share nor a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRuleError(String);

impl std::error::Error for SlowRuleError {}

impl fmt::Display for SlowRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = "expected a share of the calls, up to 50%, or a duration: 1%, 10ms";
        write!(f, "'{}' says not which calls are slow: {expected}", self.0)
    }
}

impl FromStr for SlowRule {
    type Err = SlowRuleError;

    fn from_str(text: &str) -> Result<SlowRule, SlowRuleError> {
        let refuse = || SlowRuleError(text.to_string());
        if let Some(number) = text.strip_suffix('%') {
            let percent: f64 = number.trim().parse().map_err(|_| refuse())?;
            let is_share = percent > 0.0 && percent <= 50.0;
            return is_share.then_some(SlowRule::Share(percent / 100.0)).ok_or_else(refuse);
        }
        let duration = parse_duration(text).ok().filter(|d| *d > Duration::ZERO);
        duration.map(|d| SlowRule::Seconds(d.as_secs_f64())).ok_or_else(refuse)
    }
}

/// What the slow calls are: `the slowest 1 %, if twice the median`.
impl fmt::Display for SlowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlowRule::Share(share) => {
                write!(f, "the slowest {} % of a kind that took twice the median", share * 100.0)
            }
            SlowRule::Seconds(seconds) => {
                write!(f, "those that took {} or more", show_amount(*seconds, Unit::Seconds))
            }
        }
    }
}

/// What differs between slow and ordinary calls: what other software builds on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainReport {
    /// [`REPORT`].
    pub schema: String,
    /// What was followed.
    pub command: String,
    /// Its words in Base64, each ended by a NUL byte, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_base64: Option<String>,
    /// What is compared: where it is intervals, everything here that says calls means those.
    pub of: Of,
    /// Which calls are the slow ones. The ordinary ones lie between the quartiles of their kind. Absent
    /// where intervals were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowRule>,
    /// Calls that were looked at.
    pub calls_total: u64,
    /// Calls that came too fast to be told one by one: they are not among those.
    pub untold_total: u64,
    /// Calls, or what they left behind, for which the kernel side had no room.
    pub lost_total: u64,
    /// Bits of what came later of calls that are missing, for they came too fast.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold_later_total: u64,
    /// Calls of which what came later stands with another call of their kind.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub merged_later_total: u64,
    /// Calls of which what came later is not known, for bits of it that may be theirs came too fast.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_later_total: u64,
    /// Parts of the kernel that were not looked into: their time is in the remainder.
    pub unmeasured: Vec<String>,
    /// Numbers that the file of calls does not have: they are compared nowhere, and none of them is 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<Unavailable>,
    /// The kinds of calls, those whose slow ones lost most time first.
    pub kinds: Vec<ExplainedKind>,
}

/// A token whose intervals were asked for: they stand in the place of the slow ones, however long they took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedToken {
    /// Its number.
    pub token: u64,
    /// As it was asked for: that number, or the text of which it is made.
    pub given: String,
}

/// `token 17`, or `token req-2 (3835346158826075702)`.
impl fmt::Display for AskedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.given == self.token.to_string() {
            true => write!(f, "token {}", self.token),
            false => write!(f, "token {} ({})", self.given, self.token),
        }
    }
}

/// A number that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// The column of the file, or the key of the report.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What came of one kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There are slow and ordinary calls, and they differ.
    Differ,
    /// There are both, and they hardly differ.
    Alike,
    /// None was slow.
    NoneSlow,
    /// Nearly all were slow, so nothing is ordinary.
    AllSlow,
    /// Too few calls to call any of them ordinary.
    TooFew,
}

/// One kind of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedKind {
    /// The call's name.
    pub call: String,
    /// What they are about, if calls were grouped so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_base64: Option<String>,
    /// Whose intervals were asked for: they are those called slow in what follows, and the ordinary ones
    /// are of all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedToken>,
    /// How many there are.
    pub calls_total: u64,
    /// Half of them took no longer; of the others, where intervals were asked for.
    pub median_seconds: f64,
    /// What could be said of them.
    pub verdict: Verdict,
    /// A call that took so long is slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_from_seconds: Option<f64>,
    /// The slow ones.
    pub slow: CallGroup,
    /// The ordinary ones.
    pub ordinary: CallGroup,
    /// What the slow ones have more of, the greatest first. With what they have less of, these add
    /// up to the difference of their means.
    pub differences: Vec<Difference>,
    /// The bytes that the calls moved, where these differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<MovedDifference>,
    /// How many of the calls failed, where the sides differ in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeDifference>,
    /// What else differs: counts, bytes, and times that are no part of the call's own. The first
    /// tells slow ones from ordinary ones best.
    pub counters: Vec<CounterDifference>,
    /// Rivals of the slow ones, in their way more often than in that of the ordinary ones.
    pub rivals: Vec<RivalShare>,
    /// The tokens of the slowest, where these are intervals, the slowest first; not more than a few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_tokens: Vec<u64>,
    /// All calls of the kind by their time.
    pub histogram: Vec<TimeBucket>,
}

/// Some calls of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallGroup {
    /// How many.
    pub calls_total: u64,
    /// The shortest of them.
    pub from_seconds: f64,
    /// The longest.
    pub to_seconds: f64,
    /// Their mean.
    pub mean_seconds: f64,
    /// Of so many something that they caused had not come to its end: they caused more than is told. Absent
    /// where nothing is known of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_calls_total: Option<u64>,
}

/// What a thread did in a part of the kernel while time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It was on a CPU.
    Busy,
    /// It waited.
    Waiting,
    /// It was runnable, and others had the CPU.
    Runnable,
}

/// A part of the kernel in which slow calls spent another time than ordinary ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The part.
    pub subsystem: String,
    /// What the thread did there.
    pub doing: Doing,
    /// The mean of the slow calls.
    pub slow_seconds: f64,
    /// The mean of the ordinary calls.
    pub ordinary_seconds: f64,
    /// What the slow ones have more.
    pub more_seconds: f64,
}

/// Bytes that calls moved, as they returned them, of those that did not fail; of intervals, those of all
/// their calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MovedDifference {
    /// The mean of the slow calls.
    pub slow_bytes: f64,
    /// The mean of the ordinary calls.
    pub ordinary_bytes: f64,
    /// So many of the slow calls moved more than any ordinary one, where they move more, and less than any
    /// where they move less. Within 1.6 % numbers are taken for the same.
    pub beyond_calls_total: u64,
}

/// How calls ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeDifference {
    /// So many of the slow calls failed.
    pub slow_failed_total: u64,
    /// So many of the ordinary calls did.
    pub ordinary_failed_total: u64,
    /// With which errors the slow calls failed, by name, and how many with each.
    pub slow_errors: BTreeMap<String, u64>,
    /// The same of the ordinary calls.
    pub ordinary_errors: BTreeMap<String, u64>,
}

/// A rival of slow calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RivalShare {
    /// How: a name of [`RIVALS`](crate::call::RIVALS).
    pub kind: String,
    /// The kernel's name for it.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// The process, if it was one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Whether it was the caller's own process.
    pub is_own: bool,
    /// In the way of so many of the slow calls.
    pub slow_total: u64,
    /// In the way of so many of the ordinary calls.
    pub ordinary_total: u64,
}

/// Calls that took about the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeBucket {
    /// From this time on.
    pub from_seconds: f64,
    /// Below this.
    pub to_seconds: f64,
    /// How many calls.
    pub calls_total: u64,
    /// Where their time went: seconds of all of them, by part of the kernel; `run_queue` is what
    /// they were runnable while others had the CPU.
    pub parts: BTreeMap<String, f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_or_a_duration_is_read_and_else_nothing() {
        assert_eq!("1%".parse(), Ok(SlowRule::Share(0.01)));
        assert_eq!("0.1 %".parse(), Ok(SlowRule::Share(0.001)));
        assert_eq!("10ms".parse(), Ok(SlowRule::Seconds(0.01)));
        for bad in ["", "%", "0%", "51%", "-1%", "NaN%", "0ms", "slow"] {
            assert!(bad.parse::<SlowRule>().is_err(), "{bad}");
        }
    }
}
