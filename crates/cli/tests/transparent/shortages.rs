//! Where weigh itself has too little: the command runs as without weigh, with what can be measured, and weigh says what is
//! not.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::run::{Scratch, by, set_surroundings};
use crate::support::{WAYS, leave_out, weigh_for_everybody, workload, worth_the_time};

/// Ways of an ordinary user.
const OF_USERS: [&[&str]; 6] = [
    &["run"],
    &["run", "--mechanism", "poll"],
    &["io"],
    &["run", "--mechanism", "preload"],
    &["run", "--mechanism", "ptrace"],
    &["io", "--mechanism", "ptrace"],
];

/// What surrounds weigh, or the command itself.
struct Within {
    program: &'static str,
    what: Vec<String>,
}

impl Within {
    fn launched(what: &[&str]) -> Within {
        let what = what.iter().map(ToString::to_string).chain(["--".to_string()]);
        Within { program: "launch", what: what.collect() }
    }

    fn confined(what: &str) -> Within {
        Within { program: "confine", what: vec![what.to_string()] }
    }

    /// Runs it to its end: by weigh in a way, or bare.
    fn output(&self, way: Option<&[&str]>, script: &str) -> Output {
        let scratch = Scratch::new();
        let mut command = Command::new(workload(self.program));
        command.args(&self.what);
        if let Some(way) = way {
            command.arg(weigh_for_everybody()).args(by(way, &scratch).get_args()).arg("--");
        }
        set_surroundings(&mut command, &scratch);
        command.args(["sh", "-c", script]).output().expect("it starts")
    }

    /// The command ends as it does bare, and says the same. What weigh says.
    #[track_caller]
    fn is_as_bare(&self, way: &[&str], script: &str) -> String {
        let (bare, measured) = (self.output(None, script), self.output(Some(way), script));
        let said = String::from_utf8_lossy(&measured.stderr).into_owned();
        assert_eq!(bare.status.code(), Some(7), "{:?}: {bare:?}", self.what);
        assert_eq!(
            (measured.status, &measured.stdout),
            (bare.status, &bare.stdout),
            "{:?}, {way:?}: {said}",
            self.what
        );
        said
    }
}

#[test]
fn a_command_runs_whatever_number_of_descriptors_there_is() {
    needs_root!();
    for (at, count) in (4..=24).enumerate() {
        let limit = format!("hard=7:{count}");
        let few = Within::launched(&[&limit, "user"]);
        few.is_as_bare(OF_USERS[at % OF_USERS.len()], "ulimit -Hn; exit 7");
    }
    // So few are not enough for any mechanism, and weigh says that.
    let said = Within::launched(&["hard=7:5", "user"]).is_as_bare(&["run"], "ulimit -Hn; exit 7");
    assert!(said.contains("nothing is measured") && said.contains("open files"), "{said}");
}

/// Whether hard limits may be raised: in containers root often may not.
fn may_raise_hard_limits() -> bool {
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|held| held.effective.contains(rustix::thread::CapabilitySet::SYS_RESOURCE));
    if !may {
        leave_out("root has no CAP_SYS_RESOURCE here");
    }
    may
}

#[test]
fn root_takes_descriptors_for_itself_and_leaves_the_limit() {
    needs_root!();
    if !may_raise_hard_limits() {
        return;
    }
    for way in worth_the_time(&WAYS, 3) {
        let said =
            Within::launched(&["hard=7:8"]).is_as_bare(way, "ulimit -Hn; ulimit -Sn; exit 7");
        assert!(!said.contains("nothing is measured"), "{way:?}: {said}");
    }
}

#[test]
fn a_command_runs_where_there_may_be_no_other_process() {
    needs_root!();
    for way in worth_the_time(&OF_USERS, 2) {
        let none = Within::launched(&["user", "hard=6:0"]);
        let said = none.is_as_bare(way, "ulimit -Hu; exit 7");
        assert!(said.contains("nothing is measured"), "{way:?}: {said}");
    }
}

