//! Files of rules.

use std::path::Path;

use anyhow::{Context as _, bail};
use weigh_account::rules::RuleSet;

/// Reads the rules of a file.
pub fn read(path: &Path) -> anyhow::Result<RuleSet> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read --rules {shown}"))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(RuleSet::parse(&text, &shown)?),
        Err(_) => bail!("--rules {shown}: not TOML: expected text in UTF-8, found other bytes"),
    }
}
