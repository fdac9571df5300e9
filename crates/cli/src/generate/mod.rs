//! `weigh generate`: man pages, completions, the references of metrics and recordings, and
//! headers of libweigh, dashboards, from the declarations they follow.
//!
//! Reads the declarations of the command line, the metrics and the tables; emits files below a directory, which it
//! makes, and their names on standard output. Refuses nothing but what the file system refuses.

mod completions;
mod manual;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use weigh_export::metrics::grafana::{self, DataSource};
use weigh_schema::{library, profile, ring};
use weigh_trace::field_kind;

use crate::arguments::{Arguments, GenerateArguments};

/// The shells that completions are written for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// A file that is derived from declarations, and how its text is made.
type DerivedFile = (&'static str, fn() -> String);

/// The references; `docs/` holds a copy of each.
const REFERENCES: &[DerivedFile] = &[
    ("metrics.md", weigh_show::docs::metrics_markdown),
    ("calls.md", weigh_show::calls::docs::markdown),
    ("io.md", crate::io::markdown),
    ("mechanisms.md", mechanisms_markdown),
    ("recording.md", weigh_keep::recording_markdown),
    ("rules.md", weigh_account::rules::markdown),
];

/// Sources of libweigh; `libweigh/` holds a copy of each.
const SOURCES: &[DerivedFile] = &[
    ("weigh_account.h", library::public_header),
    ("src/page.h", library::page_header),
    ("src/profile_layout.h", profile::header),
    ("src/ring.h", ring::header),
    ("weigh_event.h", field_kind::header),
    ("python/weigh/_fields.py", library::python_fields),
    ("rust/src/account.rs", library::rust_account),
    ("rust/src/event.rs", field_kind::rust),
];

/// Dashboards of Grafana; `packaging/grafana/` holds a copy of each.
const DASHBOARDS: &[DerivedFile] = &[
    ("weigh-nodes-prometheus.json", || grafana::dashboard(DataSource::Prometheus)),
    ("weigh-nodes-elasticsearch.json", || grafana::dashboard(DataSource::Elasticsearch)),
];

/// The collectors declare themselves where they are.
fn mechanisms_markdown() -> String {
    let collectors: Vec<_> = weigh_session::doctor::collectors().collect();
    weigh_show::docs::mechanisms_markdown(&collectors)
}

/// Writes all of it and names each file.
pub fn generate(arguments: &GenerateArguments) -> anyhow::Result<ExitCode> {
    let directory = &arguments.directory;
    let mut written = man_pages(&directory.join("man"))?;
    written.extend(completions(&directory.join("completions"))?);
    written.extend(derived_files(REFERENCES, &directory.join("docs"))?);
    written.extend(derived_files(SOURCES, &directory.join("libweigh"))?);
    written.extend(derived_files(DASHBOARDS, &directory.join("grafana"))?);
    for path in written {
        crate::show::print_path(&path)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn man_pages(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    make_directory(directory)?;
    manual::write_pages(Arguments::command().disable_help_subcommand(true), directory)
}

fn completions(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    make_directory(directory)?;
    let mut command = Arguments::command();
    let name = command.get_name().to_string();
    SHELLS
        .iter()
        .map(|shell| {
            let failed = || format!("cannot write to {}", directory.display());
            let path = clap_complete::generate_to(*shell, &mut command, &name, directory)
                .with_context(failed)?;
            let made = std::fs::read_to_string(&path).with_context(failed)?;
            std::fs::write(&path, completions::with_names(*shell, &made)).with_context(failed)?;
            Ok(path)
        })
        .collect()
}

/// References, and headers and Python that the repository holds too: libweigh is built without weigh.
fn derived_files(files: &[DerivedFile], directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let write = |(name, text): &DerivedFile| -> anyhow::Result<PathBuf> {
        let path = directory.join(name);
        make_directory(path.parent().unwrap_or(directory))?;
        std::fs::write(&path, text())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    files.iter().map(write).collect()
}

fn make_directory(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_references_are_what_would_be_written() {
        for (name, text) in REFERENCES {
            let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
            let found = std::fs::read_to_string(&committed).expect("it is committed");
            assert!(found == text(), "docs/{name} is stale: run `make docs`");
        }
    }

    #[test]
    fn the_committed_sources_of_libweigh_are_what_would_be_written() {
        for (name, text) in SOURCES {
            let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh").join(name);
            let found = std::fs::read_to_string(&committed).expect("it is committed");
            assert!(found == text(), "libweigh/{name} is stale: run `make docs`");
        }
    }

    #[test]
    fn every_verb_has_its_page_and_every_shell_its_completions() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("below");
        generate(&GenerateArguments { directory: place.clone() }).expect("generates");
        for verb in Arguments::command().get_subcommands() {
            let page = place.join(format!("man/weigh-{}.1", verb.get_name()));
            assert_eq!(page.exists(), !verb.is_hide_set(), "{}", page.display());
        }
        let run = std::fs::read_to_string(place.join("man/weigh-run.1")).expect("a page");
        assert!(run.contains("\\-\\-interval"), "options are in it");
        for name in ["weigh.bash", "_weigh", "weigh.fish"] {
            let text = std::fs::read_to_string(place.join("completions").join(name));
            assert!(text.expect("completions").contains("wait-for"), "{name}");
        }
    }
}
