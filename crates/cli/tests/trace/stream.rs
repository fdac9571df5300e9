//! `weigh trace`, against programs that know exactly what they did: which events are taken, and what they say.

use std::process::{Command, Stdio};

use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{are_refused, counted, lines, succeeds};
use crate::support::{NO_FUNCTION_PROBES, functions_can_be_probed, leave_to_guest, workload};
use serde_json::Value;

const BYTES: u64 = 1400;
const ODD: u64 = 23;
/// Of Ethernet, IP and UDP.
const HEADERS: u64 = 42;

/// How many datagrams are sent.
fn sent() -> u64 {
    crate::support::amount(100_003)
}

/// Follows while the workload sends its datagrams; the events, and what weigh said.
#[track_caller]
fn sends(options: &[&str]) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let numbers = [sent(), BYTES, ODD].map(|number| number.to_string());
    let program = workload("datagrams");
    let command = [&program, &numbers[0], &numbers[1], &numbers[2]].map(String::as_str);
    let arguments = [&["trace", "-o", &file][..], options, &["--"], &command].concat();
    let said = succeeds(&weigh(&scratch, &arguments));
    (lines(&scratch, "events.jsonl"), said)
}

#[test]
fn every_send_is_an_event_and_no_other_is() {
    needs_root!();
    // Somebody else who sends, and is not followed.
    let mut other = Command::new(workload("datagrams"));
    let other = other.args(["100000000", "700", "0"]).stderr(Stdio::null());
    let mut other = Mortal::of(other.spawn());
    // The ring has room for all of them: with that one there may be no CPU for who empties it.
    let event = "net:net_dev_queue{len=skb->len, dev=skb->dev->name, comm}";
    let (events, said) = sends(&["--buffer", "64MiB", "-e", event]);
    other.kill().and_then(|()| other.wait()).expect("it can be ended");
    assert_eq!(counted(&said), (sent(), 0), "{said}");
    assert_eq!(events.len() as u64, sent());
    for event in &events {
        let len = event["fields"]["len"].as_u64().expect("a number");
        assert!((BYTES + HEADERS..=BYTES + HEADERS + 1).contains(&len), "{event}");
        assert_eq!(event["fields"]["dev"], "lo");
        assert_eq!(event["fields"]["comm"], "datagrams");
        assert_eq!(event["tgid"], event["tid"]);
    }
    let times: Vec<i64> = events.iter().filter_map(|event| event["time_ns"].as_i64()).collect();
    assert!(times.is_sorted(), "one thread on one ring");
}

#[test]
fn a_filter_takes_exactly_those_it_says() {
    needs_root!();
    let odd = BYTES + HEADERS + 1;
    for filter in [
        format!("skb->len == {odd}"),
        format!("skb->len > {} && skb->dev->name == \"lo\"", odd - 1),
        format!("skb->len in ({odd}..{}) && comm == \"datagrams\"", odd + 5),
        format!("!(skb->len != {odd}) && tgid == tid && cpu < 4096"),
        format!("skb->len & 1 && skb->len & 0xffff == {odd}"),
    ] {
        let (events, said) = sends(&["-e", "net:net_dev_queue{skb->len}", "-f", &filter]);
        assert_eq!(counted(&said), (ODD, 0), "{filter}: {said}");
        assert!(events.iter().all(|event| event["fields"]["skb->len"] == odd), "{filter}");
    }
    let (_, said) = sends(&["-e", "net:net_dev_queue", "-f", "skb->len == 7 || comm == \"other\""]);
    assert_eq!(counted(&said), (0, 0), "{said}");
}

