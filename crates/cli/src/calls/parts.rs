//! Which parts of the kernel are looked into: by the names of `--subsystems`, or by a configuration.
//!
//! Reads the file of `--config`; refuses names that there are not, with the nearest or all.

use std::path::Path;

use anyhow::{Context as _, bail};
use weigh_collect::calls::Functions;
use weigh_schema::configuration::{self, Configuration};
use weigh_schema::nearest;
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use super::borders;
use crate::arguments::CallsArguments;

/// All parts.
const ALL: &str = "all";

/// What is looked into.
pub struct Parts {
    /// Of what weigh knows by itself.
    pub built_in: Vec<&'static Subsystem>,
    /// What a configuration adds.
    pub functions: Functions,
}

impl Parts {
    /// What was asked for; names on the command line go before what the file says.
    pub fn chosen(arguments: &CallsArguments) -> anyhow::Result<Parts> {
        let names = &arguments.subsystems;
        let configuration = arguments.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let by_functions = if arguments.functions { borders::names() } else { Vec::new() };
        let named = match names.iter().any(|name| name == ALL) {
            true => configuration.only.as_deref(),
            false => Some(&names[..]),
        };
        for name in named.unwrap_or_default() {
            check(name, &configuration, &by_functions)?;
        }
        let is_wanted =
            |name: &str| named.is_none_or(|named| named.iter().any(|wanted| wanted == name));
        let is_removed = |s: &&Subsystem| named.is_none() && configuration.remove.contains(s);
        let built_in = SUBSYSTEMS.iter().filter(|s| is_wanted(s.name) && !is_removed(s));
        let mut functions = Functions::find(&configuration, &is_wanted)?;
        if arguments.functions {
            let is_removed = |name: &str| configuration.remove.iter().any(|s| s.name == name);
            let calls = &arguments.reached_by;
            functions.add_borders(&borders::chosen(named, &is_removed, calls)?);
        }
        let parts = Parts { built_in: built_in.collect(), functions };
        parts.check_probes()?;
        Ok(parts)
    }

    /// Without probes of functions there has to be something else to look into.
    fn check_probes(&self) -> anyhow::Result<()> {
        if !self.built_in.is_empty() || self.functions.is_empty() {
            return Ok(());
        }
        if let Err(reason) = weigh_collect::calls::function_probes() {
            bail!("{reason}, and nothing else is asked for; see `weigh doctor`");
        }
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<Configuration> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))?;
    Ok(configuration::parse_bytes(&path.display().to_string(), &bytes)?)
}

fn check(name: &str, configuration: &Configuration, by_functions: &[String]) -> anyhow::Result<()> {
    let own = configuration.subsystems.iter().map(|subsystem| subsystem.name.as_str());
    let known: Vec<&str> = SUBSYSTEMS
        .iter()
        .map(|s| s.name)
        .chain(own)
        .chain(by_functions.iter().map(String::as_str))
        .collect();
    if known.contains(&name) {
        return Ok(());
    }
    let hint = match nearest(name, known.iter().copied()).first() {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {} and {ALL}", known.join(", ")),
    };
    if borders::names().iter().any(|known| known == name) {
        bail!("'{name}' is a part of the kernel that only functions bound: it takes --functions");
    }
    bail!("there is no part of the kernel named '{name}'; {hint}")
}
