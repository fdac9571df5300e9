//! Which files are watched for snapshots: `--snapshot LABEL=FILE[:PATTERN]`, and the file of
//! `--snapshot-events`, which is resource_monitor's.
//!
//! Reads the option's text or the file's JSON; refuses labels, patterns and fields that it does not
//! know, with what is allowed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use regex::bytes::Regex;
use serde::Deserialize;
use weigh_account::{Rule, WatchSpec};
use weigh_schema::summary::WatchedFile;

/// Reads `LABEL=FILE` or `LABEL=FILE:PATTERN`.
pub fn parse(text: &str) -> Result<WatchSpec, String> {
    let Some((label, rest)) = text.split_once('=') else {
        return Err(format!("'{text}' is no snapshot; expected LABEL=FILE or LABEL=FILE:PATTERN"));
    };
    check_label(label)?;
    let (path, text) = match rest.split_once(':') {
        Some((path, text)) => (path, Some(text)),
        None => (rest, None),
    };
    if path.is_empty() {
        return Err(format!("'{text}': no file", text = text.unwrap_or(rest)));
    }
    let rule = Rule {
        label: label.to_string(),
        on_create: text.is_none(),
        on_truncate: false,
        pattern: text.map(pattern).transpose()?,
        most: None,
    };
    Ok(watch_spec(PathBuf::from(path), FileEntry::default(), vec![rule]))
}

fn check_label(label: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !label.is_empty() && label.chars().all(is_allowed) {
        true => Ok(()),
        false => Err(format!("'{label}' is no label; letters, digits, - and _ are allowed")),
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

/// What the file of `--snapshot-events` says of one file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct FileEntry {
    from_start: bool,
    from_start_if_truncated: bool,
    delete_if_found: bool,
    events: Vec<EventEntry>,
}

impl Default for FileEntry {
    fn default() -> FileEntry {
        FileEntry {
            from_start: false,
            from_start_if_truncated: true,
            delete_if_found: false,
            events: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct EventEntry {
    label: String,
    #[serde(default)]
    on_create: bool,
    #[serde(default)]
    on_truncate: bool,
    #[serde(default, alias = "on-pattern")]
    pattern: Option<String>,
    /// Any number below 0 is none.
    #[serde(default)]
    count: Option<i64>,
}

/// Reads the file of `--snapshot-events`.
pub fn read(path: &Path) -> anyhow::Result<Vec<WatchSpec>> {
    std::fs::read_to_string(path)
        .map_err(anyhow::Error::from)
        .and_then(|text| parse_events(&text))
        .with_context(|| format!("--snapshot-events {}", path.display()))
}

/// Reads its text.
pub fn parse_events(text: &str) -> anyhow::Result<Vec<WatchSpec>> {
    let files: BTreeMap<String, FileEntry> =
        serde_json::from_str(text).context("not as expected")?;
    files
        .into_iter()
        .map(|(path, mut entry)| {
            let events = std::mem::take(&mut entry.events);
            if events.is_empty() {
                bail!("file '{path}': no events; expected at least one, with a label");
            }
            let rules: Result<_, _> = events.into_iter().map(rule).collect();
            let rules = rules.with_context(|| format!("file '{path}'"))?;
            Ok(watch_spec(PathBuf::from(path), entry, rules))
        })
        .collect()
}

fn rule(event: EventEntry) -> anyhow::Result<Rule> {
    check_label(&event.label).map_err(anyhow::Error::msg)?;
    if !event.on_create && !event.on_truncate && event.pattern.is_none() {
        bail!("event '{}': when? Give on-create, on-truncate or pattern", event.label);
    }
    let found = event.pattern.as_deref().map(pattern).transpose();
    Ok(Rule {
        pattern: found
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("event '{}': pattern", event.label))?,
        label: event.label,
        on_create: event.on_create,
        on_truncate: event.on_truncate,
        most: event.count.and_then(|count| u64::try_from(count).ok()),
    })
}

fn watch_spec(path: PathBuf, entry: FileEntry, rules: Vec<Rule>) -> WatchSpec {
    WatchSpec {
        file: WatchedFile {
            path,
            lines: rules.iter().any(|rule| rule.pattern.is_some()),
            from_start: entry.from_start,
            from_start_if_truncated: entry.from_start_if_truncated,
        },
        delete_if_found: entry.delete_if_found,
        rules,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_names_label_file_and_pattern() {
        let made = parse("made=out/result.nc").expect("parses");
        assert_eq!(made.file.path, Path::new("out/result.nc"));
        assert!(made.rules[0].on_create && !made.file.lines);
        let step = parse("step=log.txt:^epoch ([0-9]+): done$").expect("parses");
        assert!(step.rules[0].pattern.as_ref().expect("one").is_match(b"epoch 12: done"));
        assert!(!step.rules[0].on_create && step.file.lines && !step.file.from_start);
    }

    #[test]
    fn a_refusal_says_what_is_allowed() {
        let refusal = |text: &str| parse(text).expect_err("refused");
        assert!(refusal("log.txt").contains("LABEL=FILE:PATTERN"));
        assert!(refusal("a b=log").contains("letters, digits"));
        assert!(refusal("a=:x").contains("no file"));
        assert!(refusal("a=log:(").contains("unclosed group"));
    }

    #[test]
    fn the_file_is_resource_monitors() {
        let text = r#"{
            "my.log": {
                "from-start": true,
                "events": [
                    {"label": "file-created", "on-create": true, "count": 1},
                    {"label": "started", "on-pattern": "^# START", "count": -1},
                    {"label": "ended", "pattern": "^# END"}
                ]
            },
            "flag": {"delete-if-found": true, "events": [{"label": "flag", "on-create": true}]}
        }"#;
        let files = parse_events(text).expect("parses");
        assert_eq!(files.len(), 2);
        let log = files.iter().find(|f| f.file.path == Path::new("my.log")).expect("there");
        assert!(log.file.from_start && log.file.from_start_if_truncated && log.file.lines);
        let most: Vec<_> = log.rules.iter().map(|rule| rule.most).collect();
        assert_eq!(most, [Some(1), None, None]);
        assert!(files.iter().any(|f| f.delete_if_found && !f.file.lines));
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_by_name() {
        let refusal = |text: &str| format!("{:#}", parse_events(text).expect_err("refused"));
        assert!(refusal(r#"{"log": {"from-begin": true}}"#).contains("from-start"));
        assert!(refusal(r#"{"log": {}}"#).contains("'log': no events"));
        let never = r#"{"log": {"events": [{"label": "x"}]}}"#;
        assert!(refusal(never).contains("'x': when?"));
        let broken = r#"{"log": {"events": [{"label": "x", "pattern": "("}]}}"#;
        assert!(refusal(broken).contains("'x': pattern"));
        assert!(refusal("[]").contains("not as expected"));
    }
}
