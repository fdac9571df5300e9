//! The fuzzer's targets with their seeds and changes of them, always the same: without coverage, so that they share
//! the workspace's build. `make fuzz` goes by coverage, with AddressSanitizer.
//!
//! `WEIGH_REPLAY=FILE` tries one input, as it lies in `fuzz/artifacts`, in the target whose test is run.

#![allow(clippy::unwrap_used)]

mod changes;

use std::path::{Path, PathBuf};
use std::time::Duration;

use changes::Changes;
use rustix::time::{ClockId, clock_gettime};

/// So many changed inputs a target, unless they take more CPU time.
const INPUTS: usize = 4000;
const LEAST_INPUTS: usize = 100;
const LONGEST: Duration = Duration::from_secs(2);
/// The main thread's, in which parsers run.
const STACK_BYTES: usize = 8 << 20;

macro_rules! targets {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*
    };
}

targets! {
    amounts client_message configuration control_groups executables fanotify_records journal_line kernel_events
    kernel_image kernel_symbols limit limits_file metric_name mount_requests node_files otlp_json otlp_metrics otlp_spans
    parquet_file proc_machine proc_maps proc_process profile recording rules_file session_messages snapshots statsd_lines
    stream_conversation summary trace_conversation trace_event trace_filter trace_note trace_types
}

#[test]
fn every_target_is_tested_and_has_seeds() {
    let targets: Vec<&str> = weigh_fuzz::names().collect();
    assert_eq!(TESTED, targets);
    assert!(targets.iter().all(|name| !seeds(name).is_empty()));
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = fuzz().join("seeds").join(name);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn replay(name: &'static str) {
    let tries = move || match std::env::var_os("WEIGH_REPLAY") {
        Some(file) => attempt(name, &std::fs::read(file).unwrap()),
        None => all_of(name),
    };
    let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
    thread.spawn(tries).unwrap().join().unwrap_or_else(|_| panic!("{name} fails: see above"));
}

fn all_of(name: &str) {
    let seeds = seeds(name);
    seeds.iter().for_each(|seed| attempt(name, seed));
    let end = cpu_time() + LONGEST;
    let inputs = Changes::new(&seeds, name).take(INPUTS).enumerate();
    let in_time = |at: usize| at < LEAST_INPUTS || cpu_time() < end;
    inputs.take_while(|(at, _)| in_time(*at)).for_each(|(_, input)| attempt(name, &input));
}

/// Of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// What makes it panic is kept.
fn attempt(name: &str, input: &[u8]) {
    let target = weigh_fuzz::target(name).unwrap();
    if let Err(panic) = std::panic::catch_unwind(|| target(input)) {
        let folder = fuzz().join("artifacts").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("replay");
        std::fs::write(&file, input).unwrap();
        eprintln!("{name}: this input is {}", file.display());
        std::panic::resume_unwind(panic);
    }
}
