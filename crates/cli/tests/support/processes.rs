//! Looks at `/proc`: a witness that is not weigh.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The environment variable that all processes of one run carry.
pub const MARK: &str = "WEIGH_TEST_MARK";

/// The PIDs of this machine.
pub fn all() -> Vec<u32> {
    fs::read_dir("/proc")
        .expect("/proc can be read")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The living processes that carry a mark in their environment, without the `weigh` that started
/// them. Zombies have no environment and are not in it.
pub fn marked(mark: &Path) -> Vec<u32> {
    all().into_iter().filter(|pid| has_mark(*pid, mark) && !is_weigh(*pid)).collect()
}

fn has_mark(pid: u32, mark: &Path) -> bool {
    let wanted = [MARK.as_bytes(), b"=", mark.as_os_str().as_encoded_bytes()].concat();
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == wanted))
}

/// Whether a process is weigh itself, not a child of it that has yet to execute its command.
fn is_weigh(pid: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let executable = identity(Path::new(&format!("/proc/{pid}/exe")));
    executable.is_some()
        && [super::weigh_binary(), super::weigh_for_everybody()]
            .iter()
            .any(|binary| identity(binary) == executable)
}

/// The arguments of a process, joined by blanks; empty if it has gone.
pub fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ")
}

/// The state of a process as `/proc/PID/stat` has it; none if it has gone.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// How often the main thread of a process has gone to sleep of its own accord; 0 if it has gone.
pub fn times_slept(pid: u32) -> u64 {
    times_slept_in(Path::new(&format!("/proc/{pid}")))
}

/// The same of all threads that it has now.
pub fn voluntary_switches(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    threads.flatten().map(|thread| times_slept_in(&thread.path())).sum()
}

fn times_slept_in(folder: &Path) -> u64 {
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(0, |count| count.trim().parse().expect("a number"))
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// A field of `/proc/PID/smaps_rollup`, in bytes: the kernel walks the page tables for it.
pub fn mapped_bytes(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the process lives");
    let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("the field exists");
    let kilobytes = line.trim_matches(|c: char| !c.is_ascii_digit());
    kilobytes.parse::<u64>().expect("a number of kB") * 1024
}

/// The children of a process.
pub fn children(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent_field = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        parent_field == Some(&parent.to_string())
    };
    all().into_iter().filter(is_child).collect()
}

/// Sends a signal to a process, by number; whether it was there.
pub fn signal(pid: u32, number: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("PIDs are positive");
    let signal = rustix::process::Signal::from_named_raw(number).expect("a signal with a name");
    rustix::process::kill_process(pid, signal).is_ok()
}

/// Identifiers of BPF programs and links that a process holds, as `prog_id` and `link_id` lines of
/// its descriptors.
pub fn bpf_identifiers(pid: u32) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return found };
    for entry in entries.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            if let ("prog_id" | "link_id", Ok(id)) = (key, value.trim().parse()) {
                found.push((key.to_string(), id));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Runs a tool and gives what it said on standard output; fails if it does.
#[track_caller]
pub fn said_by(program: impl AsRef<OsStr>, arguments: &[&str]) -> Vec<u8> {
    let program = program.as_ref();
    let output = std::process::Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|e| panic!("{} cannot be run: {e}", program.display()));
    assert!(output.status.success(), "{} {arguments:?}: {output:?}", program.display());
    output.stdout
}

/// How many BPF programs a process has attached.
pub fn links_of(pid: u32) -> usize {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let targets = descriptors.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("bpf_link")).count()
}
