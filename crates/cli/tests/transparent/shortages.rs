//! Where weigh itself has too little: the command runs as without weigh, with what can be measured, and weigh says what is
//! not.

use std::process::{Command, Output};

use crate::support::run::{Scratch, by, set_surroundings};
use crate::support::{WAYS, weigh_for_everybody, workload, worth_the_time};

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

#[test]
fn root_takes_descriptors_for_itself_and_leaves_the_limit() {
    needs_root!();
    for way in worth_the_time(&WAYS, 3) {
        let said = Within::launched(&["hard=7:8"]).is_as_bare(way, "ulimit -Hn; ulimit -Sn; exit 7");
        assert!(!said.contains("nothing is measured"), "{way:?}: {said}");
    }
}

#[test]
fn a_command_runs_where_there_may_be_no_other_process() {
    needs_root!();
    for way in worth_the_time(&OF_USERS, 2) {
        let none = Within::launched(&["hard=6:0", "user"]);
        let said = none.is_as_bare(way, "ulimit -Hu; exit 7");
        assert!(said.contains("nothing is measured"), "{way:?}: {said}");
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
