//! A folder that is served while a test looks at it, beside one that is not.

mod alike;
mod amounts;
mod appends;
mod by_kernel;
mod ends;
mod many;
mod options;
mod over;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::run::{Scratch, set_surroundings};
use crate::support::{may_go_on, patience, wait_until, weigh_for_everybody};

/// How files are served, by what comes to weigh alone.
pub const WAYS: [&[&str]; 3] = [&["--mechanism=fuse"], &["--no-passthrough"], &["--exact"]];

/// Whether there can be mounts here. Without root it fails, unless that is meant.
#[track_caller]
pub fn can_mount() -> bool {
    if !may_go_on() {
        return false;
    }
    let is_there = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !is_there {
        crate::support::leave_out("/dev/fuse is not there, or cannot be opened");
    }
    is_there
}

/// Folders for a mount: `source`, `at`, and `bare`, which is not served.
pub fn folders() -> Scratch {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    for name in ["source", "at", "bare"] {
        std::fs::create_dir(scratch.path(name)).expect("a folder");
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(scratch.path(name), everybody).expect("permissions");
    }
    scratch
}

pub fn text(path: PathBuf) -> String {
    path.display().to_string()
}

/// `weigh io mount OPTIONS source at -- COMMAND`: its status, what it said, and its report.
#[track_caller]
pub fn served(
    scratch: &Scratch,
    options: &[&str],
    command: &[&str],
) -> (Option<i32>, String, Value) {
    let mut weigh = mounting(scratch, options);
    weigh.arg("--").args(command);
    let output = weigh.output().expect("weigh runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_str(&scratch.text("io.json"));
    (output.status.code(), said, report.unwrap_or(Value::Null))
}

/// The same without a command.
pub fn mounting(scratch: &Scratch, options: &[&str]) -> Command {
    let mut weigh = Command::new(weigh_for_everybody());
    let [json, source, at] = ["io.json", "source", "at"].map(|name| text(scratch.path(name)));
    weigh.args(["io", "mount", "--json", &json]).args(options).args([source, at]);
    weigh.stdin(Stdio::null());
    set_surroundings(&mut weigh, scratch);
    weigh
}

/// A mount in the background.
pub struct Served<'s> {
    scratch: &'s Scratch,
    pub weigh: Child,
}

impl Served<'_> {
    #[track_caller]
    pub fn start<'s>(scratch: &'s Scratch, options: &[&str]) -> Served<'s> {
        let weigh = mounting(scratch, options).arg("-q").spawn().expect("weigh starts");
        let mut served = Served { scratch, weigh };
        wait_until("it is mounted", 20.0, || {
            let ended = served.weigh.try_wait().expect("it can be asked");
            assert_eq!(ended, None, "weigh has ended, and nothing is mounted");
            served.is_mounted()
        });
        served
    }

    pub fn is_mounted(&self) -> bool {
        is_mounted(&text(self.scratch.path("at")))
    }

    /// Waits for its end: status and report.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, Value) {
        let end = std::time::Instant::now() + patience(20.0);
        let status = loop {
            match self.weigh.try_wait().expect("it can be asked") {
                Some(status) => break status,
                None => assert!(std::time::Instant::now() < end, "weigh did not end"),
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let report = serde_json::from_str(&self.scratch.text("io.json"));
        (status.code(), report.unwrap_or(Value::Null))
    }

    /// Has it end as by Ctrl-C.
    #[track_caller]
    pub fn interrupt(self) -> (Option<i32>, Value) {
        assert!(crate::support::processes::signal(self.weigh.id(), 2));
        self.end()
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = self.weigh.kill();
        let _ = self.weigh.wait();
        let at = self.scratch.path("at");
        let _ = rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Whether a folder is a mount, without a question to who serves it.
pub fn is_mounted(at: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(at))
}

/// The rows of a file.
pub fn rows<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    let files = report["files"].as_array().expect("files").iter();
    files.filter(|row| row["name"].as_str().is_some_and(|n| n.ends_with(name))).collect()
}

/// Whether the kernel is that or a later one: 6.9 can pass reads and writes through, 6.6 map what it does not cache.
pub fn is_kernel_from(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}
