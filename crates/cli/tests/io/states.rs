//! Size, permissions and time of change of files, before a job and after it, in files.parquet: by every mechanism.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use weigh_schema::io::{FileState, FileStates};

use super::truth::mechanisms;
use crate::support::measured::Measured;
use crate::support::run::Weigh;

/// What stat(2) says of it now.
fn state(path: &Path) -> FileState {
    let about = fs::metadata(path).expect("it is there");
    FileState {
        size_bytes: about.size(),
        mode: about.mode() & 0o7777,
        modified_ns: about.mtime() * 1_000_000_000 + about.mtime_nsec(),
    }
}

/// What the recording says of a file of the working folder.
#[track_caller]
fn states(measured: &Measured, name: &str) -> FileStates {
    let path = measured.scratch.path("work").join(name).display().to_string();
    let rows = measured.files();
    let row = rows.iter().find(|row| row.name == path);
    let row = row.unwrap_or_else(|| panic!("no row of {path} in {}", measured.everything()));
    row.states.clone()
}

#[test]
fn files_are_told_before_and_after() {
    for (mechanism, user) in mechanisms() {
        // What is made within a tick of the beginning may have been there. Looks come while it sleeps.
        let script = "sleep 0.1; cat input > output; echo more >> log; echo x > gone; rm gone; chmod 600 output; sleep 0.5";
        let option = if mechanism.contains('+') { "--io-mechanism" } else { "--mechanism" };
        let run = Weigh::bash(script).options(&format!("--io {option} {mechanism}"));
        let run = user.into_iter().fold(run, Weigh::run_by);
        let work = run.scratch().path("work");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
        for (name, text, mode) in [("input", "12345678901", 0o644), ("log", "first\n", 0o666)] {
            let path = work.join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
            let file = fs::File::options().write(true).open(&path).expect("it is there");
            file.set_modified(long_ago).expect("a time");
        }
        // File systems keep times by ticks.
        std::thread::sleep(Duration::from_millis(60));
        let input = state(&work.join("input"));
        assert_eq!((input.size_bytes, input.mode), (11, 0o644));
        let measured = run.end();
        assert!(measured.status.success(), "{mechanism}: {}", measured.everything());
        let what = format!("{mechanism} {user:?}");
        let of = |name| states(&measured, name);
        let wanted = FileStates {
            was_there: Some(true),
            before: Some(input),
            after: Some(input),
            reason: None,
        };
        assert_eq!(of("input"), wanted, "{what}");
        let output = of("output");
        assert_eq!(output.after, Some(state(&work.join("output"))), "{what}");
        assert_eq!(output.after.map(|state| (state.size_bytes, state.mode)), Some((11, 0o600)));
        assert_eq!((output.before, output.was_there), (None, Some(false)), "{what}: {output:?}");
        let log = of("log");
        assert_eq!(log.after.map(|state| state.size_bytes), Some(11), "{what}");
        assert_eq!((log.before, log.was_there), (None, Some(true)), "{what}: {log:?}");
        assert!(log.reason.is_some_and(|why| why.contains("changed while the job ran")), "{what}");
        let gone = of("gone");
        assert_eq!((gone.before, gone.after), (None, None), "{what}");
        assert!(gone.reason.is_some(), "{what}: nothing says why");
    }
}
