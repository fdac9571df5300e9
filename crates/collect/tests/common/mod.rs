//! What several tests share.
#![allow(dead_code)]

#[path = "../../../../tests/left_out.rs"]
pub mod left_out;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weigh_collect::procfs;

/// Starts a shell that stops itself; once continued it executes `script`'s program in its place.
pub fn stopped(script: &str) -> Child {
    let child = Command::new("/bin/sh")
        .args(["-c", &format!("kill -STOP $$; exec {script}")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the shell stops", || state(child.id()) == Some('T'));
    child
}

/// The state letter of a process.
pub fn state(pid: u32) -> Option<char> {
    Some(procfs::parse_stat(&procfs::read_of(pid, "stat").ok()?)?.state)
}

/// Lets a stopped process go on.
pub fn resume(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
}

/// Waits for something that must happen soon.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Compiles a C program (or, with `-shared` among the arguments, a library).
pub fn compile(folder: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let input = folder.join(format!("{name}.c"));
    let output = folder.join(name);
    std::fs::write(&input, source).unwrap();
    let status = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror"])
        .args(arguments)
        .arg("-o")
        .args([&output, &input])
        .status()
        .unwrap();
    assert!(status.success(), "cc {name}");
    output
}

/// Kills a process at the end of a test, whatever happens in between.
pub struct Reaper(pub Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