#[test]
fn sampling_by_count_is_exact_and_by_time_is_bounded() {
    needs_root!();
    let (_, said) = sends(&["-e", "net:net_dev_queue", "--sampling", "sample 1/100"]);
    assert_eq!(counted(&said), (sent().div_ceil(100), 0), "{said}");
    assert!(said.contains(&format!("of {}", sent())), "{said}");
    let (events, said) =
        sends(&["-e", "net:net_dev_queue sample 1/7", "--sampling", "sample 1/100"]);
    assert_eq!(counted(&said), (sent().div_ceil(7), 0), "its own rule goes before: {said}");
    assert_eq!(events.len() as u64, sent().div_ceil(7));

    let (events, _) = sends(&["-e", "net:net_dev_queue every 1ms"]);
    let times: Vec<i64> = events.iter().filter_map(|event| event["time_ns"].as_i64()).collect();
    assert!(times.len() > 2, "{}", times.len());
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 900_000), "{times:?}");

    let (events, _) = sends(&["-e", "net:net_dev_queue at most 50/s"]);
    let seconds = {
        let mut seconds: Vec<i64> = events
            .iter()
            .filter_map(|event| Some(event["time_ns"].as_i64()? / 1_000_000_000))
            .collect();
        seconds.dedup();
        seconds.len() + 1
    };
    assert!(events.len() >= 50 && events.len() <= 50 * seconds, "{} in {seconds}", events.len());
}

#[test]
fn what_the_ring_had_no_room_for_is_counted() {
    needs_root!();
    let (events, said) = sends(&["-e", "net:net_dev_queue{len=skb->len}", "--buffer", "4KiB"]);
    let (taken, lost) = counted(&said);
    assert_eq!(taken + lost, sent(), "{said}");
    assert_eq!(events.len() as u64, taken);
    assert!(lost > 0, "so small a ring holds them all? {said}");
}

#[test]
fn rings_for_each_cpu_hold_the_same() {
    needs_root!();
    let (events, said) =
        sends(&["-e", "net:net_dev_queue{len=skb->len}", "--per-cpu", "--wake", "0"]);
    assert_eq!(counted(&said), (sent(), 0), "{said}");
    assert_eq!(events.len() as u64, sent());
}

#[test]
fn a_parquet_file_has_a_row_for_each() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.parquet");
    let program = workload("datagrams");
    let path = file.display().to_string();
    let command = [program.as_str(), "20011", "100", "5"];
    let options = ["trace", "-e", "udp-path", "-o", &path, "--"];
    let said = succeeds(&weigh(&scratch, &[&options[..], &command].concat()));
    let (taken, lost) = counted(&said);
    assert!(taken > 20_011 && lost == 0, "{said}");
    let rows = weigh_keep::count_rows(&file).expect("a whole file");
    assert_eq!(rows, taken);
    let beside = file.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten();
    let names = beside.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let of_it: Vec<String> = names.filter(|name| name.starts_with("events.parquet")).collect();
    assert_eq!(of_it, ["events.parquet"]);
}

#[test]
fn what_does_not_exist_is_refused_before_anything_starts() {
    needs_root!();
    let scratch = Scratch::new();
    let cases: &[(&[&str], &[&str])] = &[
        (&["-e", "net:net_dev_qeue"], &["net_dev_qeue", "^^^^^^", "net:net_dev_queue"]),
        (&["-e", "skb:net_dev_queue"], &["'net'", "'skb'"]),
        (&["-e", "netz"], &["netz", "net"]),
        (&["-e", "net:net_dev_queue{skb->lne}"], &["struct sk_buff", "'lne'", "len"]),
        (&["-e", "net:net_dev_queue{skp->len}"], &["no argument 'skp'", "skb"]),
        (&["-e", "net:net_dev_queue{skb->len->x}"], &["skb->len", "no members"]),
        (&["-e", "net:net_dev_queue", "-f", "skb->len == -1"], &["-1", "0 to 4294967295"]),
        (&["-e", "net:net_dev_queue", "-f", "skb->len == \"a\""], &["skb->len", "no text"]),
        (&["-e", "net:net_dev_queue", "-f", "comm == 3"], &["comm", "text"]),
        (&["-e", "net:net_dev_queue", "-f", "tgid == 1 &&"], &["--filter", "^"]),
        (&["-e", "fn:vfs_wrte"], &["vfs_wrte", "vfs_write"]),
        (&["-e", "skb:kfree_skb", "-f", "reason == SKB_DROP_REASON_NO_SOKET"], &["NO_SOCKET"]),
        (&["-e", "net:net_dev_queue", "--sampling", "sample 2/3"], &["--sampling", "1/N"]),
        (&["-e", "net:net_dev_queue", "-o", "x.doc"], &["x.doc", ".parquet", ".jsonl"]),
        (&["-e", "net:net_dev_queue", "--buffer", "1000"], &["1000", "power of 2"]),
        (&[], &["-e EVENT"]),
    ];
    are_refused(&scratch, cases);
}

