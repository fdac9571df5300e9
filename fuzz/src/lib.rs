//! One function for each parser of text or bytes that come from outside. It panics if the parser
//! does, or if what the parser promises is not so. `main.rs` hands it to libFuzzer, `replay` is the tests of the
//! workspace, and `seeds/NAME/` holds what both begin with.

#![allow(clippy::unwrap_used)]

mod mounts;
mod nodes;
mod profiles;
mod recordings;
mod rules;
mod sessions;
mod spans;
mod streams;
mod trace;

use std::time::Duration;

use weigh_keep::{KeepError, StreamKind, StreamReader};
use weigh_parse::{executable, fanotify, job, offender, procfs};
use weigh_schema::amount;
use weigh_schema::custom_subsystem::{OWN_NUMBERS, OWN_PARTS};
use weigh_schema::event::Event;
use weigh_schema::limit::Limit;
use weigh_schema::summary::Summary;
use weigh_schema::update::Update;
use weigh_schema::{METRICS, Unit};
use weigh_show::digest::{self, Sources};
use weigh_show::report::{self, FileColumns, JobSeries};
use weigh_show::table::{self, Style};

// `weigh` is a program, not a library: the files with its parsers are taken in as they are.
#[allow(dead_code, missing_docs, clippy::all)]
#[path = "../../crates/keep/src/journal.rs"]
mod journal;
#[allow(dead_code, missing_docs, clippy::all)]
#[path = "../../crates/session/src/products/run/limits_file.rs"]
mod limits_file;
#[allow(dead_code, missing_docs, clippy::all)]
#[path = "../../crates/keep/src/sample_line.rs"]
mod sample_line;
#[allow(dead_code, missing_docs, clippy::all)]
#[path = "../../crates/session/src/products/run/watch_spec.rs"]
mod watch_spec;

/// What is tried.
pub type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("amounts", amounts),
    ("client_message", client_message),
    ("configuration", configuration),
    ("control_groups", nodes::control_groups),
    ("executables", executables),
    ("fanotify_records", fanotify_records),
    ("journal_line", journal_line),
    ("kernel_events", kernel_events),
    ("kernel_image", kernel_image),
    ("kernel_symbols", kernel_symbols),
    ("limit", limit),
    ("limits_file", limits_file),
    ("metric_name", metric_name),
    ("mount_requests", mounts::mount_requests),
    ("node_files", nodes::node_files),
    ("otlp_json", spans::otlp_json),
    ("otlp_metrics", spans::otlp_metrics),
    ("otlp_spans", spans::otlp_spans),
    ("parquet_file", parquet_file),
    ("proc_machine", proc_machine),
    ("proc_maps", proc_maps),
    ("proc_process", proc_process),
    ("profile", profiles::profile),
    ("recording", recordings::recording),
    ("rules_file", rules::rules_file),
    ("session_messages", sessions::session_messages),
    ("snapshots", snapshots),
    ("statsd_lines", statsd_lines),
    ("stream_conversation", streams::stream_conversation),
    ("summary", summary),
    ("trace_conversation", trace::conversation),
    ("trace_event", trace_event),
    ("trace_filter", trace_filter),
    ("trace_note", trace_note),
    ("trace_types", trace_types),
];

/// The names of all targets.
pub fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _)| *name)
}

/// The target of a name, which its folder of seeds has.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// `--snapshot LABEL=FILE:PATTERN`, and the file of `--snapshot-events`.
fn snapshots(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match watch_spec::parse(&text) {
        Ok(watched) => assert!(!watched.rules[0].label.is_empty()),
        Err(error) => assert!(!error.is_empty()),
    }
    match watch_spec::parse_events(&text) {
        Ok(files) => assert!(files.iter().all(|file| !file.rules.is_empty())),
        Err(error) => assert!(!format!("{error:#}").is_empty()),
    }
}

