//! Disk footprints of real directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weigh_collect::footprint::{FileIdentity, FootprintScanner, Scan, ScanRate, scan_once};
use weigh_schema::event::CollectorState;

fn scan(roots: &[&Path]) -> Scan {
    scan_once(&roots.iter().map(|r| r.to_path_buf()).collect::<Vec<_>>()).unwrap()
}

fn allocated(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().blocks() * 512
}

#[test]
fn known_files_are_counted_exactly() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    assert_eq!(scan(&[root]), Scan::default(), "an empty directory takes nothing");
    let mut expected = 0;
    for (name, size) in [("empty", 0), ("one", 1), ("odd", 12_345), ("big", 3_000_001)] {
        fs::write(root.join(name), vec![7u8; size]).unwrap();
        expected += allocated(&root.join(name));
    }
    fs::create_dir(root.join("folder")).unwrap();
    fs::write(root.join("folder/below"), [1; 5000]).unwrap();
    expected += allocated(&root.join("folder")) + allocated(&root.join("folder/below"));
    fs::hard_link(root.join("big"), root.join("folder/same")).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    expected += allocated(&root.join("sparse"));
    symlink("/usr", root.join("link")).unwrap();
    symlink(".", root.join("loop")).unwrap();
    expected += allocated(&root.join("link")) + allocated(&root.join("loop"));
    let seen = scan(&[root]);
    assert_eq!((seen.bytes, seen.files, seen.unreadable), (expected, 9, 0), "{seen:?}");
    assert!(expected > 3_000_001 && expected < 4_000_000);
    // The same again through two names, and with a watched directory inside another.
    assert_eq!(scan(&[root, root]), seen);
    let nested = scan(&[root, &root.join("folder")]);
    assert_eq!(nested.files, seen.files - 1, "a watched directory itself is not below one");
    assert_eq!(nested.bytes, seen.bytes - allocated(&root.join("folder")));
}

#[test]
fn du_agrees_on_a_large_tree() {
    let root = Path::new("/usr/share");
    let du = std::process::Command::new("du").args(["-sx", "--block-size=1"]).arg(root).output();
    let text = String::from_utf8(du.unwrap().stdout).unwrap();
    let expected: u64 = text.split('\t').next().unwrap().parse().unwrap();
    assert_eq!(scan(&[root]).bytes, expected - allocated(root));
}

#[test]
fn a_tree_deeper_than_a_path_may_be_is_reported_not_followed_for_ever() {
    let tree = tempfile::tempdir().unwrap();
    let name = "d".repeat(200);
    let mut folder =
        rustix::fs::open(tree.path(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..30 {
        rustix::fs::mkdirat(&folder, &name, rustix::fs::Mode::RWXU).unwrap();
        folder =
            rustix::fs::openat(&folder, &name, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty())
                .unwrap();
    }
    let seen = scan(&[tree.path()]);
    assert!((18..=21).contains(&seen.files), "{}", seen.files);
    assert_eq!(seen.unreadable, 1);
    let named = seen.first_unreadable.unwrap();
    assert!(named.chars().count() < 200, "{named}");
    assert!(named.contains('…') && named.contains("too long"), "{named}");
    assert!(std::process::Command::new("rm").arg("-rf").arg(tree.path()).status().is_ok());
}

#[test]
fn mounts_are_not_crossed() {
    if !rustix::process::geteuid().is_root() {
        crate::common::left_out::leave_out("mounting needs root");
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    let (source, target) = (tree.path().join("source"), tree.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(source.join("file"), [0; 9000]).unwrap();
    let before = scan(&[tree.path()]);
    assert_eq!(before.files, 3);
    let mount = |arguments: &[&str], points: &[&Path]| {
        let ran = std::process::Command::new("mount").args(arguments).args(points).status();
        assert!(ran.unwrap().success());
    };
    let unmount = || {
        assert!(std::process::Command::new("umount").arg(&target).status().unwrap().success());
    };
    // A bind mount has the same device number: the attribute tells it.
    mount(&["--bind"], &[&source, &target]);
    let bound = scan(&[tree.path()]);
    unmount();
    mount(&["-t", "tmpfs", "none"], &[&target]);
    fs::write(target.join("inside"), [0; 9000]).unwrap();
    let other = scan(&[tree.path()]);
    let own_root = scan(&[tree.path(), &target]);
    unmount();
    assert_eq!(bound.files, 2, "the mount point itself belongs to the other mount");
    assert_eq!(other.files, 2);
    assert_eq!(own_root.files, 3);
}

#[test]
fn an_unreadable_directory_is_named() {
    let tree = tempfile::tempdir().unwrap();
    let closed = tree.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("file"), b"x").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = tree.path().to_owned();
    // Root reads everything: look with another thread's file system rights.
    let seen = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            // SAFETY: plain numbers; the raw calls change this thread only, which ends at once.
            unsafe {
                libc::syscall(libc::SYS_setresgid, 65534, 65534, 65534);
                libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534);
            }
        }
        scan_once(&[root]).unwrap()
    })
    .join()
    .unwrap();
    assert_eq!((seen.files, seen.unreadable), (1, 1));
    assert!(seen.first_unreadable.unwrap().contains("closed: Permission denied"));
}

