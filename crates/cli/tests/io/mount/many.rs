//! More files than weigh may have open at once.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::thread::{CapabilitySet, capabilities, remove_capability_from_bounding_set};
use rustix::thread::{CapabilitySets, set_capabilities};

use super::{Served, can_mount, folders, mounting, rows};
use crate::support::wait_until;

const LIMIT: usize = 240;
const FOLDERS: usize = 24;
const FILES: usize = 25;
const OPEN: usize = 30;

/// A mount by a weigh that may have so many files open, and cannot have that changed.
fn limited<'s>(scratch: &'s crate::support::run::Scratch, options: &[&str]) -> Served<'s> {
    let weigh = mounting(scratch, options);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {LIMIT}; exec \"$@\""), "sh"]);
    shell.arg(weigh.get_program()).args(weigh.get_args()).arg("-q").stdin(Stdio::null());
    for (key, value) in weigh.get_envs() {
        value.map(|value| shell.env(key, value));
    }
    // What is taken from a thread is taken from what it starts.
    let started = std::thread::scope(|scope| {
        let without = scope.spawn(|| {
            let _ = remove_capability_from_bounding_set(CapabilitySet::SYS_RESOURCE);
            let sets = capabilities(None).expect("capabilities");
            let less = |set: CapabilitySet| set - CapabilitySet::SYS_RESOURCE;
            let sets = CapabilitySets {
                effective: less(sets.effective),
                permitted: less(sets.permitted),
                inheritable: less(sets.inheritable),
            };
            set_capabilities(None, sets).expect("less may always be");
            shell.spawn().expect("weigh starts")
        });
        without.join().expect("it is started")
    });
    let served = Served { scratch, weigh: started };
    wait_until("it is mounted", 20.0, || served.is_mounted());
    served
}

fn name(folder: usize, file: usize) -> String {
    format!("d{folder:02}/f{file:02}")
}

fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).expect("it lives").count()
}

/// The files of so many folders have what they should.
fn read_all(at: &Path, folders: usize) {
    for (folder, file) in (0..folders).flat_map(|d| (0..FILES).map(move |f| (d, f))) {
        let name = name(folder, file);
        let text = std::fs::read_to_string(at.join(&name));
        assert_eq!(text.map_err(|error| format!("{name}: {error}")), Ok(name.clone()));
    }
}

#[test]
fn more_files_than_descriptors_are_served() {
    if !can_mount() {
        return;
    }
    for way in [&[][..], &["--exact"]] {
        let scratch = folders();
        let [source, at] = ["source", "at"].map(|name| scratch.path(name));
        for folder in 0..FOLDERS {
            std::fs::create_dir(source.join(format!("d{folder:02}"))).expect("made");
            for file in 0..FILES {
                let name = name(folder, file);
                std::fs::write(source.join(&name), &name).expect("written");
            }
        }
        let served = limited(&scratch, way);
        let process = served.weigh.id();
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).expect("limits");
        let files = limits.lines().find(|line| line.starts_with("Max open files"));
        assert!(files.is_some_and(|line| line.contains(&LIMIT.to_string())), "{files:?}");

        let mut open: Vec<File> = (0..OPEN)
            .map(|file| File::open(at.join(name(file % 20, file / 20))).expect("opens"))
            .collect();
        // Somebody stays where he is, however long it was that his place was looked up.
        let mut inside = Command::new("sh")
            .args(["-c", "read go; cat f07 && cat ../d22/f08"])
            .current_dir(at.join("d23"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let before = at.join("d05/f06").metadata().expect("it is").ino();
        read_all(&at, FOLDERS);
        // Half are for the files that the kernel knows, and one each for those that are open.
        let most = LIMIT / 2 + 2 * OPEN + 30;
        assert!(descriptors(process) <= most, "{way:?}: {}", descriptors(process));
        read_all(&at, FOLDERS);
        assert_eq!(at.join("d05/f06").metadata().expect("it is").ino(), before);
        assert_eq!(source.join("d05/f06").metadata().expect("it is").ino(), before);

        for (number, file) in open.iter_mut().enumerate() {
            let mut text = String::new();
            file.read_to_string(&mut text).expect("it is read");
            assert_eq!(text, name(number % 20, number / 20));
        }
        // The place of who stays has another name now.
        std::fs::rename(at.join("d23"), at.join("moved")).expect("renamed");
        read_all(&at, FOLDERS - 1);
        drop(inside.stdin.take());
        let output = inside.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "d23/f07d22/f08", "{way:?}");
        drop(open);
        wait_until("they are closed", 20.0, || descriptors(process) <= LIMIT / 2 + OPEN + 30);

        let (status, report) = served.interrupt();
        assert_eq!(status, Some(0));
        let opens = |name: &str| {
            let of = rows(&report, name);
            of.iter().filter_map(|row| row["numbers"]["opens_total"].as_u64()).sum::<u64>()
        };
        // Each was opened twice to be read, some once more to stay open, and most a third time to be read.
        assert_eq!([opens("/d00/f00"), opens("/d21/f21")], [4, 3], "{way:?}");
    }
}