#[test]
fn a_pointer_that_is_null_is_no_value_and_no_match() {
    needs_root!();
    let scratch = Scratch::new();
    // Threads of the kernel have no memory of their own.
    let event = "sched:sched_switch{to=next->comm, map_count=next->mm->map_count}";
    let follow = |filter: &[&str]| {
        let options = ["trace", "-e", event, "--for", "700ms", "-o", "-"];
        let output = weigh(&scratch, &[&options[..], filter].concat());
        succeeds(&output);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let maps = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        maps.map(|event| event["fields"]["map_count"].clone()).collect::<Vec<_>>()
    };
    let all = follow(&[]);
    assert!(all.iter().any(Value::is_null), "{all:?}");
    assert!(all.iter().any(|count| count.as_i64().is_some_and(|count| count > 0)), "{all:?}");
    let some = follow(&["-f", "next->mm->map_count >= 0"]);
    assert!(!some.is_empty() && some.iter().all(Value::is_number), "{some:?}");
}

#[test]
fn texts_constants_stacks_and_calls_are_what_they_are() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let arguments = [
        "trace",
        "-q",
        "-o",
        &file,
        "-e",
        "sched:sched_process_exec{file=str(bprm->filename), stack(3)}",
        "-e",
        "raw_syscalls:sys_enter{nr=arg1} if arg1 == 39",
        "-e",
        "sched:sched_process_exit{code=p->exit_code}",
        "--",
        "sh",
        "-c",
        "/bin/true; exit 7",
    ];
    let output = weigh(&scratch, &arguments);
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let events = lines(&scratch, "events.jsonl");
    let of = |name: &str| events.iter().filter(|e| e["event"] == name).collect::<Vec<_>>();
    let execs = of("sched:sched_process_exec");
    assert_eq!(execs.last().map(|e| &e["fields"]["file"]), Some(&Value::from("/bin/true")));
    let stack = execs[0]["fields"]["stack(3)"].as_array().expect("a list");
    assert!(!stack.is_empty() && stack.len() <= 3, "{stack:?}");
    let codes: Vec<_> =
        of("sched:sched_process_exit").iter().map(|e| e["fields"]["code"].as_i64()).collect();
    assert_eq!(codes.last(), Some(&Some(7 << 8)), "{codes:?}");
}

/// A file of that name that can be executed.
fn program(scratch: &Scratch, name: &str) -> String {
    let path = scratch.path(name);
    std::fs::copy("/bin/true", &path).expect("a copy");
    path.display().to_string()
}

#[test]
fn a_text_that_was_cut_is_taken_for_no_other() {
    needs_root!();
    let scratch = Scratch::new();
    let room = 63 - scratch.path("").display().to_string().len();
    let whole = program(&scratch, &"n".repeat(room));
    assert_eq!(whole.len(), 63);
    let longer = program(&scratch, &("n".repeat(room) + "more"));
    let file = scratch.path("events.jsonl").display().to_string();
    let follow = |more: &[&str]| {
        let script = format!("{whole}; {longer}; {longer}; :");
        let options = ["trace", "-o", &file, "-e"];
        let command = ["--", "sh", "-c", &script];
        let said = succeeds(&weigh(&scratch, &[&options[..], more, &command].concat()));
        (lines(&scratch, "events.jsonl"), said)
    };
    let exec = "sched:sched_process_exec{file=str(bprm->filename)}";
    for (how, expected) in [("==", 1), ("!=", 3)] {
        let (_, said) = follow(&[&format!("{exec} if bprm->filename {how} \"{whole}\"")]);
        assert_eq!(counted(&said), (expected, 0), "{how}: {said}");
    }
    let (events, _) = follow(&[exec]);
    let named = |name: &str| events.iter().filter(|event| event["fields"]["file"] == name).count();
    let cut = format!("{}…", &longer[..60]);
    assert_eq!((named(&whole), named(&cut)), (1, 2), "{events:?}");
    let (_, said) = follow(&[exec, "--top", "5 of sched:sched_process_exec by file"]);
    assert!(said.contains(&cut) && said.contains(&whole), "{said}");
}