#[test]
fn a_command_runs_without_proc() {
    needs_root!();
    for way in [&["run"][..], &["io"], &["run", "--mechanism", "preload"]] {
        let said = Within::confined("no-proc,user").is_as_bare(way, "echo ran; exit 7");
        let is_told = said.contains("nothing is measured") && said.contains("/proc");
        assert!(is_told || way[0] == "io", "{way:?}: {said}");
    }
}

/// A copy of weigh with capabilities of its own, as `weigh-grant` makes one: none where files cannot have them.
fn privileged_copy(scratch: &Scratch) -> Option<PathBuf> {
    // struct vfs_cap_data of revision 2, effective: CAP_PERFMON and CAP_BPF are permitted.
    let capabilities = [0x0200_0001_u32, 0, 0, 0xc0, 0].map(u32::to_le_bytes).concat();
    let copy = scratch.path("weigh-privileged");
    std::fs::copy(weigh_for_everybody(), &copy).expect("a copy");
    let name = "security.capability";
    let set = rustix::fs::setxattr(&copy, name, &capabilities, rustix::fs::XattrFlags::empty());
    if set.is_err() {
        leave_out("files here cannot have capabilities");
    }
    set.is_ok().then_some(copy)
}

/// The loader takes variables from such a program, and the kernel lowers its limit of the stack: its command has both.
#[test]
fn what_capabilities_take_from_weigh_is_not_taken_from_the_command() {
    needs_root!();
    let scratch = Scratch::new();
    let Some(weigh) = privileged_copy(&scratch) else { return };
    let weigh = weigh.display().to_string();
    for mechanism in ["bpf", "poll"] {
        let way = [&weigh, "run", "-q", "--mechanism", mechanism, "--"];
        let [bare, measured] = [&[][..], &way].map(|way| started_by_shell(&scratch, way));
        for line in ["LD_LIBRARY_PATH=/opt/theirs", "HOSTALIASES=/a b=c", "unlimited"] {
            assert!(bare.iter().any(|found| found == line), "no {line}: {bare:?}");
        }
        assert_eq!(measured, bare, "left: below weigh by {mechanism}, right: bare");
    }
}

/// The environment and the limit of the stack that a user's command finds, by lines, without what is weigh's.
fn started_by_shell(scratch: &Scratch, way: &[&str]) -> Vec<String> {
    let script = "ulimit -s unlimited; \"$@\" sh -c 'env; ulimit -s; ulimit -Hs'; exit 0";
    let mut command = Command::new(workload("launch"));
    command.args(["user", "--", "bash", "-c", script, "bash"]).args(way);
    set_surroundings(&mut command, scratch);
    command.env("LD_LIBRARY_PATH", "/opt/theirs").env("TMPDIR", "/var/tmp");
    let output = command.env("HOSTALIASES", "/a b=c").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let is_weighs =
        |line: &&str| ["WEIGH_", "LD_PRELOAD=", "_="].iter().any(|name| line.starts_with(name));
    let mut lines: Vec<_> = said.lines().filter(|l| !is_weighs(l)).map(String::from).collect();
    lines.sort();
    lines
}

/// Where the job was to be kept within limits it does not run without; nor where a recording is required.
#[test]
fn what_was_asked_for_above_all_is_not_left_out() {
    needs_root!();
    for options in [&["--limit", "cpu_seconds=5"][..], &["--require-recording"]] {
        let way = [&["run"][..], options].concat();
        let output = Within::confined("no-proc,user").output(Some(&way), "echo ran");
        assert_eq!((output.status.code(), output.stdout), (Some(125), Vec::new()), "{options:?}");
    }
}

#[test]
fn a_command_runs_where_filters_refuse_what_is_new() {
    needs_root!();
    for what in ["old=EPERM", "old=ENOSYS", "old=EPERM,user", "old=ENOSYS,user"] {
        for way in [&["run"][..], &["io"], &["run", "--mechanism", "preload"]] {
            Within::confined(what).is_as_bare(way, "grep Seccomp: /proc/self/status; exit 7");
        }
    }
}
