//! Open events of real processes (root).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weigh_collect::fanotify::{FanotifyError, Open, OpenEvents};

/// Opens each of its arguments once, with time between for no merging.
const OPENER: &str = r#"
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) { int fd = open(argv[i], O_RDONLY); if (fd >= 0) close(fd); }
    return 0;
}
"#;

/// The overflow of one test must not fill the queues of the others.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn start() -> Option<OpenEvents> {
    match OpenEvents::start() {
        Ok(events) => Some(events),
        Err(error @ FanotifyError::Init { .. }) if !rustix::process::geteuid().is_root() => {
            crate::common::left_out::leave_out(&format!("{error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn paths_of(opens: BTreeMap<Open, u64>, pid: u32) -> Vec<String> {
    let own = opens.into_keys().filter(|o| o.pid == pid);
    own.map(|o| o.path.map_or("?".to_owned(), |p| p.to_string_lossy().into_owned())).collect()
}

#[test]
fn opens_are_seen_with_process_and_name() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut events) = start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let opener = crate::common::compile(folder.path(), "opener", OPENER, &["-static"]);
    let odd = folder.path().join("odd\nname ü");
    std::fs::write(&odd, b"x").unwrap();
    let deep = folder.path().join("deep");
    std::fs::create_dir(&deep).unwrap();
    std::fs::write("/dev/shm/weigh-fanotify", b"x").unwrap();
    let mut child = Command::new(&opener)
        .args([odd.as_path(), &deep, Path::new("/dev/shm/weigh-fanotify"), Path::new("/no/such")])
        .spawn()
        .unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let seen = paths_of(events.drain(&mut |p| p == pid).unwrap(), pid);
    std::fs::remove_file("/dev/shm/weigh-fanotify").unwrap();
    for wanted in [&opener, &odd, &deep, Path::new("/dev/shm/weigh-fanotify")] {
        let wanted = wanted.to_string_lossy().into_owned();
        assert!(seen.contains(&wanted), "{wanted} is not in {seen:?}");
    }
    assert!(!seen.iter().any(|p| p.contains("such")), "a failed open is no open: {seen:?}");
    assert!(events.drain(&mut |p| p == pid).unwrap().is_empty());
    println!("{:?}", events.status());
}

#[test]
fn a_marked_file_system_can_be_unmounted() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let point = tempfile::tempdir().unwrap();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(point.path()).status();
    assert!(mount.unwrap().success());
    let mut events = start().unwrap();
    let file = point.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    std::fs::read(&file).unwrap();
    // With its events still in the queue.
    assert!(Command::new("umount").arg(point.path()).status().unwrap().success());
    let own = std::process::id();
    events.drain(&mut |p| p == own).unwrap();
    // And once more, after names in it were resolved.
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(point.path()).status();
    assert!(mount.unwrap().success());
    events.mark_new_mounts().unwrap();
    std::fs::write(&file, b"x").unwrap();
    let seen = paths_of(events.drain(&mut |p| p == own).unwrap(), own);
    assert!(Command::new("umount").arg(point.path()).status().unwrap().success());
    assert!(seen.iter().any(|p| Path::new(p) == file), "{seen:?}");
}

#[test]
fn an_overflow_is_counted_as_lost() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut events) = start() else { return };
    let limit: usize = std::fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    for n in 0..limit + 100 {
        std::fs::File::create(folder.path().join(n.to_string())).unwrap();
    }
    let begun = Instant::now();
    while !events.drain(&mut |_| false).unwrap().is_empty() {}
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(events.status().lost >= 1);
}
