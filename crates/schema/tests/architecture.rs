//! The borders that ARCHITECTURE.md draws: which crate may know which, and which may hold `unsafe`.
//!
//! Reads what `cargo metadata` says and the sources themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates of the workspace that each may depend on, its tests as well.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("weigh-schema", &[]),
    ("weigh-parse", &["weigh-schema"]),
    ("weigh-collect", &["weigh-schema", "weigh-parse"]),
    ("weigh-account", &["weigh-schema"]),
    ("weigh-keep", &["weigh-schema", "weigh-trace"]),
    ("weigh-kernel", &[]),
    ("weigh-mount", &["weigh-schema"]),
    ("weigh-show", &["weigh-schema"]),
    ("weigh-trace", &["weigh-schema"]),
    ("weigh-export", &["weigh-schema", "weigh-trace"]),
    (
        "weigh-web",
        &[
            "weigh-schema",
            "weigh-account",
            "weigh-keep",
            "weigh-show",
            "weigh-export",
            "weigh-wire",
        ],
    ),
    ("weigh-wire", &["weigh-schema"]),
    ("weigh-agent", &["weigh-schema", "weigh-account", "weigh-collect", "weigh-wire"]),
    (
        "weigh-session",
        &[
            "weigh-schema",
            "weigh-account",
            "weigh-agent",
            "weigh-collect",
            "weigh-kernel",
            "weigh-mount",
            "weigh-trace",
            "weigh-wire",
        ],
    ),
    (
        "weigh-arguments",
        &[
            "weigh-schema",
            "weigh-account",
            "weigh-collect",
            "weigh-export",
            "weigh-session",
            "weigh-trace",
        ],
    ),
    (
        "weigh",
        &[
            "weigh-schema",
            "weigh-arguments",
            "weigh-collect",
            "weigh-account",
            "weigh-export",
            "weigh-keep",
            "weigh-kernel",
            "weigh-show",
            "weigh-agent",
            "weigh-session",
            "weigh-trace",
            "weigh-web",
            "weigh-wire",
        ],
    ),
    ("weigh-bench", &["weigh-schema"]),
    ("weigh-fuzz-mount", &["weigh-schema"]),
    (
        "weigh-fuzz-replay",
        &[
            "weigh-fuzz-mount",
            "weigh-schema",
            "weigh-parse",
            "weigh-collect",
            "weigh-account",
            "weigh-keep",
            "weigh-kernel",
            "weigh-show",
            "weigh-trace",
            "weigh-wire",
        ],
    ),
];

/// What tests of a crate may know beside, and why.
const TESTS_MAY_KNOW: &[(&str, &str)] = &[
    // A node is replayed to an exporter, which the binary joins to it.
    ("weigh-session", "weigh-export"),
    // Its caller hands in a reader of type information; its example is such a caller.
    ("weigh-kernel", "weigh-trace"),
];

/// The one crate that may hold `unsafe`, and what only it may use to reach the kernel.
const COLLECT: &str = "weigh-collect";
const KERNEL_FACING: &[&str] = &["libbpf-rs", "libbpf-sys", "libc", "nvml-wrapper"];

/// Code with `unsafe` outside of the workspace, and why it needs it.
const UNSAFE_OUTSIDE: &[(&str, &str)] =
    &[("libweigh/rust", "it calls libweigh's C"), ("fuzz/src/streams.rs", "it calls libweigh's C")];

/// Folders with Rust that is no member of the workspace.
const OUTSIDE: &[&str] = &["fuzz", "libweigh"];

/// What a crate that only computes may not need: the world outside.
const PURE: &[&str] =
    &["weigh-schema", "weigh-parse", "weigh-account", "weigh-kernel", "weigh-show", "weigh-trace"];
const WORLDLY: &[&str] = &["rustix", "nix", "libc", "parquet", "clap"];

/// What the declaration of the command line may not name: it turns words into settings, and opens and asks nothing.
const ARGUMENTS: &str = "weigh-arguments";
const IO: &[&str] = &["std::fs", "std::io", "std::env", "Instant::now", "Timestamp::now", "rustix"];

struct Package {
    directory: PathBuf,
    /// Names of what it depends on, but for its tests.
    depends: BTreeSet<String>,
    /// The same with its tests.
    depends_at_all: BTreeSet<String>,
}