/// Sizes, durations and counts as people write them.
fn amounts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(bytes) = amount::parse_size(&text) {
        let shown = amount::show_size(bytes as f64);
        let again = amount::parse_size(&shown).expect("what was shown can be read");
        assert!(again.abs_diff(bytes) as f64 <= bytes as f64 * 0.06, "{text:?} {shown:?}");
    }
    if let Ok(duration) = amount::parse_duration(&text) {
        assert!(duration >= Duration::ZERO);
        assert!(!amount::show_seconds(duration.as_secs_f64()).is_empty());
    }
    for unit in [Unit::Bytes, Unit::Seconds, Unit::Count, Unit::Cores, Unit::Ratio] {
        match amount::parse_amount(&text, unit) {
            Ok(value) => assert!(value.is_finite() && value >= 0.0, "{text:?}"),
            Err(error) => assert!(error.to_string().contains("is not")),
        }
    }
}

/// Executable files, as a job brings them along.
fn executables(data: &[u8]) {
    if let Some(why) = executable::why_it_traces(data) {
        assert!(!why.is_empty());
    }
    if let executable::Loader::Named(name) = executable::loader(data) {
        assert!(name.len() < data.len());
    }
    probed(data);
}

/// What `weigh trace` finds in one: functions, and points with their arguments.
fn probed(data: &[u8]) {
    use weigh_trace::executable::Executable;
    use weigh_trace::signature::{of_usdt, of_user};
    match Executable::read("f", Box::new(std::io::Cursor::new(data.to_vec()))) {
        Ok(file) => {
            for function in file.functions().iter().take(8) {
                for plus in [0, 1, u64::MAX] {
                    let _ = of_user(&file, &function.name, plus, plus == 0);
                }
                let _ = of_user(&file, "", function.address, false);
            }
            for point in file.points().iter().take(8) {
                assert!(!point.name.is_empty());
                if let Ok(signature) = of_usdt(&file, &point.provider, &point.name) {
                    assert!(signature.arguments.len() >= point.arguments.len());
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    for word in String::from_utf8_lossy(data).split_whitespace() {
        let operand = weigh_trace::operand::Operand::parse(word);
        if let weigh_trace::operand::Operand::Other(text) = operand {
            assert_eq!(text, word);
        }
    }
}

/// A kernel's image, packed or not, and all that is read of it.
fn kernel_image(data: &[u8]) {
    if let Ok(elf) = weigh_kernel::vmlinux(data) {
        assert!(elf.len() <= weigh_kernel::LARGEST.max(data.len()));
    }
    let input = weigh_kernel::Input {
        image: data,
        symbols: None,
        btf: None,
        typed_functions: |btf| match weigh_trace::btf::Btf::new(btf.to_vec()) {
            Ok(types) => Ok(types.functions().map(|(_, name)| name.to_string()).collect()),
            Err(error) => Err(error.to_string()),
        },
        build_id: None,
        filter_functions: None,
        wanted: &["write".to_string()],
        told_apart: &[],
        subsystems: &weigh_kernel::Subsystems::shipped(),
    };
    match weigh_kernel::analyse(&input) {
        Ok(analysis) => assert!(analysis.entries > 0),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// `/proc/kallsyms`, a `System.map`, and the notes of a kernel.
fn kernel_symbols(data: &[u8]) {
    match weigh_kernel::Symbols::parse(data) {
        Ok(symbols) => {
            assert!(symbols.address("_text").is_some());
            assert!(symbols.list().is_sorted_by_key(|symbol| symbol.address));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = weigh_kernel::build_id(data);
}

/// `METRIC=VALUE`.
fn limit(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match text.parse::<Limit>() {
        Ok(limit) => assert!(limit.metric.can_be_limited() && limit.value >= 0.0),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// An event of `weigh trace`, as it is written. What is refused is shown where it stands.
fn trace_event(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match weigh_trace::event::Event::parse(&text) {
        Ok(event) => assert!(!event.name().is_empty()),
        // What another tool's user has typed is shown in weigh's own words.
        Err(refusal) => is_shown(&refusal, &refusal.text),
    }
}

/// What a recording of `weigh trace` says of itself, and a filter over what it has.
fn trace_note(data: &[u8]) {
    use weigh_schema::trace::TraceNote;
    use weigh_trace::replay::{self, Cell, Header, filter::RecordedFilter};
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (note, filter) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(note) = serde_json::from_slice::<TraceNote>(note) else { return };
    let probes: Vec<_> = note.events.iter().flat_map(replay::probe).collect();
    let mut bytes = Vec::new();
    for (event, probe) in (0..).zip(&probes) {
        let header = Header { event, ..Header::default() };
        for cell in [Cell::Number(-1), Cell::Text(b"text"), Cell::Frames(&[1, 2])] {
            let cells = vec![cell; probe.fields.len()];
            let _ = replay::write(probe, header, &cells, &mut bytes);
        }
    }
    let all: Vec<_> = probes.iter().collect();
    let text = String::from_utf8_lossy(filter);
    match RecordedFilter::parse(&text, &all) {
        Ok(filter) => {
            let mut rest = bytes.as_slice();
            while let Some(record) = weigh_trace::record::Record::new(rest) {
                let probe = &probes[record.event() as usize];
                filter.holds(probe, record);
                for value in probe.values(record) {
                    let _ = value.to_string();
                }
                rest = &rest[record.size() as usize..];
            }
        }
        Err(refusal) => is_shown(&refusal, &text),
    }
}

/// A filter of `weigh trace`, a predicate, a buffer, and what may be wanted of several events.
fn trace_filter(data: &[u8]) {
    use weigh_trace::synthesis::ask::Ask;
    let text = String::from_utf8_lossy(data);
    if let Err(refusal) = weigh_trace::filter::Filter::parse(&text) {
        is_shown(&refusal, &text);
    }
    if let Err(refusal) =
        weigh_trace::predicate::parse(&text, &|name| (name == "netif_rx").then_some(1))
    {
        is_shown(&refusal, &text);
    }
    if let Ok((name, _)) = weigh_trace::buffer_spec::parse(&text) {
        assert!(text.contains(&name));
    }
    for ask in [Ask::latency, Ask::sequence, Ask::rate, Ask::top, Ask::histogram] {
        match ask(&text) {
            Ok(ask) => {
                let needs = ask.needs(&["net:net_dev_queue", "net:netif_rx"]);
                needs.map_or_else(|refusal| is_shown(&refusal, &text), drop);
            }
            Err(refusal) => is_shown(&refusal, &text),
        }
    }
}

fn is_shown(refusal: &weigh_trace::error::Refusal, text: &str) {
    assert!(refusal.to_string().contains('^'));
    assert!(refusal.at + refusal.length <= text.len().max(1) + 1);
    assert!(text.is_char_boundary(refusal.at.min(text.len())));
}

/// The kernel's types, and a module's that go on from them, and events that are checked against them and made into programs.
fn trace_types(data: &[u8]) {
    use weigh_trace::btf::Btf;
    let Ok(btf) = Btf::new(data.to_vec()).map(std::sync::Arc::new) else { return };
    events_of(&btf);
    if let Ok(module) = Btf::of_module("m", data.to_vec(), &btf) {
        events_of(&module);
    }
}

fn events_of(btf: &weigh_trace::btf::Btf) {
    use weigh_trace::generate::{Access, Buffer, Maps, Slot, program};
    let names: Vec<String> = btf.tracepoints().take(3).map(str::to_string).collect();
    for name in names {
        for rest in ["", "{x=p->b->b->a, arg0}", "{y=p[1].a} if p->a == 1"] {
            let Ok(event) = weigh_trace::event::Event::parse(&format!("{name}{rest}")) else {
                continue;
            };
            let Ok(probe) = weigh_trace::probe::Probe::check(btf, &event, &[]) else { continue };
            let state = weigh_trace::state::State { probes: 1, cpus: 1 };
            let buffer = Buffer {
                number: 0,
                rings: 4,
                consumers: 5,
                doorbell: 6,
                layout: weigh_schema::ring::Layout { rings: 1, bytes: 4096 },
                key: 1,
                is_shared: false,
                half: 0,
                predicate: None,
                flip: 0,
                counts_records: false,
            };
            let maps = Maps {
                state: 3,
                buffers: vec![buffer],
                members: None,
                calls: None,
                pages: None,
                name_at: Some(2048),
                counters: &[],
            };
            for access in [Access::Direct, Access::Loads, Access::Helpers] {
                assert!(
                    program(
                        &probe,
                        Slot { number: 0, gate: 0, flip: 0, site: 0 },
                        &state,
                        &maps,
                        access
                    )
                    .is_ok()
                );
            }
        }
    }
}

/// A limits file.
fn limits_file(data: &[u8]) {
    if let Err(error) = limits_file::parse(&String::from_utf8_lossy(data)) {
        assert!(!format!("{error:#}").is_empty());
    }
}

/// A configuration of parts of the kernel.
fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.lines().count().max(1);
    match weigh_schema::configuration::parse("f", &text) {
        Ok(read) => {
            let own = read.own();
            assert!(own.len() <= OWN_PARTS && own.len() == read.subsystems.len());
            let numbers = own.iter().flat_map(|part| part.sums.iter().chain(&part.later));
            assert!(numbers.clone().all(|number| number.slot < OWN_NUMBERS));
            // No two numbers share a place.
            let slots: std::collections::HashSet<_> = numbers.clone().map(|n| n.slot).collect();
            assert_eq!(slots.len(), numbers.count());
        }
        Err(error) => {
            // An error at the end of the text may be on the line that would come next.
            assert!((1..=lines + 1).contains(&error.at.line), "{error}");
            assert!(error.to_string().starts_with("f:"));
        }
    }
}

/// A line of a recording's journal.
fn journal_line(data: &[u8]) {
    match journal::parse_line(data) {
        Ok(Update::Unknown) => {}
        Ok(entry) => {
            let text = serde_json::to_vec(&entry).expect("what was read can be written");
            journal::parse_line(&text).expect("and read again");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A Parquet file: as the recording of `weigh trace`, and as the tables of calls and of files. Whatever stands in it,
/// it is read or refused.
fn parquet_file(data: &[u8]) {
    let path = std::env::temp_dir().join(format!("weigh-fuzz-{}.parquet", std::process::id()));
    std::fs::write(&path, data).unwrap();
    let is_told = |error: KeepError| assert!(!error.to_string().contains(char::is_control));
    match StreamReader::open(&path) {
        Ok(file) => {
            let kinds = [
                StreamKind::Time,
                StreamKind::Signed,
                StreamKind::Unsigned,
                StreamKind::Text,
                StreamKind::Bytes,
                StreamKind::Texts,
            ];
            for name in ["time", "event", "cpu", "stack", "filename"] {
                for column in kinds.into_iter().filter_map(|kind| file.column(name, kind).ok()) {
                    let read = file.each_batch(&[column], |batch| {
                        assert!(batch.rows > 0 && batch.columns.len() == 1);
                        Ok::<_, KeepError>(())
                    });
                    read.unwrap_or_else(is_told);
                }
            }
        }
        Err(error) => is_told(error),
    }
    weigh_keep::each_call(&path, |_| {}).map(drop).unwrap_or_else(is_told);
    weigh_keep::each_io_call(&path, |_| {}).map(drop).unwrap_or_else(is_told);
    std::fs::remove_file(&path).unwrap();
}

/// `summary.json`, and what is made of it for people.
fn summary(data: &[u8]) {
    let Ok(summary) = serde_json::from_slice::<Summary>(data) else { return };
    for width in [1, 80, 200] {
        let style = Style {
            color: false,
            width,
            is_terminal: true,
            complete: true,
            is_running: false,
            recording: None,
        };
        let text = digest::render(&summary, style, Sources::default());
        assert!(text.lines().count() <= 16, "{text}");
        let text = text + &table::render(&summary, style) + &table::render_keys(&summary);
        // What a program calls itself must not reach the terminal as a command to it.
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
    let files = FileColumns::default().finish(0);
    let page = report::page(&summary, JobSeries::new(0), &[], files, 0).html();
    // The data must not end the element that it stands in.
    let scripts = page.to_lowercase().matches("</script").count();
    let begun = page.to_lowercase().matches("<script").count();
    assert_eq!(scripts, begun);
}

/// Files of one process: `stat`, `status`, `io`, `cmdline`, `smaps_rollup`, `stack`.
fn proc_process(data: &[u8]) {
    if let Some(stat) = procfs::parse_stat(data) {
        assert!(stat.name.len() <= 3 * data.len());
    }
    let _ = procfs::parse_status(data);
    let _ = procfs::parse_io(data);
    let arguments = procfs::parse_cmdline(data);
    assert!(arguments.len() <= data.len());
    let _ = procfs::parse_smaps_rollup(data);
    let _ = offender::parse_kernel_stack(data);
}

/// `maps` and `smaps`.
fn proc_maps(data: &[u8]) {
    for entry in procfs::parse_maps(data) {
        assert!(entry.start <= entry.end);
    }
    let _ = procfs::parse_smaps(data);
    assert!(offender::largest_mappings(data).len() <= data.len());
}

/// Files of the machine: `mountinfo`, `cgroup`, `passwd`, `meminfo`, lists of CPUs.
fn proc_machine(data: &[u8]) {
    let _ = procfs::parse_mountinfo(data);
    let _ = procfs::parse_cgroup(data);
    let _ = procfs::parse_passwd(data, 0);
    let _ = procfs::parse_account(data, "root");
    let _ = procfs::parse_mem_total(data);
    let _ = procfs::parse_cpu_list(&String::from_utf8_lossy(data));
    assert!(procfs::unescape_octal(data).len() <= data.len());
}

/// What fanotify's queue gives.
fn fanotify_records(data: &[u8]) {
    // The shortest record is its metadata, 24 bytes.
    assert!(fanotify::parse_records(data).len() <= data.len() / 24);
}

/// Records of the BPF programs' ring buffer.
fn kernel_events(data: &[u8]) {
    match job::event(data, 1) {
        Some(Event::Exec { command, .. }) => {
            let bytes: usize = command.iter().map(String::len).sum();
            // A byte that is no UTF-8 is written as three.
            assert!(bytes <= 3 * data.len());
        }
        Some(Event::Limit(crossing) | Event::Warning(crossing)) => {
            assert!(crossing.stack.len() * 8 <= data.len());
            // A limit that user space does not know keeps its number.
            let is_known = METRICS.iter().any(|m| m.name == crossing.metric);
            assert!(is_known || crossing.metric.starts_with("limit "), "{}", crossing.metric);
        }
        Some(Event::File { path, .. }) => assert!(path.len() <= 3 * data.len()),
        _ => {}
    }
}

/// A metric's name that is not one: the nearest that are.
fn metric_name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for near in weigh_schema::nearest_metrics(&text) {
        assert!(METRICS.iter().any(|m| m.name == near));
    }
}

/// Datagrams of StatsD.
fn statsd_lines(data: &[u8]) {
    weigh_parse::statsd::each_value(data, &mut |found| {
        assert!(found.value.is_finite() && found.count >= 1.0 && !found.name.is_empty());
    });
}

/// A message of a program to libweigh's server, without its first number, which would have to
/// be found again with each change of the layout.
fn client_message(data: &[u8]) {
    use weigh_wire::datagram::{Datagram, parse};
    use weigh_wire::library::Request;
    let library = weigh_schema::library::layout().to_ne_bytes();
    let agent = weigh_wire::VERSION.to_ne_bytes();
    for message in [data.to_vec(), [&library[..], data].concat(), [&agent[..], data].concat()] {
        match parse(&message) {
            Ok(Datagram::Library(request)) => {
                assert_eq!(message.len(), 32);
                let (tid, slot) = match request {
                    Request::Join { tid, slot } => (tid, slot),
                    Request::Count { tid, .. } => (tid, 0),
                    Request::Peer { pid } | Request::Leave { pid } => (pid, 0),
                    Request::Enter { .. }
                    | Request::Want { .. }
                    | Request::Watch
                    | Request::Configured => (0, 0),
                };
                assert!(tid < 1 << 22 && slot < 4096);
            }
            Ok(Datagram::Agent(request)) => {
                assert!(weigh_wire::encode(&request, 0).is_ok_and(|frame| frame.len() >= 32));
            }
            Err(reason) => assert!(!reason.text().is_empty()),
        }
    }
}
