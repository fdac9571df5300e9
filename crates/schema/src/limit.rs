//! Limits on a job: `METRIC=VALUE` and what to do when one is crossed.
//!
//! Reads the text of `--limit`; refuses unknown metrics (with the nearest that exist), metrics
//! that cannot be limited, and amounts that are not of the metric's unit.

use serde::de::IntoDeserializer as _;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize};

use crate::amount::{AmountError, parse_amount};
use crate::metric::{METRICS, Metric, metric, nearest_metrics};

/// What happens when a limit is crossed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// The whole job is ended: TERM, and after the grace KILL.
    #[default]
    Kill,
    /// A warning is written; the job goes on.
    Warn,
    /// The whole job is stopped (SIGSTOP) and weigh waits for it to be continued or ended.
    Stop,
}

/// One limit.
#[derive(Clone, Debug)]
pub struct Limit {
    /// What is limited.
    pub metric: &'static Metric,
    /// The greatest value allowed, of a floor the least, in the metric's unit.
    pub value: f64,
    /// The same as it was written.
    pub written: String,
}

/// Why a limit could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// There is no `=`.
    NoValue(String),
    /// There is no such metric.
    UnknownMetric(String),
    /// The metric goes up and down by nature.
    NotLimitable(&'static str),
    /// The amount is not of the metric's unit.
    BadAmount(&'static str, AmountError),
    /// Nothing that could happen is called so.
    UnknownAction(String),
}

impl std::fmt::Display for LimitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LimitError::NoValue(text) => write!(
                f,
                "limit '{text}' has no value; expected METRIC=VALUE, such as memory_peak_bytes=2GiB"
            ),
            LimitError::UnknownMetric(name) => {
                write!(f, "there is no metric '{name}'")?;
                match nearest_metrics(name).as_slice() {
                    [] => write!(f, "; limits are on {}", limitable().join(", ")),
                    near => write!(f, "; did you mean {}?", near.join(" or ")),
                }
            }
            LimitError::NotLimitable(name) => {
                let allowed = limitable().join(", ");
                write!(
                    f,
                    "'{name}' goes up and down, so it cannot be limited; allowed are {allowed}"
                )
            }
            LimitError::BadAmount(name, error) => write!(f, "limit on {name}: {error}"),
            LimitError::UnknownAction(text) => {
                write!(f, "'{text}' is no action; expected kill, warn or stop")
            }
        }
    }
}

impl std::error::Error for LimitError {}

/// The names of metrics that limits can be on.
fn limitable() -> Vec<&'static str> {
    METRICS.iter().filter(|metric| metric.can_be_limited()).map(|metric| metric.name).collect()
}

impl Limit {
    /// A limit on the named metric.
    pub fn new(name: &str, amount: &str) -> Result<Limit, LimitError> {
        let metric = metric(name).ok_or_else(|| LimitError::UnknownMetric(name.to_string()))?;
        if !metric.can_be_limited() {
            return Err(LimitError::NotLimitable(metric.name));
        }
        let value = parse_amount(amount, metric.unit)
            .map_err(|error| LimitError::BadAmount(metric.name, error))?;
        Ok(Limit { metric, value, written: amount.trim().to_string() })
    }
}

impl std::str::FromStr for OnLimit {
    type Err = LimitError;

    /// By the name that it has in the summary.
    fn from_str(text: &str) -> Result<OnLimit, LimitError> {
        let name: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
        OnLimit::deserialize(name).map_err(|_| LimitError::UnknownAction(text.to_string()))
    }
}

impl std::str::FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Limit, LimitError> {
        let (name, amount) =
            text.split_once('=').ok_or_else(|| LimitError::NoValue(text.to_string()))?;
        Limit::new(name.trim(), amount.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_limits() {
        let limit: Limit = "memory_peak_bytes=100MB".parse().expect("a limit");
        assert_eq!((limit.metric.name, limit.value), ("memory_peak_bytes", 100e6));
        let limit: Limit = "wall_seconds = 1h30m".parse().expect("a limit");
        assert_eq!(limit.value, 5400.0);
    }

    #[test]
    fn a_refusal_says_what_would_be_right() {
        let refusal = |text: &str| text.parse::<Limit>().expect_err("refused").to_string();
        assert!(refusal("memory_peak_bytes").contains("METRIC=VALUE"));
        assert!(refusal("memory_peek_bytes=1").contains("did you mean memory_peak_bytes"));
        assert!(refusal("cpu_cores_average=1").contains("wall_seconds"));
        assert!(refusal("wall_seconds=blue").contains("a duration"));
        assert!(refusal("processes_peak=1.5").contains("'1.5' is not a whole number"));
        assert_eq!("processes_peak=1e3".parse::<Limit>().expect("a limit").value, 1000.0);
        let unlike = refusal("nosuch=1");
        assert!(
            unlike.contains("limits are on") && unlike.contains("memory_peak_bytes"),
            "{unlike}"
        );
    }

    #[test]
    fn an_action_has_the_name_that_the_summary_has() {
        for action in [OnLimit::Kill, OnLimit::Warn, OnLimit::Stop] {
            let name = serde_json::to_value(action).expect("JSON");
            assert_eq!(name.as_str().expect("a text").parse(), Ok(action));
        }
        let refusal = "Kill".parse::<OnLimit>().expect_err("refused").to_string();
        assert_eq!(refusal, "'Kill' is no action; expected kill, warn or stop");
    }
}
