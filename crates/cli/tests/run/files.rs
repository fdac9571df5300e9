//! Files: which were opened, what reached storage, what the watched directories held.

use std::collections::BTreeMap;

use crate::support::measured::Measured;
use crate::support::run::{Scratch, Weigh};
use crate::support::workload;
use weigh_schema::{Mechanism, Quality};

/// Runs `open`, which opens each of `count` files once.
#[track_caller]
fn opens(program: &str, count: u32, options: &str) -> Measured {
    Weigh::workload(&format!("{program} {count} opened-")).options(options).measure()
}

#[test]
fn opened_files() {
    needs_root!();
    for program in ["open", "open-static"] {
        let measured = opens(program, 23, "--files");
        let mut times = BTreeMap::new();
        for row in measured.files() {
            *times.entry(row.name.clone()).or_insert(0) += row.opens();
        }
        let folder = measured.scratch.path("work");
        for i in 0..23 {
            let path = folder.join(format!("opened-{i}")).display().to_string();
            measured.check(times.get(&path) == Some(&1), || {
                format!("{path} was opened {:?} times, expected once: {times:#?}", times.get(&path))
            });
        }
        let all: u64 = times.values().sum();
        measured.is("files_opened_total", all);
        let baseline = opens(program, 0, "--files");
        let beyond = all as f64 - baseline.number("files_opened_total");
        measured.check(beyond == 23.0, || format!("23 opens were counted as {beyond}"));
        let none = times.keys().filter(|path| path.contains("absent") || path.contains("missing"));
        assert_eq!(none.count(), 0, "failed opens count");
    }
}

/// Where functions can be probed opens are counted as they are; where not, and without `--files`,
/// the number is not known.
#[test]
fn opens_are_exact_or_not_known() {
    needs_root!();
    let measured = opens("open", 23, "");
    let value = measured.value("files_opened_total");
    if value.value.is_none() {
        let reason = value.reason.clone().unwrap_or_default();
        measured.check(reason.contains("--files"), || format!("the reason is '{reason}'"));
        return;
    }
    measured.check(value.quality == Quality::Exact, || format!("{value:?}"));
    let baseline = opens("open", 0, "").number("files_opened_total");
    measured.is("files_opened_total", baseline as u64 + 23);
}

/// An ordinary user is told the one option that counts opens; it works, and is never taken unasked.
#[test]
fn without_privileges_one_option_counts_opens() {
    const ORDINARY: u32 = 65_534;
    let opens = |count: u32, options: &str| {
        let run = Weigh::workload(&format!("open {count} opened-")).options(options);
        run.run_by(ORDINARY).measure()
    };
    let plain = opens(23, "");
    let value = plain.value("files_opened_total");
    if plain.value("processes_total").source != Mechanism::Ptrace {
        return crate::support::leave_out(
            "an agent, or no ptrace: another mechanism follows the job",
        );
    }
    let reason = value.reason.clone().unwrap_or_default();
    plain
        .check(value.value.is_none() && reason.contains("--mechanism preload "), || reason.clone());
    plain.check(reason.matches("--").count() == 1, || format!("not one option: {reason}"));
    let counted = opens(23, "--mechanism preload").number("files_opened_total");
    let baseline = opens(0, "--mechanism preload").number("files_opened_total");
    assert_eq!(counted - baseline, 23.0);
}

/// Whether what is written there goes to storage at some time.
fn is_stored(scratch: &Scratch) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::statfs(scratch.mark()).expect("a file system").f_type as i64 != TMPFS
}

#[test]
fn bytes_that_go_to_storage() {
    needs_root!();
    let run = Weigh::workload("io write 10000003 4099 stored");
    if !is_stored(run.scratch()) {
        crate::support::leave_out("files for temporary use are in memory here");
        return;
    }
    let measured = run.measure();
    // Whole pages; the truth takes one of its own.
    measured.is_between("storage_written_bytes_total", 10_000_003.0, 10_000_003.0 + 4.0 * 4096.0);

    // Whose pages were thrown away the kernel does not say.
    let write = format!("{} write 10000003 4099 stored; rm stored", workload("io"));
    let measured = Weigh::bash(&write).measure();
    measured.is_between("storage_written_bytes_total", 10_000_003.0, 10_000_003.0 + 10.0 * 4096.0);
    let value = measured.value("storage_written_bytes_total");
    let reason = value.reason.clone().unwrap_or_default();
    measured.check(value.quality == Quality::Estimated && reason.contains("--written"), || {
        format!("{value:?}")
    });
}

