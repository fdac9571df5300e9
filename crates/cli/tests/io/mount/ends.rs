//! What is refused, and how a mount ends.

use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Served, can_mount, folders, is_mounted, mounting, served, text};
use crate::support::processes::signal;
use crate::support::{wait_until, weigh_for_everybody};

#[test]
fn the_status_is_the_commands_and_nothing_stays() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let at = text(scratch.path("at"));
    let (status, _, _) = served(&scratch, super::WAYS[0], &["bash", "-c", "exit 7"]);
    assert_eq!((status, is_mounted(&at)), (Some(7), false));
    let (status, said, _) = served(&scratch, super::WAYS[0], &["no-such-command-anywhere"]);
    assert_eq!((status, is_mounted(&at)), (Some(127), false), "{said}");
    // Its place in the mount is no reason to stay.
    let inside = format!("cd {at} && echo x > y && exit 3");
    let (status, said, _) = served(&scratch, &["--exact"], &["bash", "-c", &inside]);
    assert_eq!((status, is_mounted(&at)), (Some(3), false), "{said}");
    // Limits of the command are those that weigh was started with.
    let (_, said, _) =
        served(&scratch, &["-q", "--mechanism=fuse"], &["bash", "-c", "ulimit -Sn >&2"]);
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert_eq!(said.trim(), own.map_or("unlimited".to_string(), |n| n.to_string()));
}

#[test]
fn places_that_can_not_be_used_are_refused() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let [source, at, inner, none] =
        ["source", "at", "source/inner", "none"].map(|name| text(scratch.path(name)));
    std::fs::create_dir(&inner).expect("a folder");
    std::fs::write(scratch.path("bare/file"), "x").expect("written");
    let [bare, file] = ["bare", "bare/file"].map(|name| text(scratch.path(name)));
    let cases = [
        (&source, &bare, "expected an empty directory"),
        (&source, &none, "No such file"),
        (&none, &at, "No such file"),
        (&file, &at, "this is no directory"),
        (&source, &inner, "neither may be inside the other"),
        (&inner, &source, "neither may be inside the other"),
        (&at, &at, "neither may be inside the other"),
    ];
    let marker = text(scratch.path("command-has-run"));
    for (from, to, why) in cases {
        let mut weigh = std::process::Command::new(weigh_for_everybody());
        weigh.args(["io", "mount", from, to, "--", "touch", &marker]);
        let output = weigh.output().expect("weigh runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{from} {to}: {said}");
        assert!(said.contains(why), "{said}");
        assert!(!std::path::Path::new(&marker).exists());
    }
}

#[test]
fn it_ends_when_it_is_told_to_or_unmounted() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let at = scratch.path("at");
    for number in [2, 15] {
        let served = Served::start(&scratch, super::WAYS[0]);
        assert!(signal(served.weigh.id(), number));
        assert_eq!(served.end().0, Some(0), "signal {number}");
        assert!(!is_mounted(&text(at.clone())));
    }
    let served = Served::start(&scratch, super::WAYS[0]);
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::empty()).expect("nobody uses it");
    assert_eq!(served.end().0, Some(0));
    // Who has a file open goes on to be served.
    let served = Served::start(&scratch, &["--exact"]);
    let mut file = File::create(at.join("file")).expect("made");
    assert!(signal(served.weigh.id(), 2));
    wait_until("it is unmounted", 20.0, || !served.is_mounted());
    file.write_all(b"after the end").expect("it is served");
    drop(file);
    let (status, report) = served.end();
    assert_eq!((status, report["totals"]["written_bytes"].as_u64()), (Some(0), Some(13)));
    assert_eq!(scratch.text("source/file"), "after the end");
}

/// A process that executes a program closes files under a lock that a reader of its /proc files wants, too.
#[test]
fn files_that_a_program_does_not_inherit_hold_nobody_up() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let served = Served::start(&scratch, super::WAYS[0]);
    let file = File::create(scratch.path("at/file")).expect("made");
    let program = std::thread::spawn(|| std::process::Command::new("true").status());
    wait_until("the program has run", 20.0, || program.is_finished());
    assert!(program.join().expect("it ran").expect("it ended").success());
    drop(file);
    assert_eq!(served.interrupt().0, Some(0));
}

#[test]
fn a_copy_of_the_mount_in_another_namespace_keeps_nobody_waiting() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let served = Served::start(&scratch, super::WAYS[0]);
    let mut unshare = std::process::Command::new("unshare");
    let ready = text(scratch.path("ready"));
    let mut other = unshare
        .args(["-m", "sh", "-c", &format!("cd / && : > {ready} && exec sleep 60")])
        .spawn()
        .expect("a namespace");
    wait_until("it has a copy", 20.0, || scratch.path("ready").exists());
    let (status, _) = served.interrupt();
    other.kill().expect("it runs still");
    other.wait().expect("it ends");
    assert_eq!(status, Some(0));
}

/// So much is written at least before the server is killed.
const MUCH: u64 = 50 * 1021;

#[test]
fn what_was_written_before_a_crash_is_there() {
    if !can_mount() {
        return;
    }
    for way in super::WAYS {
        let scratch = folders();
        let at = scratch.path("at");
        let served = Served::start(&scratch, way);
        let mut file = File::create(at.join("file")).expect("made");
        // Nobody syncs, and the server is killed in the middle of it: when something has been written, however
        // long that takes, for before that there is nothing to be lost.
        let pid = served.weigh.id();
        let written = AtomicU64::new(0);
        let line = [b'x'; 1021];
        std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                wait_until("something is written", 20.0, || written.load(Relaxed) > MUCH);
                signal(pid, 9)
            });
            let gone = std::time::Instant::now() + crate::support::patience(5.0);
            while written.load(Relaxed) < 64 << 20 && file.write_all(&line).is_ok() {
                written.fetch_add(line.len() as u64, Relaxed);
                if killer.is_finished() && std::time::Instant::now() > gone {
                    break;
                }
            }
            assert!(killer.join().expect("it ran"));
        });
        let written = written.into_inner();
        drop(file);
        let there = std::fs::metadata(scratch.path("source/file")).expect("it is there").len();
        assert!(written > MUCH && there >= written, "{way:?}: {there} of {written}");
        assert!(there < written + line.len() as u64 + 1, "{way:?}: {there} of {written}");
        // The next one says what is in its way.
        drop(served);
        wait_until("it is away", 5.0, || !is_mounted(&text(at.clone())));
    }
}

#[test]
fn a_dead_mount_is_named() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let mut served = Served::start(&scratch, super::WAYS[0]);
    served.weigh.kill().expect("killed");
    served.weigh.wait().expect("it is dead");
    let output = mounting(&scratch, &[]).output().expect("weigh runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert!(said.contains("a mount is there whose server is gone"), "{said}");
    assert!(said.contains("umount -l"), "{said}");
}
