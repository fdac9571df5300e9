//! Unions of pages of real processes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weigh_collect::pages::{Method, PageCount, PageCounter};

/// `holder KIND MB CHILDREN`: has memory of a kind, shared with so many children, and waits.
const HOLDER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv) {
    size_t size = atol(argv[2]) << 20;
    int flags = strcmp(argv[1], "shared") ? MAP_PRIVATE : MAP_SHARED, fd = -1, prot = PROT_READ;
    if (!strcmp(argv[1], "file")) fd = open(argv[4], O_RDONLY);
    else { flags |= MAP_ANONYMOUS; prot |= PROT_WRITE; }
    char *p = mmap(0, size, prot, flags | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) return 1;
    if (!strcmp(argv[1], "huge")) madvise(p, size, MADV_HUGEPAGE);
    else if (strcmp(argv[1], "zerohuge")) madvise(p, size, MADV_NOHUGEPAGE);
    else madvise(p, size, MADV_HUGEPAGE);
    if (!strncmp(argv[1], "zero", 4) || fd >= 0)
        for (size_t i = 0; i < size; i += 4096) (void)*(volatile char *)(p + i);
    else if (strcmp(argv[1], "reserve")) memset(p, 7, size);
    for (int i = atoi(argv[3]); i; i--)
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (size_t j = 0; strcmp(argv[1], "reserve") && j < size; j += 4096)
                (void)*(volatile char *)(p + j);
            printf("%d\n", getpid());
            fflush(stdout);
            for (;;) pause();
        }
    printf("%d\n", getpid());
    fflush(stdout);
    for (;;) pause();
}
"#;

struct Holder {
    _child: crate::common::Reaper,
    pids: Vec<u32>,
}

fn compiled(folder: &Path) -> PathBuf {
    crate::common::compile(folder, "holder", HOLDER, &["-static"])
}

fn hold(program: &Path, kind: &str, megabytes: u64, children: usize, file: &Path) -> Holder {
    let mut child: Child = Command::new(program)
        .args([kind, &megabytes.to_string(), &children.to_string()])
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pids = lines.take(children + 1).map(|l| l.unwrap().parse().unwrap()).collect();
    Holder { _child: crate::common::Reaper(child), pids }
}

fn count(pids: &[u32]) -> Option<PageCount> {
    let count = PageCounter::new().count(pids).unwrap();
    if count.method == Method::Proportional {
        crate::common::left_out::leave_out(&format!("{:?}", count.reason));
        return None;
    }
    println!("{count:?}");
    Some(count)
}

/// At least so many megabytes, and no more above them than the programs themselves need.
fn assert_near(bytes: u64, megabytes: u64, processes: u64) {
    let (bytes, megabytes) = (bytes as f64, (megabytes << 20) as f64);
    let own = (processes << 20) as f64;
    assert!(bytes >= megabytes && bytes <= megabytes + own, "{bytes} against {megabytes}");
}

#[test]
fn shared_pages_count_once_whatever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path());
    let file = folder.path().join("file");
    std::fs::write(&file, vec![1; 50 << 20]).unwrap();
    for kind in ["private", "shared", "file", "huge"] {
        let holder = hold(&program, kind, 50, 4, &file);
        let Some(count) = count(&holder.pids) else { return };
        assert_near(count.union_bytes, 50, 5);
        assert_near(count.rss_sum_bytes, 250, 5);
        assert_eq!((count.processes, count.vanished), (5, 0));
    }
}

#[test]
fn separate_pages_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path());
    let (a, b) = (
        hold(&program, "private", 30, 0, Path::new("")),
        hold(&program, "huge", 30, 0, Path::new("")),
    );
    let Some(both) = count(&[a.pids[0], b.pids[0], u32::MAX - 1]) else { return };
    assert_near(both.union_bytes, 60, 2);
    assert_eq!((both.processes, both.vanished), (2, 1));
}

#[test]
fn the_zero_page_and_reserved_addresses_are_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path());
    for (kind, megabytes) in [("zero", 64), ("zerohuge", 64), ("reserve", 30 << 20)] {
        let holder = hold(&program, kind, megabytes, 0, Path::new(""));
        let Some(count) = count(&holder.pids) else { return };
        assert_near(count.union_bytes, 0, 1);
        assert_near(count.rss_sum_bytes, 0, 1);
        assert!(count.took.as_millis() < 1000, "{:?}", count.took);
    }
}

#[test]
fn the_sum_is_the_kernel_s_own() {
    let folder = tempfile::tempdir().unwrap();
    let holder = hold(&compiled(folder.path()), "private", 10, 0, Path::new(""));
    let Some(count) = count(&holder.pids) else { return };
    let text = weigh_collect::procfs::read_of(holder.pids[0], "smaps_rollup").unwrap();
    let (rss, _) = weigh_collect::procfs::parse_smaps_rollup(&text).unwrap();
    assert_eq!(count.rss_sum_bytes, rss);
}

#[test]
fn without_the_right_the_proportional_shares_take_their_place() {
    let without = std::thread::spawn(|| {
        // This thread only, which ends at once.
        let none = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).unwrap();
        PageCounter::new().count(&[std::process::id()])
    });
    let count = without.join().unwrap().unwrap();
    assert_eq!(count.method, Method::Proportional);
    assert!(count.union_bytes > 0 && count.union_bytes <= count.rss_sum_bytes);
    assert!(count.reason.unwrap().contains("CAP_SYS_ADMIN"));
}

#[test]
#[ignore = "a measurement"]
fn how_long_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path());
    for kind in ["private", "huge"] {
        let shared = hold(&program, kind, 500, 4, Path::new(""));
        let mut counter = PageCounter::new();
        for _ in 0..5 {
            println!("5 sharing 500 MB, {kind}: {:?}", counter.count(&shared.pids).unwrap());
        }
        drop(shared);
        let a = hold(&program, kind, 300, 0, Path::new(""));
        let b = hold(&program, kind, 300, 0, Path::new(""));
        for _ in 0..5 {
            println!("2 x 300 MB, {kind}: {:?}", counter.count(&[a.pids[0], b.pids[0]]).unwrap());
        }
    }
}