#[test]
fn the_name_of_a_system_call_is_a_text_that_a_register_leads_to() {
    needs_root!();
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let scratch = Scratch::new();
    let name = scratch.path("opened").display().to_string();
    std::fs::write(&name, "text").expect("a file");
    let options = ["trace", "-o", "-", "-e"];
    let event = "raw_syscalls:sys_enter{file=ustr(regs->si)} if id == 257";
    let output = weigh(&scratch, &[&options[..], &[event, "--", "wc", "-c", &name]].concat());
    succeeds(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_it = |line: &&str| line.contains(&format!("\"file\":\"{name}\""));
    assert_eq!(text.lines().filter(is_it).count(), 1, "{text}");
}

#[test]
fn returns_are_compared_as_the_numbers_that_they_are() {
    needs_root!();
    let scratch = Scratch::new();
    let filters = [
        "ret >= 0",
        "ret in 0..9223372036854775808",
        "ret < 0",
        "ret >= 0 || ret < 0",
        "ret < 18446744073709551605",
    ];
    let events = filters.map(|filter| format!("raw_syscalls:sys_exit{{ret}} if {filter}"));
    let events: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).collect();
    let file = scratch.path("events.jsonl").display().to_string();
    let command = ["-o", &file, "--", "sh", "-c", "test -e /nowhere; test -e /; :"];
    let said = succeeds(&weigh(&scratch, &[&["trace"], &events[..], &command].concat()));
    let of_event = said.lines().filter(|line| line.ends_with("raw_syscalls:sys_exit"));
    let counts: Vec<u64> =
        of_event.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    let [natural, in_range, below, all, below_most] = counts[..] else { panic!("{said}") };
    assert!(natural > 10 && below > 0, "{said}");
    assert_eq!((in_range, below_most), (natural, natural + below), "{said}");
    assert_eq!(all, natural + below);
}

#[test]
fn a_hundred_probes_and_more_at_once() {
    needs_root!();
    let scratch = Scratch::new();
    let listed = weigh(&scratch, &["trace", "list", "ext4:*"]);
    let more = weigh(&scratch, &["trace", "list", "kmem:*"]);
    let text = [listed.stdout, more.stdout].concat();
    let text = String::from_utf8(text).expect("UTF-8");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split('(').next()).collect();
    assert!(names.len() > 100, "{}", names.len());
    let events: Vec<&str> = names.iter().flat_map(|name| ["-e", name]).collect();
    let arguments = [&["trace", "-o", "-"], &events[..], &["--", "true"]];
    let said = succeeds(&weigh(&scratch, &arguments.concat()));
    let (taken, _) = counted(&said);
    assert!(taken > 10, "{said}");
    assert_eq!(said.lines().count(), 1 + names.len(), "a line for each: {said}");
}

#[test]
fn functions_are_listed_with_a_word_where_none_can_be_followed() {
    let output = weigh(&Scratch::new(), &["trace", "list", "fn:vfs_write"]);
    let said = succeeds(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains("fn:vfs_write("), "{said}");
    assert_eq!(said.contains("can be followed here"), !functions_can_be_probed(), "{said}");
}

#[test]
fn a_function_is_followed_as_it_is_called_and_as_it_returns() {
    needs_root!();
    if !functions_can_be_probed() {
        return leave_to_guest(NO_FUNCTION_PROBES);
    }
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let called = "fn:vfs_write{name=str(file->f_path.dentry->d_name.name), count} if count == 7";
    let returned = "fn:vfs_write%return{count, ret} if count == 7 && ret == 7";
    let to = format!("of={}", scratch.path("written").display());
    let options = ["trace", "-o", &file, "-e", called, "-e", returned, "--"];
    let command = ["dd", "if=/dev/zero", &to, "bs=7", "count=1003"];
    let said = succeeds(&weigh(&scratch, &[&options[..], &command].concat()));
    assert_eq!(counted(&said), (2 * 1003, 0), "{said}");
    let events = lines(&scratch, "events.jsonl");
    let (calls, returns): (Vec<&Value>, Vec<&Value>) =
        events.iter().partition(|event| event["event"] == "fn:vfs_write");
    assert_eq!((calls.len(), returns.len()), (1003, 1003));
    assert!(calls.iter().all(|call| call["fields"]["name"] == "written"), "{}", calls[0]);
    assert!(returns.iter().all(|end| end["fields"]["ret"] == 7), "{}", returns[0]);
    assert_eq!(std::fs::metadata(scratch.path("written")).expect("a file").len(), 7 * 1003);
}

