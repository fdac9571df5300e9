//! What devices read and wrote of a job's files, against what the job had them do: to the page.
//!
//! A kernel may run no program at an interrupt that comes while another one runs, or on behalf of a thread it
//! keeps for itself: then a request is not seen. That is rare, and never too much.

use crate::support::run::{Scratch, Weigh, weigh};
use crate::support::workload;
use serde_json::Value;
use weigh_keep::Recording;

const BYTES: u64 = 1_000_003;
const PAGE: u64 = 4096;
/// Whole pages that the bytes lie in.
const PAGES: u64 = 245 * PAGE;

/// Whether what is written there goes to a device.
fn has_device(scratch: &Scratch) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let magic = rustix::fs::statfs(scratch.mark()).expect("a file system").f_type;
    if magic == TMPFS {
        crate::support::leave_out("the tests' folder is in memory");
    }
    magic != TMPFS
}

/// Follows a script in the working folder.
#[track_caller]
fn io(scratch: &Scratch, script: &str) -> Value {
    let json = scratch.path("io.json").display().to_string();
    let output = weigh(scratch, &["io", "-q", "--json", &json, "--", "sh", "-ec", script]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(&scratch.text("io.json")).expect("a report")
}

/// A number of the files whose names end so, all processes together.
fn number(report: &Value, end: &str, key: &str) -> u64 {
    let files = report["files"].as_array().expect("files").iter();
    let those = files.filter(|row| row["name"].as_str().is_some_and(|name| name.ends_with(end)));
    those.map(|row| row["numbers"][key].as_u64().unwrap_or(0)).sum()
}

/// How a file's name ends, a key, and its number.
type Expected<'a> = (&'a str, &'a str, u64);

/// Three times at most, until the numbers of a file are as expected; none is ever greater.
#[track_caller]
fn until_seen(script: &str, expected: &[Expected]) -> Value {
    for attempt in 1..=3 {
        let scratch = Scratch::new();
        let report = io(&scratch, script);
        let seen: Vec<u64> =
            expected.iter().map(|(end, key, _)| number(&report, end, key)).collect();
        for ((end, key, most), seen) in expected.iter().zip(&seen) {
            assert!(seen <= most, "{script}: {key} of {end} is {seen}, and not {most}");
        }
        if expected.iter().zip(&seen).all(|((_, _, expected), seen)| expected == seen) {
            return report;
        }
        println!("attempt {attempt}: {script}: {seen:?} for {expected:?}");
    }
    panic!("three times in a row not {expected:?}: {script}");
}

#[test]
fn what_is_written_has_who_had_it_written() {
    needs_root!();
    if !has_device(&Scratch::new()) {
        return;
    }
    // By fsync, by another program's fsync, by all that is dirty being written; and one that is gone before.
    let script = format!(
        "head -c {BYTES} /dev/zero | dd of=own bs=4099 conv=fsync status=none; \
         head -c {BYTES} /dev/zero >other; sync other; \
         head -c {BYTES} /dev/zero >gone; rm gone; \
         head -c {BYTES} /dev/zero >kernel; sync"
    );
    let hands = ["own", "kernel", "other"];
    let keys = ["written_by_itself_bytes", "written_by_kernel_bytes", "written_by_others_bytes"];
    let expected: Vec<(String, &str, u64)> = ["own", "kernel", "other", "gone"]
        .into_iter()
        .flat_map(|file| {
            let by = hands.into_iter().zip(keys);
            let by = by.map(move |(hand, key)| (file, key, if hand == file { PAGES } else { 0 }));
            let all = if file == "gone" { 0 } else { PAGES };
            by.chain([(file, "device_written_bytes", all), (file, "device_read_bytes", 0)])
        })
        .map(|(file, key, bytes)| (format!("/work/{file}"), key, bytes))
        .collect();
    let expected: Vec<Expected> =
        expected.iter().map(|(file, key, bytes)| (file.as_str(), *key, *bytes)).collect();
    let report = until_seen(&script, &expected);
    let mut files = report["files"].as_array().expect("files").iter();
    let is_it = |row: &&Value| {
        let is_named = row["name"].as_str().is_some_and(|name| name.ends_with("/work/own"));
        is_named && row["numbers"].get("device_written_bytes").is_some()
    };
    let row = files.find(is_it).expect("a row");
    let time = |key: &str| row["numbers"][key].as_f64().expect("a time");
    // It is on the device by the end of the fsync, and takes some time.
    assert!(time("written_first_seconds") <= time("written_last_seconds"), "{row:?}");
    assert!(time("written_last_seconds") <= time("last_seconds"), "{row:?}");
    assert!(time("device_write_seconds") > 0.0, "{row:?}");
}

/// The first that a job does. A folio of many pages becomes dirty as one, with interrupts off: all of them find room,
/// by calls and by stores, of one process and of several at once.
#[test]
fn large_folios_are_all_seen() {
    needs_root!();
    if !has_device(&Scratch::new()) {
        return;
    }
    let store = format!("TRUTH_FILE=/dev/null {} store", workload("blocks"));
    let file = |n: u32| {
        format!(
            "env dd if=/dev/zero of=file{n} bs=1000003 count=9 conv=fsync status=none; \
             {store} file{n} 9000027 4093 1; sync file{n}"
        )
    };
    let each = 9_000_027_u64.div_ceil(PAGE) * PAGE;
    let expect = |files: &[&'static str]| -> Vec<Expected<'static>> {
        files.iter().map(|file| (*file, "device_written_bytes", 2 * each)).collect()
    };
    let no_loss = |report: &Value| {
        assert!(!report.to_string().contains("found no room"), "{report}");
    };
    no_loss(&until_seen(&file(1), &expect(&["/work/file1"])));
    let all: String = (1..=3).map(|n| format!("({}) & ", file(n))).collect();
    let names = ["/work/file1", "/work/file2", "/work/file3"];
    no_loss(&until_seen(&format!("{all} wait"), &expect(&names)));
}

#[test]
fn what_goes_past_the_page_cache_is_of_its_file() {
    needs_root!();
    if !has_device(&Scratch::new()) {
        return;
    }
    let script = "dd if=/dev/zero of=target bs=8192 count=37 oflag=direct status=none; \
                  dd if=target of=/dev/null bs=4096 iflag=direct status=none";
    let expected = [
        ("/work/target", "device_written_bytes", 37 * 8192),
        ("/work/target", "written_by_itself_bytes", 37 * 8192),
        ("/work/target", "device_read_bytes", 37 * 8192),
        ("/work/target", "cached_reads_total", 0),
    ];
    until_seen(script, &expected);
}

/// A file that the page cache has nothing of, read twice, and again by mapped memory. The second witness is
/// what the kernel has counted of the process itself.
#[test]
fn reads_are_held_against_the_device() {
    needs_root!();
    if !has_device(&Scratch::new()) {
        return;
    }
    // By its path: a shell that is busybox would take its own, which knows no `nocache`.
    let cold = format!(
        "head -c {BYTES} /dev/zero >source; sync source; /bin/dd of=source oflag=nocache conv=notrunc,fdatasync count=0 status=none"
    );
    let (witness, program) = (workload("witness"), workload("io"));
    // All of the program itself is in the page cache by the time when it matters.
    let warm =
        format!("head -c 4096 /dev/zero >warm; {witness} {program} read 4096 4096 warm >warmed");
    let read = format!("{witness} {program} read {BYTES} {PAGE} source");
    let script = format!("{warm}; {cold}; {read} >first; {read} >second");
    for attempt in 1..=3 {
        let scratch = Scratch::new();
        let report = io(&scratch, &script);
        let counted = |name: &str| -> u64 {
            let text = scratch.text(&format!("work/{name}"));
            let line = text.lines().find_map(|line| line.strip_prefix("read_bytes="));
            line.and_then(|number| number.parse().ok()).expect("the kernel's number")
        };
        let device = number(&report, "/work/source", "device_read_bytes");
        let cached = number(&report, "/work/source", "cached_reads_total");
        assert!(device <= PAGES, "{device}");
        // The first time some reads find what was read ahead; the second time all of them do.
        let calls = BYTES.div_ceil(PAGE);
        assert!((calls..2 * calls).contains(&cached), "{cached} of {calls}");
        if device == PAGES {
            assert_eq!((counted("first"), counted("second")), (device, 0));
            return;
        }
        println!("attempt {attempt}: {device} of {PAGES}");
    }
    panic!("three times in a row not {PAGES} bytes from the device");
}

/// In a recording: what `--written` has by its own accounts is the same number, and over time it adds up.
#[test]
fn a_recording_has_one_number_for_what_was_written() {
    needs_root!();
    if !has_device(&Scratch::new()) {
        return;
    }
    let script = format!(
        "head -c {BYTES} /dev/zero >one; {store} store two 300; sync one two; \
         dd if=/dev/zero of=three bs=4096 count=23 oflag=direct status=none",
        store = workload("access"),
    );
    let options = ["--io", "--written", "--interval=100ms"];
    for attempt in 1..=3 {
        let run = options.iter().fold(Weigh::bash(&script), |run, option| run.option(option));
        let measured = run.measure();
        let found = measured.summary().io.as_deref().expect("a section of its own");
        let by_file = found.totals.numbers["device_written_bytes"].as_f64() as u64;
        let by_calls = measured.number("storage_written_bytes_total") as u64;
        let recording = Recording::open(&measured.scratch.path("recording")).expect("it is there");
        let mut over_time = 0;
        let add =
            |row: weigh_schema::io::Moment| over_time += row.device_written_bytes.unwrap_or(0);
        recording.each_io_moment(add).expect("rows");
        assert_eq!(over_time, by_file);
        assert!(by_file >= PAGES + 23 * PAGE || attempt < 3, "{by_file}");
        if by_file == by_calls {
            return;
        }
        println!("attempt {attempt}: {by_file} by file, {by_calls} by --written");
    }
    panic!("three times in a row two numbers");
}