#[test]
fn a_missing_directory_is_an_error_that_names_it() {
    let error = scan_once(&[PathBuf::from("/no/such/place")]).unwrap_err().to_string();
    assert!(error.contains("/no/such/place") && error.contains("No such file"), "{error}");
    assert!(scan_once(&[PathBuf::from("/etc/passwd")]).is_err());
}

#[test]
fn the_peak_outlives_the_files() {
    let tree = tempfile::tempdir().unwrap();
    let scanner =
        FootprintScanner::start(&[tree.path().to_owned()], &[], ScanRate::Relaxed).unwrap();
    crate::common::wait_until("there is a scan", || scanner.peak().is_some());
    fs::write(tree.path().join("file"), vec![1; 1_000_003]).unwrap();
    let space = allocated(&tree.path().join("file"));
    crate::common::wait_until("the file is seen", || scanner.peak().unwrap().bytes == space);
    fs::remove_file(tree.path().join("file")).unwrap();
    let report = scanner.finish(Duration::from_secs(5));
    let (peak, latest) = (report.peak.unwrap(), report.latest.unwrap());
    assert!(report.is_final);
    assert_eq!((peak.bytes, peak.files), (space, 1));
    assert_eq!((latest.scan.bytes, latest.scan.files), (0, 0));
    assert!(peak.scans >= 3);
    assert_eq!(report.status.status, CollectorState::Active);
}

#[test]
fn what_is_excluded_is_left_out_whatever_it_is_called() {
    let tree = tempfile::tempdir().unwrap();
    let (own, file) = (tree.path().join("own"), tree.path().join("own-file"));
    fs::create_dir(&own).unwrap();
    fs::write(own.join("inside"), vec![1; 100_000]).unwrap();
    fs::write(&file, vec![1; 100_000]).unwrap();
    fs::write(tree.path().join("theirs"), vec![1; 5000]).unwrap();
    let identity = |path: &Path| FileIdentity::of(&fs::metadata(path).unwrap());
    let excluded = [identity(&own), identity(&file)];
    fs::rename(&own, tree.path().join("renamed")).unwrap();
    let roots = [tree.path().to_owned(), tree.path().join("renamed")];
    let scanner = FootprintScanner::start(&roots, &excluded, ScanRate::Limited).unwrap();
    scanner.begin(Duration::from_secs(10));
    let report = scanner.finish(Duration::from_secs(10));
    let scan = report.latest.unwrap().scan;
    assert_eq!((scan.bytes, scan.files), (allocated(&tree.path().join("theirs")), 1));
}

