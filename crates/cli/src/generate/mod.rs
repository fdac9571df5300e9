//! `weigh generate`: man pages, completions, the references of metrics and recordings, and
//! headers of libweigh, dashboards, from the declarations they follow.
//!
//! Reads the declarations of the command line, the metrics and the tables; emits files below a directory, which it
//! makes, and their names on standard output. Refuses nothing but what the file system refuses.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use weigh_export::metrics::grafana::{self, DataSource};
use weigh_schema::{library, profile, ring};
use weigh_trace::field_kind;

use crate::show::print_path;
use weigh_arguments::{GenerateArguments, completions, manual};

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
    let pages = manual::pages()?.into_iter().map(|(name, text)| (format!("{name}.1"), text));
    write_files(pages, &directory.join("man"))?;
    write_files(completions::files(), &directory.join("completions"))?;
    write_files(texts(REFERENCES), &directory.join("docs"))?;
    write_files(texts(SOURCES), &directory.join("libweigh"))?;
    write_files(texts(DASHBOARDS), &directory.join("grafana"))?;
    Ok(ExitCode::SUCCESS)
}

/// References, and headers and Python that the repository holds too: libweigh is built without weigh.
fn texts(files: &[DerivedFile]) -> impl Iterator<Item = (String, String)> {
    files.iter().map(|(name, text)| (name.to_string(), text()))
}

/// Writes files of these names and texts, and names each.
fn write_files(
    files: impl Iterator<Item = (String, String)>,
    directory: &Path,
) -> anyhow::Result<()> {
    for (name, text) in files {
        let path = directory.join(name);
        make_directory(path.parent().unwrap_or(directory))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        print_path(&path)?;
    }
    Ok(())
}

fn make_directory(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use weigh_arguments::Arguments;

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
