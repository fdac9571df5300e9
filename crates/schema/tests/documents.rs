//! What the documents promise of themselves: links lead somewhere, and the first pages stay short.
//!
//! Reads the Markdown files of the repository; refuses links to what is not there, and paths in ARCHITECTURE.md that
//! no longer exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn pages_below(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages_below(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// All that a reader may come to.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let first = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
    let mut pages: Vec<PathBuf> = first.iter().map(|name| root.join(name)).collect();
    pages_below(&root.join("docs"), &mut pages);
    pages
}

/// A page without what stands in fences, where brackets are a program's.
fn prose(page: &Path) -> String {
    let mut is_fenced = false;
    read(page)
        .lines()
        .filter(|line| {
            let is_fence = line.starts_with("```");
            is_fenced ^= is_fence;
            !is_fenced && !is_fence && !line.starts_with("    ")
        })
        .map(|line| line.to_owned() + "\n")
        .collect()
}

/// Where the links of a page lead, those to other sites apart.
fn links(text: &str) -> Vec<String> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
        .collect()
}

/// The names of a page's headings in links, as they are made of their texts.
fn anchors(page: &Path) -> BTreeSet<String> {
    let anchor = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        text.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    read(page).lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        for link in links(&prose(&page)) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().expect("a folder").join(path),
            };
            let is_there = target.exists();
            if !is_there || !anchor.is_empty() && !anchors(&target).contains(anchor) {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn the_first_pages_are_short() {
    let readme = read(&root().join("README.md"));
    assert!(readme.lines().count() <= 110, "README.md has {} lines", readme.lines().count());
    // What a newcomer reads before the first number.
    let before = readme.split("<!-- example: ").next().unwrap_or_default();
    let words = before.split_whitespace().count();
    assert!(words <= 300, "README.md has {words} words before its first example");
    assert_eq!(readme.matches("<!-- example: ").count(), 5, "five questions");
    for command in ["make run", "make test"] {
        assert!(readme.contains(command), "README.md has `{command}`");
    }
    let architecture = read(&root().join("ARCHITECTURE.md")).split_whitespace().count();
    assert!(architecture <= 3500, "ARCHITECTURE.md has {architecture} words");
}

#[test]
fn every_page_is_in_the_index() {
    let docs = root().join("docs");
    let index = docs.join("README.md");
    let named: BTreeSet<PathBuf> = links(&prose(&index))
        .iter()
        .filter_map(|link| docs.join(link.split('#').next()?).canonicalize().ok())
        .collect();
    let mut pages = Vec::new();
    pages_below(&docs, &mut pages);
    let missing: Vec<&PathBuf> =
        pages.iter().filter(|page| **page != index && !named.contains(*page)).collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

/// What stands in backticks and looks like a path of this repository.
fn paths(text: &str) -> BTreeSet<&str> {
    let is_path = |word: &&str| {
        let first = word.split('/').next().unwrap_or_default();
        let known = ["crates", "libweigh", "packaging", "scripts", "tests", "bench", "fuzz"];
        word.contains('/')
            && known.contains(&first)
            && !word.contains(['{', '<', ' ', '*', ':'])
            && word.chars().all(|c| c.is_ascii_graphic())
    };
    text.split('`').skip(1).step_by(2).filter(is_path).collect()
}

#[test]
fn the_paths_that_architecture_names_are_there() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let gone: Vec<&str> =
        paths(&text).into_iter().filter(|path| !root().join(path).exists()).collect();
    assert!(paths(&text).len() >= 20, "paths are found at all");
    assert!(gone.is_empty(), "ARCHITECTURE.md names what is not there: {gone:?}");
}