#[test]
fn growth_is_beyond_what_was_there_before() {
    let tree = tempfile::tempdir().unwrap();
    let (old, new) = (tree.path().join("old"), tree.path().join("new"));
    fs::write(&old, vec![1; 3_000_000]).unwrap();
    let roots = [tree.path().to_owned()];
    let scanner = FootprintScanner::start(&roots, &[], ScanRate::Relaxed).unwrap();
    scanner.begin(Duration::from_secs(10));
    let before = scanner.baseline().unwrap();
    assert!(before.is_before && before.bytes == allocated(&old), "{before:?}");
    fs::write(&new, vec![1; 1_000_003]).unwrap();
    let space = allocated(&new);
    crate::common::wait_until("the file is seen", || scanner.peak().unwrap().growth == space);
    fs::remove_file(&old).unwrap();
    fs::remove_file(&new).unwrap();
    let report = scanner.finish(Duration::from_secs(5));
    let peak = report.peak.unwrap();
    assert_eq!((peak.growth, peak.bytes), (space, before.bytes + space));
    assert!(!peak.apart.is_zero() && report.baseline == Some(before));
}

/// Where the first scan is not over when the command begins.
#[test]
fn what_is_younger_than_the_scanner_was_not_there_before() {
    let tree = tempfile::tempdir().unwrap();
    for n in 0..30_000 {
        fs::File::create(tree.path().join(n.to_string())).unwrap();
    }
    let new = tree.path().join("new");
    let mut attempts = 0;
    loop {
        let roots = [tree.path().to_owned()];
        let scanner = FootprintScanner::start(&roots, &[], ScanRate::Relaxed).unwrap();
        // Times of files are those of the last tick of the clock.
        std::thread::sleep(Duration::from_millis(10));
        fs::write(&new, vec![1; 1_000_003]).unwrap();
        scanner.begin(Duration::ZERO);
        let space = allocated(&new);
        crate::common::wait_until("there is a scan", || scanner.baseline().is_some());
        let before = scanner.baseline().unwrap();
        let peak = scanner.finish(Duration::from_secs(10)).peak.unwrap();
        fs::remove_file(&new).unwrap();
        attempts += 1;
        if !before.is_before {
            assert!(peak.growth >= space, "{peak:?}, {before:?}");
            return;
        }
        assert!(attempts < 20, "the scan was over each time");
    }
}

/// Threads of the usual priority that leave no CPU idle, until it is dropped.
struct BusyMachine(Arc<AtomicBool>);

impl BusyMachine {
    fn new() -> BusyMachine {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..2 * std::thread::available_parallelism().map_or(2, |count| count.get()) {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || while !is_over.load(Ordering::Relaxed) {});
        }
        BusyMachine(is_over)
    }
}

