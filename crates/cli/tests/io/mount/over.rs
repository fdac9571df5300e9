//! `weigh run --io-mount-over DIR`: the folder itself is served, to the job alone, and no path of it changes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use weigh_keep::Recording;
use weigh_schema::io::{FileState, FileStates};

use super::{can_mount, folders, text};
use crate::support::run::{Scratch, set_surroundings};
use crate::support::{is_root, leave_out, weigh_for_everybody};

const NOBODY: u32 = 65_534;
const FUSE: &str = "65735546";

fn run(scratch: &Scratch, user: Option<u32>, options: &[&str], line: &str) -> Output {
    use std::os::unix::process::CommandExt as _;
    let mut weigh = Command::new(weigh_for_everybody());
    let [recording, source] = ["recording", "source"].map(|name| text(scratch.path(name)));
    weigh.args(["run", "--io", "-o", &recording, "--io-mount-over", &source, "--io-exact"]);
    weigh.args(options).args(["--", "bash", "-c", line]).stdin(Stdio::null());
    set_surroundings(&mut weigh, scratch);
    // Relative paths are of the folder, too.
    weigh.current_dir(scratch.path("source"));
    if let Some(uid) = user.filter(|_| is_root()) {
        weigh.uid(uid).gid(uid);
    }
    weigh.output().expect("weigh runs")
}

fn is_open_to_all() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/dev/fuse").is_ok_and(|about| about.mode() & 0o6 == 0o6)
}

/// Bytes read and written, by the recording.
fn moved(recording: &Path) -> [u64; 2] {
    let recording = Recording::open(recording).expect("it can be read");
    let totals = recording.summary().io.as_deref().expect("a section of its own").totals.by_calls;
    [totals.read_bytes, totals.written_bytes]
}

#[test]
fn the_job_alone_sees_its_folder_served() {
    if !can_mount() {
        return;
    }
    let root = is_root().then_some((None, &[][..]));
    let ordinary = (Some(NOBODY), &["--userns"][..]);
    for (user, options) in root.into_iter().chain([ordinary]) {
        if user.is_some() && is_root() && !is_open_to_all() {
            return leave_out("/dev/fuse is not open to ordinary users");
        }
        let scratch = folders();
        std::fs::write(scratch.path("source/input"), vec![7; 10_007]).expect("written");
        let source = text(scratch.path("source"));
        let line = format!(
            "stat -f -c %t {source} . >&2; cat {source}/input > output; id -u >&2; \
             readlink /proc/self/ns/mnt >&2"
        );
        let output = run(&scratch, user, options, &line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if user.is_some()
            && (said.contains("user namespace of its own:") && !output.status.success())
        {
            return leave_out("no user namespace can be made here");
        }
        assert!(output.status.success(), "{said}");
        assert_eq!(said.lines().filter(|line| *line == FUSE).count(), 2, "{said}");
        let uid = user.unwrap_or(0).to_string();
        assert!(said.lines().any(|line| line == uid), "it is who it was: {said}");
        let own = std::fs::read_link("/proc/self/ns/mnt").expect("a namespace");
        assert!(!said.contains(&own.display().to_string()), "{said}");
        assert!(said.contains("namespace of its own"), "{said}");
        assert_eq!(moved(&scratch.path("recording")), [10_007, 10_007], "{said}");
        let found = Recording::open(&scratch.path("recording")).expect("it can be read");
        let states: std::collections::BTreeMap<String, FileStates> =
            (found.files(None).expect("files").rows.into_iter())
                .map(|row| (row.name, row.states))
                .collect();
        let [input, made] = ["input", "output"].map(|name| &states[&format!("{source}/{name}")]);
        let size = |state: Option<FileState>| state.map(|state| state.size_bytes);
        assert_eq!((size(input.after), input.was_there), (Some(10_007), Some(true)), "{input:?}");
        assert_eq!((size(made.after), made.before), (Some(10_007), None), "{made:?}");
        // What it wrote is in the folder, which nobody else sees covered.
        assert_eq!(std::fs::read(scratch.path("source/output")).expect("there").len(), 10_007);
        assert!(!super::is_mounted(&source));
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        assert!(!mounts.contains("/weigh-mount-"), "{mounts}");
    }
}

/// A user namespace is made only where it is asked for.
#[test]
fn without_root_it_takes_a_word() {
    if !can_mount() || !is_root() {
        return;
    }
    let scratch = folders();
    let ran = text(scratch.path("work/ran"));
    let output = run(&scratch, Some(NOBODY), &[], &format!("touch {ran}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("--userns") && said.contains("takes root"), "{said}");
    assert!(!scratch.path("work/ran").exists());
}