fn packages() -> BTreeMap<String, Package> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_string();
    let package = |p: &Value| {
        let named = |dev: bool| {
            p["dependencies"]
                .as_array()
                .expect("a list")
                .iter()
                .filter(|d| dev || d["kind"] != "dev")
                .map(|d| text(&d["name"]))
                .collect()
        };
        let manifest = PathBuf::from(text(&p["manifest_path"]));
        let directory = manifest.parent().expect("it lies in a directory").to_owned();
        (
            text(&p["name"]),
            Package { directory, depends: named(false), depends_at_all: named(true) },
        )
    };
    metadata["packages"].as_array().expect("a list").iter().map(package).collect()
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn every_crate_knows_only_those_it_may() {
    let packages = packages();
    let ours: BTreeSet<&String> = packages.keys().collect();
    for (name, package) in &packages {
        let (_, allowed) = MAY_KNOW
            .iter()
            .find(|(n, _)| n == name)
            .unwrap_or_else(|| panic!("{name} is new: say here whom it may know"));
        for known in package.depends_at_all.iter().filter(|d| ours.contains(d)) {
            let for_tests = !package.depends.contains(known)
                && TESTS_MAY_KNOW.contains(&(name.as_str(), known.as_str()));
            let may = for_tests || allowed.contains(&known.as_str());
            assert!(may, "{name} must not know {known}");
        }
    }
    for (name, _) in MAY_KNOW {
        assert!(packages.contains_key(*name), "{name} is gone: take it out here");
    }
}

#[test]
fn only_collect_reaches_into_the_kernel() {
    for (name, package) in packages().iter().filter(|(name, _)| *name != COLLECT) {
        for crate_name in KERNEL_FACING {
            assert!(!package.depends.contains(*crate_name), "{name} depends on {crate_name}");
        }
    }
}

#[test]
fn what_only_computes_needs_nothing_of_the_world() {
    let packages = packages();
    for name in PURE {
        for crate_name in WORLDLY {
            assert!(!packages[*name].depends.contains(*crate_name), "{name} needs {crate_name}");
        }
    }
}

#[test]
fn arguments_are_read_without_input_or_output() {
    for file in rust_files(&packages()[ARGUMENTS].directory.join("src")) {
        let text = std::fs::read_to_string(&file).expect("text");
        let (product, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        for word in IO {
            assert!(!product.contains(word), "{} names {word}", file.display());
        }
    }
}

/// Lines with the word.
fn unsafe_lines(file: &Path) -> usize {
    let is_unsafe = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
    };
    let text = std::fs::read_to_string(file).expect("text");
    text.lines().filter(|line| is_unsafe(line)).count()
}

#[test]
fn outside_of_the_workspace_unsafe_is_where_it_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let has_reason =
        |file: &Path| UNSAFE_OUTSIDE.iter().any(|(place, _)| file.starts_with(root.join(place)));
    let files = OUTSIDE.iter().flat_map(|folder| rust_files(&root.join(folder)));
    let files = files.filter(|file| !file.components().any(|part| part.as_os_str() == "target"));
    let (with, without): (Vec<_>, Vec<_>) = files.partition(|file| has_reason(file));
    for file in without {
        assert_eq!(unsafe_lines(&file), 0, "{}", file.display());
    }
    for (place, reason) in UNSAFE_OUTSIDE {
        let here = with.iter().filter(|file| file.starts_with(root.join(place)));
        assert!(here.map(|file| unsafe_lines(file)).sum::<usize>() > 0, "{place}: {reason}");
    }
}

#[test]
fn only_collect_holds_unsafe() {
    let mut in_collect = 0;
    for (name, package) in packages() {
        for file in rust_files(&package.directory) {
            // This file says the word.
            if file.ends_with("schema/tests/architecture.rs") {
                continue;
            }
            let found = unsafe_lines(&file);
            if name == COLLECT {
                in_collect += found;
            } else {
                assert_eq!(found, 0, "{}", file.display());
            }
        }
    }
    assert!(in_collect > 0, "the search finds what is there");
}

#[test]
fn every_crate_is_under_the_same_lints() {
    for (name, package) in packages() {
        let manifest = std::fs::read_to_string(package.directory.join("Cargo.toml")).expect("text");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name}");
    }
}