/// A function begins with an instruction of five bytes that tracers put there, behind one of four on some kernels: at one of
/// the two places its first own instruction begins, and its arguments are where they were.
#[test]
fn an_instruction_of_the_kernel_is_followed_or_refused_with_the_reason() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let to = format!("of={}", scratch.path("written").display());
    let command = ["dd", "if=/dev/zero", &to, "bs=7", "count=1003"];
    let follow = |event: &str| {
        let options = ["trace", "-o", &file, "-e", event, "--"];
        weigh(&scratch, &[&options[..], &command].concat())
    };
    let refused = |output: &std::process::Output, words: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && said.contains(words), "{said}");
    };
    refused(&follow("fn:vfs_write+0x100000"), "the function ends at +0x");
    refused(&follow("fn:vfs_wrte+0x5"), "vfs_write");
    let followed = [5, 9].map(|plus| follow(&format!("fn:vfs_write+{plus}{{arg2}} if arg2 == 7")));
    if !functions_can_be_probed() {
        for output in &followed {
            refused(output, "an instruction has to begin there");
        }
        return leave_to_guest(NO_FUNCTION_PROBES);
    }
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let (done, not): (Vec<_>, Vec<_>) = followed.iter().partition(|o| o.status.success());
    for output in not {
        refused(output, "an instruction has to begin there");
    }
    assert!(!done.is_empty());
    for output in done {
        assert_eq!(counted(&succeeds(output)), (1003, 0));
    }
}

/// Follows while `cat` reads one file that is there, and one that is not.
#[track_caller]
fn cats(event: &str) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("here"), "text").expect("a file");
    let file = scratch.path("events.jsonl").display().to_string();
    let script = format!("cd {} && exec cat ./here ./missing", scratch.path("").display());
    let options = ["trace", "-o", &file, "-e", event, "--", "sh", "-c", &script];
    let output = weigh(&scratch, &options);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "the status is cat's own: {said}");
    (lines(&scratch, "events.jsonl"), said)
}

#[test]
fn system_calls_are_events_by_name_with_their_arguments() {
    needs_root!();
    for event in ["openat", "syscall:openat", "syscalls:sys_enter_openat", "trace=openat"] {
        let (events, _) = cats(event);
        let of = |name: &str| -> Vec<&Value> {
            events.iter().map(|event| &event["fields"]).filter(|f| f["filename"] == name).collect()
        };
        let (here, missing) = (of("./here"), of("./missing"));
        assert_eq!((here.len(), missing.len()), (1, 1), "{event}: {events:?}");
        assert_eq!(here[0]["dfd"], -100, "{event}");
        assert_eq!(here[0]["flags"], "O_RDONLY", "{event}");
        assert_eq!(here[0]["comm"], "cat", "{event}");
        if event != "syscalls:sys_enter_openat" {
            assert_eq!((&here[0]["ret"], &missing[0]["ret"]), (&3.into(), &(-2).into()));
            assert!(here[0]["duration_ns"].as_u64().is_some_and(|ns| ns > 100), "{}", here[0]);
        }
    }
    let (reads, _) = cats("read{text=str(buf), bytes(buf, 4), ret} if ret == 4");
    let of_file = reads.iter().filter(|event| event["fields"]["text"] == "text").count();
    assert_eq!(of_file, 1, "{reads:?}");
    assert!(reads.iter().any(|event| event["fields"]["bytes(buf, 4)"] == "74657874"), "{reads:?}");
    let (exits, _) = cats("syscalls:sys_exit_openat");
    let (calls, _) = cats("syscall:openat{ret}");
    let (all, _) = cats("raw_syscalls:sys_enter if name == \"openat\"");
    assert_eq!((exits.len(), all.len()), (calls.len(), calls.len()));
    assert!(all.iter().all(|event| event["fields"]["name"] == "openat"), "{}", all[0]);
}

