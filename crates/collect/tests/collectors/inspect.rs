//! A close look at a real process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use weigh_collect::inspect::{inspect, symbolize};
use weigh_schema::base64;

const PROGRAM: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((noinline)) void the_culprit(void) { for (;;) pause(); }
static void *thread(void *p) {
    prctl(PR_SET_NAME, "odd) name");
    printf("%ld %p %p %p\n", syscall(SYS_gettid), (char *)the_culprit + 3, p, (void *)pause);
    fflush(stdout);
    the_culprit();
    return 0;
}
int main(void) {
    char *p = mmap(0, 30 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, 30 << 20);
    for (int i = 0; i < 60; i++) open("/dev/null", O_RDONLY);
    pthread_t t;
    pthread_create(&t, 0, thread, p);
    pthread_join(t, 0);
}
"#;

fn look(arguments: &[&str], functions: [&str; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let program = crate::common::compile(folder.path(), "culprit", PROGRAM, arguments);
    let mut child = crate::common::Reaper(
        Command::new(&program).arg("an argument").stdout(Stdio::piped()).spawn().unwrap(),
    );
    let pid = child.0.id();
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut words = line.split_whitespace();
    let tid: u32 = words.next().unwrap().parse().unwrap();
    let addresses: Vec<u64> =
        words.map(|w| u64::from_str_radix(w.trim_start_matches("0x"), 16).unwrap()).collect();
    crate::common::wait_until("it pauses", || crate::common::state(tid) == Some('S'));

    let offender = inspect(pid, tid);
    assert_eq!((offender.pid, offender.thread), (pid, tid));
    assert_eq!(offender.name, "odd) name");
    assert_eq!(offender.command, [program.to_str().unwrap(), "an argument"]);
    assert_eq!(offender.mappings[0].name, "[anonymous]");
    assert!(offender.mappings[0].rss_bytes >= 30 << 20);
    assert!(offender.mappings.len() <= 10);
    assert!(offender.mappings.is_sorted_by(|a, b| a.rss_bytes >= b.rss_bytes));
    assert_eq!(offender.open_files.len(), 51);
    assert!(offender.open_files[3..50].iter().all(|f| f.ends_with(" /dev/null")));
    assert!(offender.open_files[50].starts_with("and "));
    if rustix::process::geteuid().is_root() {
        assert!(offender.kernel_stack.iter().any(|f| f.contains("pause")), "{offender:?}");
        assert!(offender.unreadable.is_empty(), "{:?}", offender.unreadable);
    }

    let names = symbolize(pid, &[addresses[0], addresses[2], addresses[1] + 5, 16]);
    assert_eq!(names[0], format!("{}+0x3", functions[0]));
    assert!(names[1].starts_with(functions[1]), "{names:?}");
    assert!(names[2].starts_with("[anonymous]+0x"), "{names:?}");
    assert_eq!(names[3], "0x10");
}

/// Bytes that are no UTF-8 stand beside the texts.
#[test]
fn names_that_are_no_text_keep_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let named = |bytes: &[u8]| folder.path().join(OsStr::from_bytes(bytes));
    std::os::unix::fs::symlink("/bin/sh", named(b"sh\xff")).unwrap();
    let mut child = crate::common::Reaper(
        Command::new(named(b"sh\xff"))
            .args(["-c", "exec 5>\"$1\"; echo; read line", "sh"])
            .arg(named(b"a\xfe"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let offender = inspect(child.0.id(), child.0.id());
    let encoded = |path: &Path| base64::encode(path.as_os_str().as_bytes());
    assert_eq!(offender.name, "sh\u{fffd}");
    assert_eq!(offender.name_base64, Some(base64::encode(b"sh\xff")));
    assert!(offender.command[4].ends_with("/a\u{fffd}"), "{:?}", offender.command);
    assert_eq!(offender.command_base64.len(), 5);
    assert_eq!(offender.command_base64[4], encoded(&named(b"a\xfe")));
    let place = offender.open_files.iter().position(|file| file.starts_with("5 ")).unwrap();
    let target = [b"5 ", named(b"a\xfe").as_os_str().as_bytes()].concat();
    assert_eq!(offender.open_files_base64[place], base64::encode(&target));
    let plain = inspect(std::process::id(), std::process::id());
    assert!(plain.name_base64.is_none() && plain.command_base64.is_empty());
}

#[test]
fn a_dynamic_program() {
    look(&["-pthread"], ["the_culprit", "pause+"]);
}

#[test]
fn a_static_program() {
    look(&["-pthread", "-static"], ["the_culprit", ""]);
}

#[test]
fn a_stripped_program_has_modules_at_least() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        crate::common::compile(folder.path(), "stripped", PROGRAM, &["-pthread", "-s", "-no-pie"]);
    let mut child =
        crate::common::Reaper(Command::new(program).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_whitespace().nth(1).unwrap().trim_start_matches("0x");
    let address = u64::from_str_radix(address, 16).unwrap();
    let names = symbolize(child.0.id(), &[address]);
    assert_eq!(names, [format!("stripped+{address:#x}")], "not position independent: as linked");
}