/// What an earlier program has left dirty is not taken away from what a later one writes in its place.
#[test]
fn what_is_written_is_the_same_whatever_was_there() {
    needs_root!();
    if !is_stored(&Scratch::new()) {
        crate::support::leave_out("files for temporary use are in memory here");
        return;
    }
    let before = Scratch::new();
    let place = before.path("stored");
    for mechanism in ["bpf", "ptrace", "preload", "poll"] {
        for _ in 0..3 {
            // Dirty pages of somebody else, which the shell throws away.
            std::fs::write(&place, vec![7; 8_000_000]).expect("a file");
            let script = format!("head -c 4000003 /dev/zero > {}", place.display());
            let run = Weigh::bash(&script).options(&format!("--mechanism {mechanism}"));
            let measured = run.end();
            assert!(measured.status.success(), "{}", measured.everything());
            measured.is_between("storage_written_bytes_total", 4e6, 4e6 + 100e3);
        }
    }
}

#[test]
fn the_footprint_of_watched_directories() {
    needs_root!();
    // It comes all at once: a scan that took long is followed by the next only after a while.
    let hold = crate::support::patience(3.0).as_secs_f64();
    let script = format!("mv ../prepared .; sleep {hold}; rm -r prepared");
    let run = Weigh::bash(&script).options("--interval 100ms");
    let prepared = run.scratch().path("prepared");
    std::fs::create_dir(&prepared).expect("a directory");
    for i in 0..200 {
        std::fs::write(prepared.join(i.to_string()), "text").expect("a file");
    }
    std::fs::write(prepared.join("large"), vec![7; 20_000_000]).expect("a file");
    let measured = run.measure();
    measured.is_between("disk_footprint_peak_bytes", 20e6, 20e6 + 4096.0 * 250.0);
    measured.is_between("disk_files_peak", 202.0, 203.0);
    measured.check(measured.value("disk_files_peak").quality == Quality::Sampled, || {
        "what was scanned is not called sampled".to_string()
    });

    let run =
        Weigh::bash("head -c 3000000 /dev/zero > here; sleep 0.5").options("--interval 100ms");
    let watched = run.scratch().path("watched");
    std::fs::create_dir(&watched).expect("a directory");
    let measured = run.option("--watch").option(watched).measure();
    measured.is_between("disk_footprint_peak_bytes", 0.0, 100e3);

    let measured = Weigh::bash("true").options("--watch /no/such").measure();
    measured.said("--watch: cannot watch /no/such: No such file or directory");
}

/// A job is not ended, nor anything counted, for what weigh writes beside it.
#[test]
fn the_recording_is_no_part_of_the_footprint() {
    needs_root!();
    for mechanism in ["bpf", "preload"] {
        let run =
            Weigh::bash("i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; sleep 0.1");
        let work = run.scratch().path("work");
        let recording = work.join("recording");
        std::fs::create_dir_all(work.join("tmp")).expect("a directory");
        let tmp = work.join("tmp");
        let mut running = run
            .options(&format!("--mechanism {mechanism} --interval 10ms -o"))
            .option(&recording)
            .option("--json")
            .option(work.join("summary.json"))
            .options("--limit disk_footprint_peak_bytes=20kB")
            .env("TMPDIR", &tmp)
            .start();
        let status = running.child.wait().expect("our child");
        let text = std::fs::read_to_string(work.join("summary.json")).expect("a summary");
        assert_eq!(status.code(), Some(0), "{text}");
        let summary: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let metrics = &summary["metrics"];
        // `tmp`, which was there before.
        let own = std::fs::metadata(&tmp).map(|m| std::os::unix::fs::MetadataExt::blocks(&m) * 512);
        let footprint = metrics["disk_footprint_peak_bytes"]["value"].as_u64();
        assert_eq!(footprint, own.ok(), "{}", metrics["disk_footprint_peak_bytes"]);
        assert_eq!(metrics["disk_growth_peak_bytes"]["value"], 0);
        assert_eq!(metrics["disk_files_peak"]["value"], 1);
    }
}

#[test]
fn growth_is_what_comes_on_top_of_what_was_there() {
    needs_root!();
    let run = Weigh::bash("head -c 1000003 /dev/zero > new");
    let work = run.scratch().path("work");
    std::fs::create_dir_all(&work).expect("a directory");
    std::fs::write(work.join("old"), vec![7; 40 << 20]).expect("a file");
    let measured = run.options("--details").measure();
    measured.is_between("disk_growth_peak_bytes", 1_000_003.0, 1_100_000.0);
    measured.is_between("disk_footprint_peak_bytes", f64::from(40 << 20), 44e6);
    let reason = measured.value("disk_footprint_peak_bytes").reason.clone().unwrap_or_default();
    measured.check(reason.contains("bytes of it were there before"), || reason.clone());
    measured.said("disk_growth_peak_bytes");
}

/// Whether files keep their space there until a call frees it.
fn is_freed_by_calls(scratch: &Scratch) -> bool {
    const EXT4: i64 = 0xef53;
    let system = rustix::fs::statfs(scratch.mark()).expect("a file system");
    !is_stored(scratch) || system.f_type as i64 == EXT4
}

