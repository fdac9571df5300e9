//! The file of `--limits`: TOML, one line for each limit, and what to do when one is crossed.
//!
//! Reads the text; refuses unknown fields and amounts of the wrong unit, with the field, the value
//! and what is allowed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use weigh_schema::limit::{Limit, OnLimit};

/// What a limits file says.
#[derive(Default)]
pub struct LimitsFile {
    /// The limits.
    pub limits: Vec<Limit>,
    /// What happens when one is crossed.
    pub on_limit: Option<OnLimit>,
    /// Time between TERM and KILL.
    pub grace: Option<Duration>,
}

/// Reads a limits file.
pub fn read(path: &Path) -> anyhow::Result<LimitsFile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the limits file {}", path.display()))?;
    parse(&text).with_context(|| format!("limits file {}", path.display()))
}

/// Reads the text of a limits file: `METRIC = VALUE`, `on_limit`, `grace`.
pub fn parse(text: &str) -> anyhow::Result<LimitsFile> {
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
                file.on_limit = Some(amount.parse().context("field 'on_limit'")?);
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
        let file = parse(
            "memory_peak_bytes = \"2GiB\"\nwall_seconds = 90\non_limit = \"warn\"\ngrace = \"1s\"",
        )
        .expect("reads");
        assert_eq!(file.limits.len(), 2);
        assert_eq!(file.on_limit, Some(OnLimit::Warn));
        assert_eq!(file.grace, Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_refusal_names_field_value_and_what_is_allowed() {
        let refusal = |text: &str| format!("{:#}", parse(text).err().expect("refused"));
        assert!(refusal("memory_peek_bytes = 1").contains("did you mean memory_peak_bytes"));
        assert!(refusal("wall_seconds = \"blue\"").contains("'blue' is not a duration"));
        assert!(refusal("on_limit = \"explode\"").contains("kill, warn or stop"));
        assert!(refusal("wall_seconds = [1]").contains("is a array; expected a number"));
        assert!(refusal("wall_seconds").contains("not TOML"));
    }
}
