//! What the user asked for, checked before anything is started.
//!
//! Reads the parsed options and the limits file; refuses a limits file with unknown fields or
//! amounts of the wrong unit, and destinations that can not be written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use weigh_schema::limit::{Limit, OnLimit};

use crate::arguments::{RunArguments, on_limit};

/// Time between TERM and KILL, unless the user says otherwise.
const GRACE: Duration = Duration::from_secs(5);

/// The options of one run.
pub struct Settings {
    /// The options as given.
    pub arguments: RunArguments,
    /// A name for the recording.
    pub id: String,
    /// Where the recording goes.
    pub directory: PathBuf,
    /// All limits, of the command line and the file; the command line's win.
    pub limits: Vec<Limit>,
    /// What happens when one is crossed.
    pub on_limit: OnLimit,
    /// Time between TERM and KILL.
    pub grace: Duration,
}

impl Settings {
    /// Checks the options.
    pub fn new(arguments: RunArguments) -> anyhow::Result<Settings> {
        let id = weigh_keep::new_job_id(Timestamp::now(), std::process::id());
        let directory = match &arguments.output {
            Some(directory) => directory.clone(),
            None => weigh_keep::default_directory(&id)?,
        };
        let mut file = match &arguments.limits_file {
            Some(path) => read_limits(path)?,
            None => LimitsFile::default(),
        };
        file.limits.retain(|l| !arguments.limits.iter().any(|o| o.metric.name == l.metric.name));
        let limits = arguments.limits.iter().cloned().chain(file.limits).collect();
        let on_limit = arguments.on_limit.or(file.on_limit).unwrap_or_default();
        let grace = arguments.grace.or(file.grace).unwrap_or(GRACE);
        Ok(Settings { arguments, id, directory, limits, on_limit, grace })
    }

    /// Whether a collector was not turned off.
    pub fn wants(&self, collector: crate::arguments::Collector) -> bool {
        !self.arguments.without.contains(&collector)
    }
}

/// What a limits file says.
#[derive(Default)]
pub struct LimitsFile {
    limits: Vec<Limit>,
    on_limit: Option<OnLimit>,
    grace: Option<Duration>,
}

fn read_limits(path: &Path) -> anyhow::Result<LimitsFile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the limits file {}", path.display()))?;
    parse_limits(&text).with_context(|| format!("limits file {}", path.display()))
}

/// Reads the text of a limits file: `METRIC = VALUE`, `on_limit`, `grace`.
pub fn parse_limits(text: &str) -> anyhow::Result<LimitsFile> {
    let table: toml::Table = text.parse().context("not TOML")?;
    let mut file = LimitsFile::default();
    for (field, value) in table {
        let amount = match &value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            other => bail!(
                "field '{field}' is a {}; expected a number or a text such as \"2GiB\" or \"90s\"",
                other.type_str()
            ),
        };
        match field.as_str() {
            "on_limit" => {
                file.on_limit = Some(on_limit(&amount).map_err(anyhow::Error::msg)?);
            }
            "grace" => {
                let grace = weigh_schema::amount::parse_duration(&amount);
                file.grace = Some(grace.context("field 'grace'")?);
            }
            metric => file.limits.push(Limit::new(metric, &amount).with_context(|| {
                format!("field '{metric}' (besides metrics, on_limit and grace are allowed)")
            })?),
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limits_file() {
        let file = parse_limits(
            "memory_peak_bytes = \"2GiB\"\nwall_seconds = 90\non_limit = \"warn\"\ngrace = \"1s\"",
        )
        .expect("reads");
        assert_eq!(file.limits.len(), 2);
        assert_eq!(file.on_limit, Some(OnLimit::Warn));
        assert_eq!(file.grace, Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_refusal_names_field_value_and_what_is_allowed() {
        let refusal = |text: &str| format!("{:#}", parse_limits(text).err().expect("refused"));
        assert!(refusal("memory_peek_bytes = 1").contains("did you mean memory_peak_bytes"));
        assert!(refusal("wall_seconds = \"blue\"").contains("'blue' is not a duration"));
        assert!(refusal("on_limit = \"explode\"").contains("kill, warn or stop"));
        assert!(refusal("wall_seconds = [1]").contains("is a array; expected a number"));
        assert!(refusal("wall_seconds").contains("not TOML"));
    }
}
