//! What the tests of the `weigh` binary share: where things are, how slow the machine is, who runs
//! the tests, and the parts in the modules below.
//!
//! The compiled tests can be copied to another machine. They read the environment variables
//! `WEIGH_BIN` (the binary; default: the one that cargo built with them), `WEIGH_WORKLOADS` (the
//! folder of `tests/workloads/bin`), `WEIGH_TEST_SCALE` (how many times slower the machine is
//! than a real one; 1 if not set), `WEIGH_OWN_MACHINE` (1: nobody is harmed by what is done to the
//! machine as a whole, such as setting its clock) and `WEIGH_TESTS_UNPRIVILEGED` (1: this run is meant to be
//! without root).

// Each test program has this module, and none uses all of it.
#![allow(dead_code)]

pub mod agent;
pub mod io_report;
#[path = "../../../../tests/left_out.rs"]
pub mod left_out;
pub mod library;
pub mod measured;
pub mod mortal;
pub mod processes;
pub mod run;
pub mod terminal;
pub mod trace;

#[allow(unused_imports)]
pub use left_out::{leave_out, leave_to_guest};

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The binary that is tested.
pub fn weigh_binary() -> PathBuf {
    std::env::var_os("WEIGH_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_weigh")), PathBuf::from)
}

/// The same binary in a place that every user can reach: the build folder may not be one.
pub fn weigh_for_everybody() -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    static COPY: OnceLock<(PathBuf, Child)> = OnceLock::new();
    let (copy, _) = COPY.get_or_init(|| {
        let folder = tempfile::TempDir::with_prefix("weigh-bin-").expect("a folder").keep();
        let cleaner = remove_in_the_end(&folder);
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&folder, everybody).expect("permissions");
        let copy = folder.join("weigh");
        std::fs::hard_link(weigh_binary(), &copy)
            .or_else(|_| std::fs::copy(weigh_binary(), &copy).map(drop))
            .expect("a copy of weigh");
        (copy, cleaner)
    });
    copy.clone()
}

/// Removes a folder when this process has ended, whose end drops nothing that is static: a shell waits until nobody has
/// the other end of its standard input any more.
fn remove_in_the_end(folder: &Path) -> Child {
    use std::os::unix::process::CommandExt as _;
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat; rm -rf -- \"$0\""]).arg(folder).process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn().expect("a shell")
}

/// The path of a workload.
pub fn workload(name: &str) -> String {
    let folder = std::env::var_os("WEIGH_WORKLOADS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/workloads/bin")),
        PathBuf::from,
    );
    let path = folder.join(name);
    assert!(
        path.exists(),
        "there is no workload {}: run `make -C tests/workloads`, or set WEIGH_WORKLOADS",
        path.display()
    );
    path.canonicalize().expect("it exists").display().to_string()
}

/// How many times slower than a real machine this one is, as far as the tests were told.
pub fn slowness() -> u32 {
    match std::env::var("WEIGH_TEST_SCALE") {
        Ok(text) => text.parse().ok().filter(|s| *s >= 1).unwrap_or_else(|| {
            panic!("WEIGH_TEST_SCALE must be a whole number from 1, not '{text}'")
        }),
        Err(_) => 1,
    }
}

/// Verbs that start a command, each by all that it can follow it with; what does the same in another is left out.
pub const WAYS: [&[&str]; 10] = [
    &["run", "--mechanism", "bpf"],
    &["run", "--mechanism", "ptrace"],
    &["io", "--mechanism", "bpf"],
    &["trace", "-e", "sched:sched_process_exit"],
    &["calls", "--mechanism", "bpf"],
    &["run", "--mechanism", "preload"],
    &["run", "--mechanism", "poll"],
    &["io", "--mechanism", "ptrace"],
    &["io", "--mechanism", "preload"],
    &["calls", "--mechanism", "preload"],
];

/// Whether this machine is so slow that not every variant of a test is worth its time.
pub fn is_slow() -> bool {
    slowness() > 2
}

/// All of these, or, on a slow machine, the first few.
pub fn worth_the_time<T>(all: &[T], few: usize) -> &[T] {
    if is_slow() { &all[..few.min(all.len())] } else { all }
}

/// A time that is longer on a slow machine.
pub fn patience(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds) * slowness()
}

/// An amount of work that is less on a slow machine.
pub fn amount(of_work: u64) -> u64 {
    of_work.div_ceil(u64::from(slowness()))
}

/// Whether the whole machine is there for the tests alone.
pub fn is_own_machine() -> bool {
    std::env::var_os("WEIGH_OWN_MACHINE").is_some_and(|v| v == "1")
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a test that needs root can go on. Without root it fails, unless the person who started
/// the tests said that this is meant.
#[track_caller]
pub fn may_go_on() -> bool {
    if is_root() {
        return true;
    }
    let meant = std::env::var_os("WEIGH_TESTS_UNPRIVILEGED").is_some_and(|v| v == "1");
    assert!(
        meant,
        "this test needs root: run the tests as root, or set WEIGH_TESTS_UNPRIVILEGED=1 to do without those that need it"
    );
    leave_out("this test needs root, and WEIGH_TESTS_UNPRIVILEGED=1 is set");
    false
}

/// Ends a test that needs root if there is none, and that is meant.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !$crate::support::may_go_on() {
            return;
        }
    };
}

/// Why tests of functions are left to the guest.
pub const NO_FUNCTION_PROBES: &str = "this kernel lets no function be probed";

/// Whether this kernel lets functions be probed.
pub fn functions_can_be_probed() -> bool {
    std::path::Path::new("/sys/bus/event_source/devices/kprobe/type").exists()
}

/// Whether an agent of the machine serves programs with libweigh; leaves out what it would serve in weigh's place.
pub fn is_there_an_agent() -> bool {
    let socket = std::path::Path::new(weigh_schema::library::SOCKET);
    if socket.exists() {
        leave_out(&format!("an agent serves at {}", socket.display()));
    }
    socket.exists()
}

/// Some looks go through all processes of the machine.
pub const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Waits until something is so; fails if it does not come to be within `seconds` (of a real
/// machine).
#[track_caller]
pub fn wait_until(what: &str, seconds: f64, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + patience(seconds);
    while !is_so() {
        assert!(Instant::now() < end, "waited {:?} in vain until {what}", patience(seconds));
        std::thread::sleep(BETWEEN_LOOKS * slowness());
    }
}