/// The space of all files and folders in a folder, by a look of the test's own.
fn space_below(folder: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let space = |entry: std::fs::DirEntry| {
        let metadata = entry.metadata().expect("a file");
        let below = if metadata.is_dir() { space_below(&entry.path()) } else { 0 };
        metadata.blocks() * 512 + below
    };
    entries.map(space).sum()
}

/// Whether the growth by a script is told as exact: then it is what it is. Else why not.
fn is_exact_growth(mechanism: &str, script: &str, others: &mut Vec<String>) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let run = Weigh::bash(script);
    let work = run.scratch().path("work");
    std::fs::create_dir_all(&work).expect("a directory");
    std::fs::write(work.join("old"), vec![7; 40 << 20]).expect("a file");
    let before = space_below(&work);
    let measured = run.options(&format!("--mechanism {mechanism} --io")).end();
    let value = measured.value("disk_growth_peak_bytes");
    if value.quality != Quality::Exact {
        others.push(value.reason.clone().unwrap_or_default());
        return false;
    }
    // Hard links are counted once.
    let new = std::fs::metadata(work.join("new")).expect("a file").blocks() * 512;
    measured.is("disk_growth_peak_bytes", space_below(&work) - new - before);
    true
}

/// Where all calls of the job are seen and none can free space, the last scan is the greatest.
#[test]
fn growth_is_exact_where_nothing_can_have_been_freed() {
    needs_root!();
    if !is_freed_by_calls(&Scratch::new()) {
        crate::support::leave_out("this file system frees space by itself");
        return;
    }
    let script = "head -c 1000003 /dev/zero > new; head -c 5000 /dev/zero >> old; mkdir d; \
                  fallocate -l 300000 d/room; truncate -s 1G d/sparse; ln new d/again; cat new > /dev/null";
    for mechanism in ["bpf", "ptrace"] {
        // Beside other load the scans before and after the job may come late: then it is not exact.
        let mut others = Vec::new();
        while !is_exact_growth(mechanism, script, &mut others) {
            assert!(others.len() < 20, "{mechanism}: {others:?}");
        }
    }
    // Nobody has looked at the calls.
    let measured = Weigh::bash("head -c 1000003 /dev/zero > new").end();
    let value = measured.value("disk_growth_peak_bytes");
    let reason = value.reason.clone().unwrap_or_default();
    measured.check(value.quality == Quality::Estimated && reason.contains("at least"), || {
        reason.clone()
    });
}

/// A run of a script that does something to files; one that was looked at.
fn freed_by(mechanism: &str, script: &str) -> Measured {
    // Beside other load the first scan may come too late.
    for _ in 0..20 {
        let run = Weigh::bash(script);
        let work = run.scratch().path("work");
        std::fs::create_dir_all(work.join("empty")).expect("a directory");
        std::fs::write(work.join("old"), vec![7; 100_000]).expect("a file");
        let measured = run.options(&format!("--mechanism {mechanism} --io")).end();
        if measured.value("disk_growth_peak_bytes").value.is_some() {
            return measured;
        }
    }
    panic!("no scan of twenty came in time");
}

/// Each of these may free space between two scans, wherever the file is.
#[test]
fn growth_is_estimated_where_space_may_have_been_freed() {
    needs_root!();
    let freeing = [
        "rm old",
        ": > old",
        "truncate -s 5 old",
        "mv old other",
        "fallocate --punch-hole -l 8192 old",
        "rmdir empty",
    ];
    for mechanism in ["bpf", "ptrace"] {
        for script in freeing {
            let measured = freed_by(mechanism, script);
            let value = measured.value("disk_growth_peak_bytes");
            let reason = value.reason.clone().unwrap_or_default();
            let is_told = reason.contains("calls may have freed space");
            measured.check(value.quality == Quality::Estimated && is_told, || {
                format!("{mechanism}, {script}: {value:?}")
            });
        }
    }
}

/// Before the first half second is over.
#[test]
fn a_file_that_is_there_for_a_moment_is_seen() {
    needs_root!();
    let script = "fallocate -l 50000000 f && sleep 0.05; rm f";
    for mechanism in ["bpf", "ptrace", "preload", "poll"] {
        // Beside other load no look is certain to come in time.
        let mut others = Vec::new();
        loop {
            let run = Weigh::bash(script).options(&format!("--mechanism {mechanism}"));
            let measured = run.end();
            let seen = measured.number("disk_growth_peak_bytes");
            if (50e6..51e6).contains(&seen) {
                break;
            }
            others.push(seen);
            assert!(others.len() < 20, "{mechanism}: {others:?}\n{}", measured.everything());
        }
    }
}
