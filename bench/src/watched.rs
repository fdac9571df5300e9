//! A program that reads and writes one file, watched by weigh in several ways, in turns: what the parts `blocks` and
//! `fio` have in common. Refuses a run in which weigh did not see what the program did.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::bars::{Bar, Group, Series};
use crate::page::Table;
use crate::runs::Bench;
use crate::spread::Spread;

/// The file.
pub const FILE: &str = "blocks";
/// How large it is.
pub const SIZE: u64 = 64 << 20;

/// Blocks as on the published system's slides.
const BLOCKS: [(&str, u64); 6] = [
    ("1 KiB", 1 << 10),
    ("100 KiB", 100 << 10),
    ("128 KiB", 128 << 10),
    ("1000 KiB", 1000 << 10),
    ("1 MiB", 1 << 20),
    ("16 MiB", 16 << 20),
];

/// Those to be measured: of a smoke test the smallest, where a call costs most, and the largest.
pub fn blocks(bench: &Bench) -> Vec<(&'static str, u64)> {
    match bench.quick {
        true => vec![BLOCKS[0], BLOCKS[5]],
        false => BLOCKS.to_vec(),
    }
}

/// What the pictures show.
pub const NOTE: &str = "Times as long as not watched (the line at 1): median of the rounds, and its 95 % interval (with \
fewer than 6 rounds: least … greatest)";

/// How many times as long it may take by calls, and by mapped memory (no key).
pub fn target(way: &Way, moved: Option<&str>, block: u64) -> Option<f64> {
    let small = block < 100 << 10;
    match (way.application, way.mount, moved) {
        (Some(_), None, None) => Some(1.05),
        (Some("preload"), None, _) => Some(if small { 1.10 } else { 1.02 }),
        (Some(_), None, _) => Some(if small { 1.8 } else { 1.10 }),
        (None, Some(Mount::Passthrough), Some(_)) if !small => Some(1.05),
        (None, Some(Mount::Passthrough), Some("read_bytes")) => Some(1.25),
        (None, Some(Mount::Passthrough), Some(_)) => Some(1.40),
        _ => None,
    }
}

/// What watches the work.
pub struct Way {
    /// Its name.
    pub name: &'static str,
    /// The mechanism of `weigh io`, if it watches the application.
    pub application: Option<&'static str>,
    /// The mount that the file is behind.
    pub mount: Option<Mount>,
}

/// What a mount sees.
#[derive(Clone, Copy, PartialEq)]
pub enum Mount {
    /// The kernel reads and writes by itself.
    Passthrough,
    /// Writes, and reads as far as the page cache lacks them.
    Plain,
    /// All.
    Exact,
    /// Not weigh's: every call is a request to a program that does nothing for it.
    Hollow,
}

impl Mount {
    /// Of `weigh io mount`.
    fn option(self) -> Option<&'static str> {
        match self {
            Mount::Passthrough | Mount::Hollow => None,
            Mount::Plain => Some("--no-passthrough"),
            Mount::Exact => Some("--exact"),
        }
    }

    /// What stands before the command that uses it.
    fn words(self, bench: &Bench, report: &str) -> Vec<String> {
        let mounted = bench.path("mounted").display().to_string();
        if self == Mount::Hollow {
            let mut words = bench.workload("hollow");
            words.extend([mounted, FILE.to_string(), SIZE.to_string()]);
            return words;
        }
        let mut words = vec![bench.weigh_path(), "io".into(), "mount".into(), "-q".into()];
        words.extend(self.option().map(String::from));
        words.extend(["--json", report].map(String::from));
        words.extend([bench.path("source").display().to_string(), mounted, "--".into()]);
        words
    }
}

impl Way {
    fn is_bare(&self) -> bool {
        self.application.is_none() && self.mount.is_none()
    }

    /// Its bars; a mount without passthrough takes many times as long.
    fn series(&self) -> Series {
        let is_apart = self.mount.is_some_and(|mount| mount != Mount::Passthrough);
        Series { name: self.name, is_apart }
    }
}

/// The bars of all ways but the first one, which nobody watches.
pub fn series(ways: &[Way]) -> Vec<Series> {
    ways.iter().filter(|way| !way.is_bare()).map(Way::series).collect()
}

