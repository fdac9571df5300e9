//! The parts of the kernel that are measured, of calls or for programs with libweigh: by the names of `--subsystems`, or
//! by a configuration.
//!
//! Reads the file of `--config`; refuses unknown names, and says the nearest one or all.

use std::path::Path;

use anyhow::{Context as _, bail};
use weigh_agent::LeftOut;
use weigh_collect::calls::{Functions, PartBoundaries};
use weigh_schema::configuration::{self, ALWAYS, Configuration};
use weigh_schema::nearest;
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use super::boundaries;

/// All parts, by name.
const ALL: &str = "all";

/// What the parts are chosen by.
pub(crate) struct PartsSettings<'a> {
    /// Parts by their names; all if there are none.
    pub names: &'a [String],
    /// The file of a configuration.
    pub config: Option<&'a Path>,
    /// The functions at borders, of those that these calls reach; all if there are none.
    pub boundaries: Option<&'a [String]>,
    /// Whose configuration it is: what programs are told that miss a part.
    pub config_owner: &'static str,
    /// How to get a part that only functions bound.
    pub by_functions: &'static str,
}

/// The parts that are measured.
pub(crate) struct Parts {
    /// Of what weigh knows by itself.
    pub built_in: Vec<&'static Subsystem>,
    /// What a configuration adds.
    pub functions: Functions,
    /// What it takes away.
    pub left_out: LeftOut,
}

impl Parts {
    /// Chooses them: names on the command line go before what the file says.
    pub fn choose(settings: &PartsSettings<'_>) -> anyhow::Result<Parts> {
        let names = settings.names;
        let configuration = settings.config.map(read).transpose()?.unwrap_or_default();
        let by_functions =
            if settings.boundaries.is_some() { boundaries::names() } else { Vec::new() };
        let is_all = names.is_empty() || names.iter().any(|name| name == ALL);
        let named = if is_all { configuration.only.as_deref() } else { Some(names) };
        for name in named.unwrap_or_default() {
            check(name, &configuration, &by_functions, settings.by_functions)?;
        }
        let is_wanted =
            |name: &str| named.is_none_or(|named| named.iter().any(|wanted| wanted == name));
        let is_removed = |s: &&Subsystem| named.is_none() && configuration.remove.contains(s);
        let is_in = |s: &&'static Subsystem| is_wanted(s.name) && !is_removed(s);
        let built_in: Vec<_> = SUBSYSTEMS.iter().filter(is_in).collect();
        let mut functions = Functions::find(&configuration, &is_wanted)?;
        if let Some(calls) = settings.boundaries {
            let is_removed = |name: &str| configuration.remove.iter().any(|s| s.name == name);
            functions.add_borders(&boundaries::choose(named, &is_removed, calls)?);
        }
        let left_out = match settings.config.filter(|_| is_all) {
            Some(file) => left_out(&built_in, file, settings.config_owner),
            None => LeftOut::default(),
        };
        let parts = Parts { built_in, functions, left_out };
        parts.check_probes()?;
        Ok(parts)
    }

    /// Adds the borders of these parts, by the list of functions that weigh brings along.
    pub fn add_listed(&mut self, names: &[String]) -> anyhow::Result<()> {
        let known: Vec<&str> = PartBoundaries::listed().collect();
        for name in names {
            if !known.contains(&name.as_str()) {
                bail!("--functions: there are {}, not '{name}'", known.join(" and "));
            }
            let is_out = Subsystem::named(name).is_some_and(|part| !self.built_in.contains(&part));
            if is_out {
                bail!("--functions {name}: --subsystems, or the configuration, leaves {name} out");
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        if let Err(reason) = weigh_collect::calls::function_probes() {
            bail!(
                "--functions: {reason}; without it programs have no time of {}",
                names.join(" and ")
            );
        }
        let is_wanted = |name: &str| names.iter().any(|wanted| wanted == name);
        let why = "an agent attaches and lets go of a few while programs wait".to_string();
        self.functions.add_borders(&PartBoundaries::of_list(&is_wanted, why));
        Ok(())
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

/// What of the built-in parts a configuration has taken away; those that are always attached are not.
fn left_out(built_in: &[&'static Subsystem], file: &Path, owner: &str) -> LeftOut {
    let is_out = |s: &&Subsystem| !ALWAYS.contains(&s.name) && !built_in.contains(s);
    // A program that reads it may have another working directory.
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    LeftOut {
        parts: SUBSYSTEMS.iter().filter(is_out).fold(0, |set, part| set | part.bit()),
        why: format!("{owner} leaves this part out: {}", file.display()),
    }
}

fn read(path: &Path) -> anyhow::Result<Configuration> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))?;
    Ok(configuration::parse_bytes(&path.display().to_string(), &bytes)?)
}

fn check(
    name: &str,
    configuration: &Configuration,
    by_functions: &[String],
    how: &str,
) -> anyhow::Result<()> {
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
    if boundaries::names().iter().any(|known| known == name) {
        bail!("'{name}' is a part of the kernel that only functions bound: {how}");
    }
    bail!("there is no part of the kernel named '{name}'; {hint}")
}
