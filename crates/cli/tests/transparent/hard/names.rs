//! Names that break parsers, and long paths.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use weigh_schema::Quality;
use weigh_schema::io::FileUse;

use super::judge::{Truth, judge_by};
use super::{Case, How, Outcome, followed};
use crate::support::measured::Measured;
use crate::support::run::Weigh;
use crate::support::workload;

/// Spaces, newlines, quotes, brackets, the end of a name as `/proc/PID/stat` has it, an escape
/// sequence, no UTF-8.
const NAMES: [&[u8]; 7] = [
    b"two  blanks ",
    b"a\nb: 1\n",
    b"q'u\"o`te$(x)",
    b"[(<{br}>)]",
    b") R 1 1 1 (",
    b"\x1b[31mred\\",
    b"not \xff\xfe utf\xc3",
];

/// What the kernel keeps of a name.
const KEPT: usize = 15;

/// The cases.
pub fn cases() -> Vec<Case> {
    let names = "blanks, newlines, quotes, brackets, `)`, escapes, invalid UTF-8";
    vec![
        Case {
            name: "odd process names",
            does: format!("seven programs call themselves: {names}"),
            needs_root: false,
            run: Box::new(by_prctl),
        },
        Case {
            name: "odd program names",
            does: format!("seven programs are called: {names}"),
            needs_root: false,
            run: Box::new(by_file),
        },
        Case {
            name: "a path of 4,000 bytes",
            does: "is opened; the table of files has it (`--files` for bpf)".to_string(),
            needs_root: false,
            run: Box::new(long_path),
        },
    ]
}

/// A shell, and a process with each name.
fn is_right(measured: &Measured) -> Result<Outcome, String> {
    if !measured.status.success() || !measured.stderr.is_empty() {
        return Err(format!("harmed\n{}", measured.everything()));
    }
    let count = NAMES.len() as u64;
    let outcome = judge_by(measured, &Truth::of_works(count + 1, count))
        .map_err(|error| format!("{error}\n{}", measured.everything()))?;
    let kept = |name: &[u8]| String::from_utf8_lossy(&name[..name.len().min(KEPT)]).into_owned();
    let expected: Vec<String> = NAMES.iter().map(|name| kept(name)).collect();
    let rows = measured.processes();
    let found: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    // Who is only looked at may not have been seen under its name.
    if measured.value("processes_total").quality == Quality::Exact {
        let missing: Vec<_> =
            expected.iter().filter(|name| !found.contains(&name.as_str())).collect();
        if !missing.is_empty() {
            return Err(format!("there is no process of the names {missing:?}, but {found:?}"));
        }
    }
    Ok(outcome)
}

fn by_prctl(case: &Case, how: &How) -> Result<Outcome, String> {
    let script = format!("for name; do {} name \"$name\" || exit 1; done", workload("turn"));
    let words = ["sh", "-c", &script, "sh"].map(|word| OsStr::new(word).to_owned());
    let names = NAMES.iter().map(|name| OsStr::from_bytes(name).to_owned());
    let run = Weigh::run(words.into_iter().chain(names));
    is_right(&followed(run, how, case.user(how)).end())
}

fn by_file(case: &Case, how: &How) -> Result<Outcome, String> {
    let run = Weigh::bash("for program in ../odd/*; do \"$program\" work || exit 1; done");
    let folder = run.scratch().path("odd");
    fs::create_dir(&folder).expect("a folder");
    for name in NAMES {
        fs::copy(workload("hide"), folder.join(OsStr::from_bytes(name))).expect("a program");
    }
    is_right(&followed(run, how, case.user(how)).end())
}

fn long_path(case: &Case, how: &How) -> Result<Outcome, String> {
    let run = Weigh::run([workload("open").as_str(), "1"]);
    // `open` adds the number 0 to what it is given.
    let mut path = run.scratch().path("work").into_os_string().into_encoded_bytes();
    while path.len() < 3999 {
        let part = (3999 - path.len() - 1).min(200);
        path.push(b'/');
        path.extend(std::iter::repeat_n(b'p', part.max(1)));
    }
    let path = String::from_utf8(path).expect("plain text");
    let folder = path.rsplit_once('/').expect("a folder").0;
    fs::create_dir_all(folder).expect("folders");
    crate::support::processes::said_by(
        "chmod",
        &["-R", "a+rwx", &run.scratch().path("work").display().to_string()],
    );
    let run = followed(run.argument(&path), how, case.user(how));
    let run = if how.name == "bpf" { run.options("--files") } else { run };
    let measured = run.end();
    if !measured.status.success() {
        return Err(format!("harmed\n{}", measured.everything()));
    }
    let value = measured.value("files_opened_total");
    if value.value.is_none() {
        return match &value.reason {
            Some(_) => Ok(Outcome::Told("opened files unavailable".to_string())),
            None => Err("files_opened_total has no reason".to_string()),
        };
    }
    let path = format!("{path}0");
    let rows = measured.files();
    let opened: u64 = rows.iter().filter(|row| row.name == path).map(FileUse::opens).sum();
    if opened != 1 {
        let lengths: Vec<_> = rows.iter().map(|row| row.name.len()).collect();
        return Err(format!(
            "the path of {} bytes was opened {opened} times; {lengths:?}",
            path.len()
        ));
    }
    match value.quality {
        Quality::Exact => Ok(Outcome::Exact),
        quality => Ok(Outcome::Told(format!("opened files {quality}"))),
    }
}
