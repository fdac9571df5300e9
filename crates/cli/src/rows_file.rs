//! Files of rows that options name: `--parquet`, `--calls`, `--per-call`.
//!
//! Reads the command line and what is there; emits nothing. Refuses, before anything is followed, what cannot be
//! such a file, and one name for two of them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use weigh_keep::place_of_file;

use crate::destination::is_stream;

/// Whether each of these files can be written, as far as that can be told beforehand; `json` is where the JSON goes.
pub fn check(files: &[(&str, Option<&Path>)], json: Option<&str>) -> anyhow::Result<()> {
    let mut places: Vec<(PathBuf, &str)> = Vec::new();
    let named = files.iter().filter_map(|(option, path)| Some((*option, (*path)?)));
    for (option, path) in named {
        if path.to_str().is_some_and(is_stream) {
            bail!(
                "{option} {0}: a Parquet file is no stream, and needs the path of a file (./{0}, if it is called so)",
                path.display()
            );
        }
        let place = place_of_file(path).with_context(|| option.to_string())?;
        not_twice(&places, &place, option, path)?;
        places.push((place, option));
    }
    match json.filter(|json| !is_stream(json)).map(Path::new) {
        // What is no file cannot be one of them.
        Some(path) => match place_of_file(path) {
            Ok(place) => not_twice(&places, &place, "--json", path),
            Err(_) => Ok(()),
        },
        None => Ok(()),
    }
}

fn not_twice(
    places: &[(PathBuf, &str)],
    place: &Path,
    option: &str,
    path: &Path,
) -> anyhow::Result<()> {
    match places.iter().find(|(other, _)| other == place) {
        Some((_, other)) => bail!("{option} {}: that is the file of {other}", path.display()),
        None => Ok(()),
    }
}