/// Makes the file, and where it is mounted.
pub fn prepare(bench: &Bench) -> Result<()> {
    for folder in ["source", "mounted"] {
        fs::create_dir_all(bench.path(folder)).context("a folder")?;
    }
    fs::write(bench.path("source").join(FILE), vec![1; SIZE as usize]).context("the file")
}

/// What a program did, by its own word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// Bytes that it moved.
    pub bytes: u64,
    /// How long that took.
    pub seconds: f64,
}

/// Runs a program in one way: `program` makes its words of the file's path, and `told` says what it did.
pub fn run(
    bench: &Bench,
    way: &Way,
    moved: Option<&'static str>,
    program: impl FnOnce(&str) -> Vec<String>,
    told: impl FnOnce() -> Result<Told>,
) -> Result<Told> {
    let (mut words, reports, folder) = around(bench, way, moved);
    words.extend(program(&folder.join(FILE).display().to_string()));
    let status = bench.command(&words)?.status().with_context(|| words.join(" "))?;
    bench.succeeded(&words, status)?;
    let told = told()?;
    for (report, moved) in reports {
        saw(Path::new(&report), moved, told.bytes).with_context(|| words.join(" "))?;
    }
    Ok(told)
}

/// A report that weigh leaves, and the key of the bytes that have to be in it.
type Report = (String, Option<&'static str>);

/// What stands before the program's words, what weigh leaves, and where the file is then.
fn around(
    bench: &Bench,
    way: &Way,
    moved: Option<&'static str>,
) -> (Vec<String>, Vec<Report>, PathBuf) {
    let (source, mounted) = (bench.path("source"), bench.path("mounted"));
    let (mut words, mut reports) = (Vec::new(), Vec::new());
    if let Some(mount) = way.mount {
        let json = bench.path("mount.json").display().to_string();
        words.extend(mount.words(bench, &json));
        if mount != Mount::Hollow {
            // Of mapped memory it has pages, however often they are used.
            reports.push((json, moved.filter(|_| mount == Mount::Exact)));
        }
    }
    if let Some(mechanism) = way.application {
        let json = bench.path("application.json").display().to_string();
        words.extend([bench.weigh_path(), "io".into(), "-q".into()]);
        words.extend(["--mechanism", mechanism, "--json", &json, "--"].map(String::from));
        reports.push((json, moved));
    }
    (words, reports, if way.mount.is_some() { mounted } else { source })
}

/// Refuses a report without the file, or with other bytes.
fn saw(report: &Path, moved: Option<&str>, bytes: u64) -> Result<()> {
    let text = fs::read(report).context("what weigh says")?;
    let report: serde_json::Value = serde_json::from_slice(&text).context("what weigh says")?;
    let files = report["files"].as_array().context("no files")?;
    let is_it = |file: &&serde_json::Value| {
        file["name"].as_str().is_some_and(|name| Path::new(name).file_name() == Some(FILE.as_ref()))
            && file["object"] == "regular"
    };
    let rows: Vec<_> = files.iter().filter(is_it).collect();
    ensure!(!rows.is_empty(), "weigh did not see the file");
    let Some(moved) = moved else { return Ok(()) };
    let seen: u64 = rows.iter().filter_map(|row| row[moved].as_u64()).sum();
    ensure!(seen == bytes, "weigh saw {seen} {moved} of {bytes}");
    Ok(())
}

/// How many rounds: as many as fit into the time, between these bounds.
#[derive(Clone, Copy)]
pub struct Length {
    /// The least, but for a smoke test.
    pub least: usize,
    /// The most.
    pub most: usize,
    /// The time.
    pub seconds: u64,
}

/// By way, what was told in each round. Each round begins with another way.
pub fn rounds(
    bench: &Bench,
    ways: &[Way],
    length: Length,
    one: impl Fn(&Way) -> Result<Told>,
) -> Result<Vec<Vec<Told>>> {
    let mut samples = vec![Vec::new(); ways.len()];
    let began = Instant::now();
    for number in 0..bench.times(length.most) {
        if number >= length.least && began.elapsed() > Duration::from_secs(length.seconds) {
            break;
        }
        for offset in 0..ways.len() {
            let which = (number + offset) % ways.len();
            samples[which].push(one(&ways[which])?);
        }
    }
    Ok(samples)
}

/// An empty table for [`add`].
pub fn table() -> Table {
    let heads =
        ["block", "", "GB/s", "times as long", "95 % interval", "rounds", "target", "verdict"];
    Table::new(heads)
}

/// How many times as long one way takes as another, by round.
pub fn ratio(ways: &[Way], samples: &[Vec<Told>], of: Mount, to: Mount) -> Option<Spread> {
    let own = |mount| {
        let is_it = |way: &Way| way.mount == Some(mount) && way.application.is_none();
        ways.iter().position(is_it).and_then(|index| samples.get(index))
    };
    let pairs = own(of)?.iter().zip(own(to)?);
    Some(Spread::of(pairs.map(|(of, to)| of.seconds / to.seconds)))
}

/// Writes what came of the rounds of one block, and returns its bars. `moved` is the key of what calls moved, absent
/// of mapped memory.
pub fn add(
    table: &mut Table,
    ways: &[Way],
    moved: Option<&str>,
    (name, block): (&str, u64),
    samples: &[Vec<Told>],
) -> Group {
    let mut bars = Vec::new();
    for (way, own) in ways.iter().zip(samples) {
        let rate = Spread::of(own.iter().map(|told| told.bytes as f64 / 1e9 / told.seconds)).median;
        let pairs = own.iter().zip(&samples[0]);
        let ratios = Spread::of(pairs.map(|(own, bare)| own.seconds / bare.seconds));
        let (low, high) = ratios.interval.unwrap_or((ratios.least, ratios.greatest));
        let target = target(way, moved, block);
        let unless_bare = |text: String| if way.is_bare() { "–".to_string() } else { text };
        table.row([
            name.to_string(),
            way.name.to_string(),
            format!("{rate:.2}"),
            unless_bare(format!("{:.2}", ratios.median)),
            unless_bare(format!("{low:.2} … {high:.2}")),
            ratios.count.to_string(),
            target.map_or("–".into(), |target| format!("≤ {target:.2}")),
            target.map_or("–".into(), |target| ratios.against(target).to_string()),
        ]);
        if !way.is_bare() {
            bars.push(Bar { median: ratios.median, low, high });
        }
    }
    Group { name: name.to_string(), bars }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: [Way; 2] = [
        Way { name: "not watched", application: None, mount: None },
        Way { name: "plain mount", application: None, mount: Some(Mount::Plain) },
    ];

    #[test]
    fn a_way_is_held_against_the_bare_run_of_its_round() {
        let told = |seconds: [f64; 3]| {
            seconds.map(|seconds| Told { bytes: 3_000_000_000, seconds }).to_vec()
        };
        let samples = [told([1.0, 2.0, 4.0]), told([2.0, 6.0, 4.0])];
        let mut table = table();
        let group = add(&mut table, &WAYS, Some("read_bytes"), ("1 KiB", 1024), &samples);
        assert_eq!(group.bars.len(), 1, "there is no bar for what is held against itself");
        let bar = group.bars[0];
        assert_eq!((bar.median, bar.low, bar.high), (2.0, 1.0, 3.0));
        let series = series(&WAYS);
        assert_eq!((series.len(), series[0].is_apart), (1, true));
    }

    #[test]
    fn a_report_with_other_bytes_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let row = |name: &str, bytes: u64| serde_json::json!({ "name": name, "object": "regular", "read_bytes": bytes });
        let files = [row("/x/blocks", 3), row("/x/blocks", 4), row("/x/other", 9)];
        fs::write(&report, serde_json::json!({ "files": files }).to_string()).unwrap();
        assert!(saw(&report, Some("read_bytes"), 7).is_ok());
        assert!(saw(&report, Some("read_bytes"), 8).is_err());
        fs::write(&report, serde_json::json!({ "files": [files[2]] }).to_string()).unwrap();
        assert!(saw(&report, None, 7).is_err(), "the file is not there");
    }
}