impl Drop for BusyMachine {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The scanner has the lowest priority: it may not come to run in the time that a last scan takes.
#[test]
fn a_small_folder_is_scanned_after_the_end_on_a_busy_machine() {
    let _busy = BusyMachine::new();
    let mut finals = 0;
    for _ in 0..10 {
        let tree = tempfile::tempdir().unwrap();
        let roots = [tree.path().to_owned()];
        let scanner = FootprintScanner::start(&roots, &[], ScanRate::Relaxed).unwrap();
        scanner.begin(Duration::from_millis(5));
        crate::common::wait_until("the scanner has the lowest priority", || {
            scanner.peak().is_some_and(|peak| peak.scans > 1)
        });
        fs::write(tree.path().join("last"), vec![1; 1_000_003]).unwrap();
        let space = allocated(&tree.path().join("last"));
        let report = scanner.finish(Duration::from_millis(10));
        finals += u32::from(report.is_final && report.peak.unwrap().bytes == space);
    }
    assert!(finals >= 9, "{finals} of 10");
}

/// 20,000 files take more than what is left.
#[test]
fn a_scan_that_will_not_end_in_time_is_not_waited_for() {
    let (flat, deep) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in 0..100 {
        fs::create_dir(deep.path().join(folder.to_string())).unwrap();
        for n in 0..200 {
            fs::File::create(flat.path().join(format!("{folder}-{n}"))).unwrap();
            fs::File::create(deep.path().join(format!("{folder}/{n}"))).unwrap();
        }
    }
    for tree in [flat.path(), deep.path()] {
        let scan_takes = || {
            let begun = Instant::now();
            scan(&[tree]);
            begun.elapsed()
        };
        let took = (0..5).map(|_| scan_takes()).min().unwrap();
        let budget = took / 5;
        let waited = || {
            let roots = [tree.to_owned()];
            let scanner = FootprintScanner::start(&roots, &[], ScanRate::Relaxed).unwrap();
            std::thread::sleep(took / 2);
            let begun = Instant::now();
            let report = scanner.finish(budget);
            report.peak.is_none().then(|| begun.elapsed())
        };
        // A machine that has other work gives this thread the CPU late, but not each time.
        let is_soon = |_| waited().is_some_and(|waited| waited < budget * 2 / 3);
        assert!((0..200).any(is_soon), "it was waited for each time, up to {budget:?}");
    }
}

/// The first look is not half a second late.
#[test]
fn a_file_that_is_there_for_a_moment_is_seen() {
    let tree = tempfile::tempdir().unwrap();
    let mut attempts = 0;
    loop {
        let roots = [tree.path().to_owned()];
        let scanner = FootprintScanner::start(&roots, &[], ScanRate::Limited).unwrap();
        scanner.begin(Duration::from_secs(10));
        let file = fs::File::create(tree.path().join("file")).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 50_000_000).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        fs::remove_file(tree.path().join("file")).unwrap();
        drop(file);
        attempts += 1;
        if scanner.finish(Duration::from_secs(5)).peak.unwrap().growth >= 50_000_000 {
            return;
        }
        assert!(attempts < 20, "20 times it was not seen");
    }
}

#[test]
fn files_that_come_and_go_meanwhile_do_no_harm() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().to_owned();
    let busy = std::thread::spawn(move || {
        for round in 0..200 {
            let folder = root.join(format!("f{}", round % 3));
            let _ = fs::create_dir(&folder);
            for n in 0..20 {
                fs::write(folder.join(n.to_string()), b"x").unwrap();
            }
            fs::remove_dir_all(&folder).unwrap();
        }
    });
    while !busy.is_finished() {
        let seen = scan(&[tree.path()]);
        assert_eq!(seen.unreadable, 0, "{:?}", seen.first_unreadable);
        assert!(seen.files <= 63);
    }
    busy.join().unwrap();
    assert_eq!(scan(&[tree.path()]), Scan::default());
}

#[test]
fn a_large_tree_keeps_nobody_waiting() {
    let tree = tempfile::tempdir().unwrap();
    for folder in 0..100 {
        let folder = tree.path().join(folder.to_string());
        fs::create_dir(&folder).unwrap();
        for n in 0..1000 {
            fs::File::create(folder.join(n.to_string())).unwrap();
        }
    }
    let begun = Instant::now();
    assert_eq!(scan(&[tree.path()]).files, 100_100);
    println!("1e5 files: {:?}", begun.elapsed());
    let scanner =
        FootprintScanner::start(&[tree.path().to_owned()], &[], ScanRate::Relaxed).unwrap();
    std::thread::sleep(Duration::from_millis(10));
    let begun = Instant::now();
    let report = scanner.finish(Duration::from_millis(2));
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    assert!(report.peak.is_none() && !report.is_final);
    assert_eq!(report.status.status, CollectorState::Unavailable);

    let scanner =
        FootprintScanner::start(&[tree.path().to_owned()], &[], ScanRate::Relaxed).unwrap();
    crate::common::wait_until("there is a scan", || scanner.peak().is_some());
    let took = scanner.latest().unwrap().took;
    std::thread::sleep(took * 3);
    assert_eq!(scanner.peak().unwrap().scans, 1, "the pause is 100 times the scan");
    let report = scanner.finish(Duration::from_micros(1));
    assert!(!report.is_final);
    assert_eq!(report.status.status, CollectorState::Degraded);
    assert!(report.status.reason.unwrap().contains("before the end"));
}