#[test]
fn system_calls_errors_and_flags_are_filtered_by_name() {
    needs_root!();
    for (filter, count) in [
        ("filename == \"./missing\" && ret == -ENOENT", 1),
        ("filename == \"./missing\" && ret != -ENOENT", 0),
        ("filename == \"./here\" && flags & (O_CREAT | O_WRONLY | O_RDWR) == 0", 1),
        ("filename == \"./here\" && flags & O_CREAT", 0),
        ("filename == \"./here\" && dfd == AT_FDCWD && duration_ns > 0", 1),
    ] {
        let (events, said) = cats(&format!("openat{{filename}} if {filter}"));
        assert_eq!((events.len(), counted(&said)), (count, (count as u64, 0)), "{filter}: {said}");
    }
    let scratch = Scratch::new();
    let cases: &[(&[&str], &[&str])] = &[
        (&["-e", "syscalls:sys_enter_opnat"], &["no system call 'opnat'", "sys_enter_openat"]),
        (&["-e", "opnat"], &["opnat", "near it: openat"]),
        (&["-e", "openat if ret == -ENOENTT"], &["no error 'ENOENTT'", "-ENOENT"]),
        (&["-e", "raw_syscalls:sys_enter if name == \"opnat\""], &["'opnat'", "openat"]),
        (&["-e", "openat if flags & O_CREATE"], &["O_CREATE", "O_CREAT"]),
        (&["-e", "openat{filenam}"], &["no argument 'filenam'", "filename"]),
        (&["-e", "syscall:*"], &["raw_syscalls:sys_enter"]),
        (&["-e", "zzz*"], &["no event is like", "weigh trace list"]),
        (&["-e", "profile:hz:99"], &["every 10ms"]),
    ];
    are_refused(&scratch, cases);
}

#[test]
fn what_a_call_began_with_is_kept_where_its_end_has_it_no_more() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let options = ["trace", "-o", &file, "-e", "execve", "--", "sh", "-c", "/bin/true; :"];
    succeeds(&weigh(&scratch, &options));
    let events = lines(&scratch, "events.jsonl");
    let fields = &events.first().expect("one that sh executes")["fields"];
    assert_eq!((events.len(), &fields["filename"]), (1, &"/bin/true".into()));
    // The registers are the new program's by then.
    assert_eq!(fields["ret"], 0);
    assert_ne!(fields["argv"], "0x0");
    assert_ne!(fields["envp"], "0x0");
}

#[test]
fn a_pattern_is_each_event_that_it_matches() {
    needs_root!();
    let (events, said) = cats("syscalls:sys_enter_*at{comm}");
    let named = |event: &Value| event["event"].as_str().unwrap_or_default().to_string();
    assert!(events.iter().any(|event| named(event) == "syscalls:sys_enter_openat"), "{said}");
    assert!(events.iter().all(|event| named(event).ends_with("at")), "{said}");
    let (whole, _) = cats("openat,close{ret}");
    let count = |name: &str| whole.iter().filter(|event| named(event) == name).count();
    assert!(count("syscall:openat") > 0 && count("syscall:close") > 0, "{whole:?}");
}

#[test]
fn without_fields_an_event_has_those_that_perf_shows() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let events = ["-e", "tracepoint:sched:sched_process_exec", "-e", "raw_syscalls:sys_exit"];
    let arguments = [&["trace", "-o", &file][..], &events, &["--", "/bin/true"]].concat();
    succeeds(&weigh(&scratch, &arguments));
    let events = lines(&scratch, "events.jsonl");
    let of = |name: &str| events.iter().find(|event| event["event"] == name).expect("an event");
    let exec = of("sched:sched_process_exec");
    let names: Vec<&String> = exec["fields"].as_object().expect("fields").keys().collect();
    assert_eq!(names, ["comm", "filename", "old_pid", "pid"]);
    assert_eq!(exec["fields"]["filename"], "/bin/true");
    assert_eq!((&exec["fields"]["pid"], &exec["fields"]["comm"]), (&exec["tgid"], &"true".into()));
    let exit = &of("raw_syscalls:sys_exit")["fields"];
    assert_eq!((&exit["name"], &exit["ret"]), (&"execve".into(), &0.into()));
}
