//! The same as `blocks`, by the program that others measure storage with: fio, by pread and pwrite (its engine
//! psync), and by mapped memory (mmap). The slides of the published system (seed 004) have IOR and IOzone there.
//!
//! Reads the bandwidth in fio's JSON; refuses a run in which fio has failed, or weigh has counted other bytes than it.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::bars::{self, Panel};
use crate::page::Page;
use crate::runs::Bench;
use crate::watched::{self, Length, Mount, SIZE, Told, Way};

/// What fio leaves, in the folder of the runs.
const REPORT: &str = "fio.json";
const ROUNDS: Length = Length { least: 6, most: 15, seconds: 20 };

/// How fio moves its bytes.
struct Access {
    title: &'static str,
    engine: &'static str,
    /// What it does, and where its JSON says so.
    direction: &'static str,
    /// The key of weigh's report with the bytes that the calls moved; absent where no call moves them.
    moved: Option<&'static str>,
}

const ACCESSES: [Access; 4] = [
    Access {
        title: "fio writes a file",
        engine: "psync",
        direction: "write",
        moved: Some("written_bytes"),
    },
    Access { title: "fio writes mapped memory", engine: "mmap", direction: "write", moved: None },
    Access {
        title: "fio reads a file",
        engine: "psync",
        direction: "read",
        moved: Some("read_bytes"),
    },
    Access { title: "fio reads mapped memory", engine: "mmap", direction: "read", moved: None },
];

const WAYS: [Way; 5] = [
    Way { name: "not watched", application: None, mount: None },
    Way { name: "preload", application: Some("preload"), mount: None },
    Way { name: "bpf", application: Some("bpf"), mount: None },
    Way { name: "mount", application: None, mount: Some(Mount::Passthrough) },
    Way { name: "preload + mount", application: Some("preload"), mount: Some(Mount::Passthrough) },
];

/// How much it moves: half a second and more at each block, for its clock has milliseconds.
fn amount(bench: &Bench, access: &Access, block: u64) -> u64 {
    match (bench.quick, block, access.moved) {
        (true, ..) => SIZE,
        (_, 1024, Some("written_bytes")) => 2 * SIZE,
        (_, 1024, _) => 8 * SIZE,
        _ => 48 * SIZE,
    }
}

/// The command line.
fn words(access: &Access, file: &str, block: u64, amount: u64, report: &str) -> Vec<String> {
    // The file is there, and in the page cache, and stays there. Times of single calls, which nobody reads here, would
    // take as long as the calls.
    let fixed = ["--name=weigh", "--invalidate=0", "--fallocate=none", "--allow_file_create=0"];
    let mut words: Vec<String> = vec!["fio".into()];
    words.extend(fixed.map(String::from));
    words.extend(["--gtod_reduce=1", "--output-format=json"].map(String::from));
    words.extend([
        format!("--output={report}"),
        format!("--filename={file}"),
        format!("--ioengine={}", access.engine),
        format!("--rw={}", access.direction),
        format!("--bs={block}"),
        format!("--size={SIZE}"),
        format!("--io_size={amount}"),
    ]);
    words
}

/// What fio did, by its own word.
fn said(text: &str, direction: &str) -> Result<Told> {
    // Warnings may stand before it.
    let text = text.find('{').map_or("", |begin| &text[begin..]);
    let report: Value = serde_json::from_str(text).context("fio's JSON")?;
    let job = &report["jobs"][0];
    ensure!(job["error"] == 0, "fio says error {}", job["error"]);
    let number = |key: &str| {
        let number = job[direction][key].as_u64().filter(|number| *number > 0);
        number.with_context(|| format!("fio does not say {direction}.{key}"))
    };
    let (bytes, rate) = (number("io_bytes")?, number("bw_bytes")?);
    Ok(Told { bytes, seconds: bytes as f64 / rate as f64 })
}

fn one(bench: &Bench, way: &Way, access: &Access, block: u64) -> Result<Told> {
    let report = bench.path(REPORT);
    let place = report.display().to_string();
    let program = |file: &str| words(access, file, block, amount(bench, access, block), &place);
    watched::run(bench, way, access.moved, program, || {
        let text = fs::read_to_string(&report).context("what fio says")?;
        fs::remove_file(&report).context("what fio says")?;
        said(&text, access.direction)
    })
}

/// Its version; none if it is not here.
fn version() -> Option<String> {
    let output = Command::new("fio").arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Takes the figures, writes them; the picture, if fio is here.
pub fn write(bench: &Bench, page: &mut Page) -> Result<Option<String>> {
    page.heading(2, "Files followed, by fio");
    let Some(version) = version() else {
        page.paragraph("Not measured: fio is not here (`scripts/install-dependencies.sh bench`).");
        return Ok(None);
    };
    watched::prepare(bench)?;
    page.paragraph(&METHOD.replace("{VERSION}", &version));
    let mut panels = Vec::new();
    for access in &ACCESSES {
        panels.push(write_one(bench, access, page)?);
    }
    page.picture("Times as long, by block and way, of fio", "images/fio.svg");
    bars::picture(&watched::series(&WAYS), &panels, watched::NOTE).map(Some)
}

fn write_one(bench: &Bench, access: &Access, page: &mut Page) -> Result<Panel> {
    let (mut table, mut groups) = (watched::table(), Vec::new());
    for (name, block) in watched::blocks(bench) {
        eprintln!("{} by {name}", access.title);
        let samples = watched::rounds(bench, &WAYS, ROUNDS, |way| one(bench, way, access, block))?;
        groups.push(watched::add(&mut table, &WAYS, access.moved, (name, block), &samples));
    }
    page.heading(3, access.title);
    page.table(&table);
    Ok(Panel { title: access.title.to_string(), groups })
}

const METHOD: &str = "\
The same by {VERSION}, with one job: its engine psync (pread and pwrite), and mmap, on a file of 64 MiB that is in the page \
cache; 512 MiB in all by blocks of 1 KiB (128 MiB by pwrite), 3 GiB by larger ones, without times of single calls (gtod_reduce). GB/s is the \
bandwidth that fio's JSON has, “times as long” the bandwidth of the round's run that nobody watched over the own one, as the \
amount is the same. In each run weigh has to name the file, and, of calls, to have counted as many bytes as fio.";

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"fio: a warning
{
  "fio version": "fio-3.33",
  "jobs": [{
    "jobname": "weigh", "error": 0,
    "read": { "io_bytes": 67108864, "bw_bytes": 2097152000, "bw": 2048000, "runtime": 32 },
    "write": { "io_bytes": 0, "bw_bytes": 0, "runtime": 0 }
  }]
}"#;

    #[test]
    fn fio_says_how_much_and_how_fast() {
        let told = said(SAID, "read").unwrap();
        assert_eq!((told.bytes, told.seconds), (67_108_864, 0.032));
    }

    #[test]
    fn what_fio_did_not_do_is_no_figure() {
        assert!(said(SAID, "write").unwrap_err().to_string().contains("write.io_bytes"));
        assert!(said(&SAID.replace("\"error\": 0", "\"error\": 5"), "read").is_err());
        assert!(said("fio: nothing", "read").is_err());
    }
}
