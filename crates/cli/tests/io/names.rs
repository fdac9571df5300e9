//! What files, sockets and processes are called is what they were called, to the byte, and whether a name stands for the
//! same file at the end: by every mechanism.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::truth::{mechanisms, report};
use crate::support::io_report::{moved, number, row, rows, text};
use crate::support::run::{Scratch, Weigh, set_surroundings, weigh};
use crate::support::weigh_binary;
use serde_json::Value;
use weigh_schema::base64;

/// The thread that ends last has a name of its own.
#[test]
fn a_process_is_not_called_as_one_of_its_threads_is() {
    const SCRIPT: &str = "
import os, threading, time
ready = threading.Event()
def work():
    open('/proc/thread-self/comm', 'w').write('worker-7')
    open('written', 'w').write('hello')
    ready.set()
    time.sleep(1000)
threading.Thread(target=work).start()
ready.wait()
os._exit(0)";
    for (mechanism, user) in mechanisms() {
        let scratch = Scratch::new();
        let report = report(&scratch, (mechanism, user), &[], &["python3", "-c", SCRIPT]);
        let row = row(&report, &text(&scratch.path("work/written")));
        assert_eq!(row["process"], "python3", "{mechanism}");
        let processes = report["processes"].as_array().expect("processes");
        let process =
            processes.iter().find(|process| process["pid"] == row["pid"]).expect("it is there");
        assert_eq!(process["name"], "python3", "{mechanism}");
    }
}

/// File systems that can be asked for a file by its inode.
pub fn finds_by_inode(folder: &Path) -> bool {
    let kind = rustix::fs::statfs(folder).expect("a file system").f_type;
    [0xef53, 0x5846_5342, 0x9123_683e].contains(&kind)
}

/// What becomes of names after the files were closed; one is made without a name, and gets one.
const NAMES: &str = "
echo hi >gone; rm gone
echo old >replaced; echo new >new; mv new replaced
echo moved >moved; mv moved later; cat later >/dev/null
python3 -c \"import os
file = os.open('.', os.O_TMPFILE | os.O_WRONLY)
os.write(file, b'nameless')
os.link(f'/proc/self/fd/{file}', 'named', dst_dir_fd=os.open('.', os.O_RDONLY))\"";

/// Whether the file that was written by a name is deleted, and its later name.
fn end_of(report: &Value, scratch: &Scratch, name: &str) -> (bool, Option<Value>) {
    let path = text(&scratch.path(&format!("work/{name}")));
    let row = report["files"].as_array().expect("files").iter().find(|file| {
        let is_written = number(file, "placed_total") > 0 && file["written_bytes"] != 0;
        is_written && file["name"].as_str().is_some_and(|name| name.starts_with(&path))
    });
    let row = row.unwrap_or_else(|| panic!("{name}: {report}"));
    (row.get("is_deleted").is_some(), row.get("later_name").cloned())
}

/// What was deleted, replaced and renamed after it was closed, and what was made without a name and got one.
#[test]
fn the_end_says_whether_a_file_has_a_name_and_which() {
    for (mechanism, user) in mechanisms() {
        let scratch = Scratch::new();
        let report = report(&scratch, (mechanism, user), &[], &["sh", "-c", NAMES]);
        let of = |name: &str| end_of(&report, &scratch, name);
        let later = |name: &str| Some(Value::from(text(&scratch.path(&format!("work/{name}")))));
        if mechanism != "bpf" || finds_by_inode(&scratch.path("work")) {
            assert_eq!(of("gone"), (true, None), "{mechanism}");
            assert_eq!(of("replaced"), (true, None), "{mechanism}");
        }
        assert!(!of("new").0, "{mechanism}");
        assert_eq!(of("moved"), (false, later("later")), "{mechanism}");
        assert!(!of("#").0, "{mechanism}");
    }
}

/// A file system that cannot be asked for an inode is looked through, if it is small.
#[test]
fn in_memory_the_end_says_whether_a_file_has_a_name_as_well() {
    needs_root!();
    let scratch = Scratch::new();
    let (work, json) = (text(&scratch.path("work")), text(&scratch.path("io.json")));
    let script = format!("{NAMES}\nmkdir below; echo far >far; mv far below/away");
    let mut unshared = Command::new("unshare");
    let mount = "mount -t tmpfs none \"$0\" && cd \"$0\" && exec \"$@\"";
    unshared.args(["-m", "sh", "-c", mount, &work]).arg(weigh_binary());
    unshared.args(["io", "-q", "--mechanism", "bpf", "--json", &json, "--", "sh", "-c", &script]);
    set_surroundings(&mut unshared, &scratch);
    let output = unshared.output().expect("unshare");
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let of = |name: &str| end_of(&report, &scratch, name);
    let later = |name: &str| Some(Value::from(text(&scratch.path(&format!("work/{name}")))));
    assert_eq!([of("gone"), of("replaced")], [(true, None), (true, None)], "{report}");
    assert!(!of("new").0 && !of("#").0, "{report}");
    assert_eq!(of("moved"), (false, later("later")));
    assert_eq!(of("far"), (false, later("below/away")));
}

/// Where a number is given again without a mark, and where nobody may look, the end of a name is not told as known.
#[test]
fn what_nobody_can_say_of_the_end_of_a_name_is_unavailable() {
    needs_root!();
    let scratch = Scratch::new();
    let (work, json) = (text(&scratch.path("work")), text(&scratch.path("io.json")));
    let script = "echo gone >gone; rm gone; echo stays >stays; echo old >old; echo new >new; mv new old; \
                  echo below >>below";
    let mount = "mkdir lower upper work at && echo was >lower/below && \
                 mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work at && cd at && exec \"$@\"";
    let mut unshared = Command::new("unshare");
    unshared.args(["-m", "sh", "-c", &format!("cd \"$0\" && {mount}"), &work]).arg(weigh_binary());
    unshared.args(["io", "-q", "--mechanism", "bpf", "--json", &json, "--", "sh", "-c", script]);
    set_surroundings(&mut unshared, &scratch);
    let output = unshared.output().expect("unshare");
    if !output.status.success() {
        crate::support::leave_out(&format!("no overlay can be mounted here: {output:?}"));
        return;
    }
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let mut seen = 0;
    for file in report["files"].as_array().expect("files") {
        let name = file["name"].as_str().unwrap_or_default();
        let Some(name) = name.strip_prefix(&format!("{work}/at/")) else { continue };
        let is_known = file.get("deleted_quality").is_none();
        let is_deleted = file.get("is_deleted").is_some();
        assert!(is_known || file["deleted_quality"] == "unavailable" && !is_deleted, "{file}");
        // Who was renamed is there by another name.
        let is_gone = ["gone", "old"].contains(&name);
        assert!(!is_known || is_deleted == is_gone, "{name}: {file}");
        seen += 1;
    }
    assert!(seen >= 4, "{report}");
    assert_eq!(report["qualities"]["is_deleted"]["quality"], "unavailable", "{report}");
}

/// A name that is no UTF-8 is shown as before, and its bytes stand beside it: by every mechanism, in reports and recordings.
#[test]
fn names_that_are_no_text_keep_their_bytes() {
    const SCRIPT: &str = r#"printf x >"$(printf 'a\377')"; printf xy >"$(printf 'a\376')"; cat "$(printf 'a\377')" >/dev/null"#;
    let encoded = |scratch: &Scratch, byte| {
        let path = [text(&scratch.path("work/a")).as_bytes(), &[byte]].concat();
        base64::encode(&path)
    };
    for (mechanism, user) in mechanisms() {
        let scratch = Scratch::new();
        let report = report(&scratch, (mechanism, user), &[], &["sh", "-c", SCRIPT]);
        let name = text(&scratch.path("work/a\u{fffd}"));
        let rows = rows(&report, &name).into_iter().filter(|row| row["written_bytes"] != 0);
        let found: BTreeMap<&str, u64> = rows
            .map(|row| (row["name_base64"].as_str().expect("bytes"), moved(row, "plain")[2]))
            .collect();
        let [first, second] = [0xff, 0xfe].map(|byte| encoded(&scratch, byte));
        assert_eq!(found, BTreeMap::from([(&*first, 1), (&*second, 2)]), "{mechanism}: {report}");
        let plain = report["files"].as_array().expect("files").iter();
        let plain = plain.filter(|row| row["name"] == "/dev/null");
        assert!(plain.clone().count() > 0 && plain.clone().all(|r| r.get("name_base64").is_none()));
    }
    // Who wrote for whom, what could be better, each call, and what was done over time.
    let small = r#"name=$(printf 'a\377'); i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done >"$name"; cat "$name" >/dev/null"#;
    let measured =
        Weigh::bash(small).options("--mechanism ptrace --io --io-calls --interval 20ms").end();
    let expected = Some(encoded(&measured.scratch, 0xff));
    let found = measured.summary().io.as_ref().expect("of files");
    let is_it = |name: &str| name.ends_with("a\u{fffd}");
    let flows = found.flows.iter().filter(|flow| is_it(&flow.name));
    let advice = found.advice.iter().filter(|advice| is_it(&advice.file));
    let mut beside: Vec<(&str, Option<String>)> =
        flows.map(|f| ("flow", f.name_base64.clone())).collect();
    beside.extend(advice.map(|advice| ("advice", advice.file_base64.clone())));
    let recording = measured.recording();
    let calls = |row: weigh_schema::io::IoCall| {
        if row.path.as_deref().is_some_and(is_it) {
            beside.push(("call", row.path_base64));
        }
    };
    recording.each_io_call(calls).expect("calls");
    let moments = |row: weigh_schema::io::Moment| {
        if is_it(&row.path) {
            beside.push(("moment", row.path_base64));
        }
    };
    recording.each_io_moment(moments).expect("moments");
    let places = |row: weigh_schema::io::PlaceMoment| {
        if is_it(&row.path) {
            beside.push(("place", row.path_base64));
        }
    };
    recording.each_io_place(places).expect("places");
    for what in ["flow", "advice", "call", "moment", "place"] {
        assert!(beside.iter().any(|(of, _)| *of == what), "{what}: {}", measured.everything());
    }
    assert!(beside.iter().all(|(_, bytes)| *bytes == expected), "{beside:?}");
    for options in ["--mechanism ptrace --io", "--mechanism preload --level 3"] {
        let measured = Weigh::bash(SCRIPT).options(options).end();
        let paths: BTreeSet<String> =
            measured.files().into_iter().filter_map(|row| row.name_base64).collect();
        let expected = [0xff, 0xfe].map(|byte| encoded(&measured.scratch, byte));
        assert_eq!(paths, BTreeSet::from(expected), "{options}");
        let commands: Vec<(String, String)> = (measured.processes().into_iter())
            .filter_map(|row| Some((row.command, row.command_base64?)))
            .collect();
        let expected = base64::encode(b"cat\0a\xff\0");
        assert_eq!(commands.len(), 1, "{options}: {commands:?}");
        assert_eq!(commands[0].1, expected, "{options}");
        assert!(commands[0].0.contains('\u{fffd}'), "{options}: {commands:?}");
    }
}

/// One name for two files in turn: each has its own size, and its own readers.
#[test]
fn a_workflow_tells_files_apart_that_had_one_name() {
    needs_root!();
    let measured = Weigh::bash(
        "head -c 70000 /dev/zero >t; mv t one; head -c 300 /dev/zero >t; mv t two; cksum one; md5sum two",
    )
    .option("--io")
    .measure();
    let recording = text(&measured.scratch.path("recording"));
    let work = text(&measured.scratch.path("work"));
    let export = ["export", "--format", "wfformat", "--under", &work, &recording];
    let output = weigh(&measured.scratch, &export);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let parts = &document["workflow"]["specification"];
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let sizes: Vec<u64> = list(&parts["files"])
        .iter()
        .map(|file| file["sizeInBytes"].as_u64().expect("a size"))
        .collect();
    assert_eq!(sizes.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([70_000, 300]));
    let tasks = list(&parts["tasks"]);
    let called =
        |name: &str| -> Vec<&Value> { tasks.iter().filter(|task| task["name"] == name).collect() };
    let heads = called("head");
    for (reader, writer) in [("cksum", heads[0]), ("md5sum", heads[1])] {
        let reader = called(reader)[0];
        assert_eq!(list(&reader["parents"]), [writer["id"].clone()], "{reader}");
        assert_eq!(reader["inputFiles"], writer["outputFiles"], "{reader}");
    }
    let output = weigh(
        &measured.scratch,
        &["export", "--format", "darshan-parser", "--under", &work, &recording],
    );
    let listed = String::from_utf8(output.stdout).expect("a text");
    let opens = listed.lines().filter(|line| line.contains("\tPOSIX_OPENS\t"));
    let ids: Vec<_> = opens.map(|line| line.split('\t').take(3).collect::<Vec<_>>()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}

#[test]
fn sockets_have_the_names_of_both_ends() {
    const SCRIPT: &str = "
import os, socket
for name in ('socket', '\\0weigh-%d' % os.getpid()):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect(name)
    server = listener.accept()[0]
    client.send(b'hello')
    server.recv(5)
print(os.getpid())";
    for (mechanism, user) in mechanisms().into_iter().filter(|(name, _)| !name.contains("preload"))
    {
        let scratch = Scratch::new();
        let report = report(&scratch, (mechanism, user), &[], &["python3", "-c", SCRIPT]);
        let names: Vec<&str> = (report["files"].as_array().expect("files").iter())
            .filter(|file| file["object"] == "socket")
            .map(|file| file["name"].as_str().expect("a name"))
            .collect();
        let is_there = |start: &str| names.iter().any(|name| name.starts_with(start));
        for start in ["unix socket [", "unix -> socket [", "unix @weigh-", "unix -> @weigh-"] {
            assert!(is_there(start), "{mechanism}: {start}: {names:?}");
        }
    }
}

/// Paths that the kernel does not say in one piece.
#[test]
fn a_path_that_is_too_long_is_told_so() {
    const SCRIPT: &str = "
import os
for _ in range(40):
    os.mkdir('n' * 200)
    os.chdir('n' * 200)
file = os.open('deep', os.O_CREAT | os.O_WRONLY)
os.write(file, b'12345')
os.close(file)";
    for (mechanism, user) in mechanisms() {
        let scratch = Scratch::new();
        let report = report(&scratch, (mechanism, user), &[], &["python3", "-c", SCRIPT]);
        let files = report["files"].as_array().expect("files");
        let deep = files.iter().find(|file| file["written_bytes"] == 5).expect("it was written");
        let name = deep["name"].as_str().expect("a name");
        assert!(
            name.starts_with("(its path is longer than") || name.starts_with('…'),
            "{mechanism}: {name}"
        );
    }
}

/// Programs whose names are no UTF-8: one by a byte, and one whose name the kernel cuts within a character.
const NAMELESS: &str = r#"
    program=$(command -v cat); w=$(printf 'w\377'); r='ääääääää'
    cp "$program" "$w"; cp "$program" "$r"
    seq 5000 | "./$w" >data; "./$r" data >/dev/null; "./$w" data >/dev/null; sleep 0.3 | "./$w""#;

/// The kernel's names of them, as they are shown and in Base64.
fn nameless() -> [(String, String); 2] {
    let cut = &"ä".repeat(8).into_bytes()[..15];
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    [&b"w\xff"[..], cut].map(|bytes| (shown(bytes), base64::encode(bytes)))
}

/// The kernel's name for a process has its bytes beside it, wherever it stands and however it was followed.
#[test]
fn names_of_processes_keep_their_bytes() {
    let [writer, reader] = nameless();
    for (mechanism, user) in mechanisms() {
        let scratch = Scratch::new();
        let report = report(&scratch, (mechanism, user), &[], &["sh", "-c", NAMELESS]);
        let names = |table: &str, name: &str| -> BTreeSet<(String, Option<String>)> {
            let rows = report[table].as_array().expect("rows").iter();
            let text = |value: &Value| value.as_str().map(str::to_string);
            let bytes = |row: &Value| text(&row[format!("{name}_base64")]);
            rows.map(|row| (text(&row[name]).expect("a name"), bytes(row))).collect()
        };
        for (table, name) in [("processes", "name"), ("files", "process")] {
            let found = names(table, name);
            for (shown, bytes) in [&writer, &reader] {
                let is_there = found.contains(&(shown.clone(), Some(bytes.clone())));
                assert!(is_there, "{mechanism}: {table}: {found:?}");
            }
            let is_plain = |(name, bytes): &(String, Option<String>)| {
                name.contains('\u{fffd}') == bytes.is_some()
            };
            assert!(found.iter().all(is_plain), "{mechanism}: {table}: {found:?}");
        }
        let flows = report["flows"].as_array().expect("flows").iter();
        let flows: Vec<[&Value; 2]> = flows
            .filter(|flow| flow["name"].as_str().is_some_and(|name| name.ends_with("/data")))
            .map(|flow| [&flow["writer_name_base64"], &flow["reader_name_base64"]])
            .collect();
        let expected = [writer.1.as_str(), reader.1.as_str()];
        assert!(flows.iter().any(|flow| *flow == expected), "{mechanism}: {report}");
    }
}

/// The same in recordings, by each mechanism that follows a run.
#[test]
fn recordings_keep_the_bytes_of_names_of_processes() {
    let [writer, reader] = nameless();
    for (mechanism, _) in mechanisms().into_iter().take(3).chain([("poll", None)]) {
        let io = if mechanism == "poll" { "" } else { "--io --interval 20ms" };
        let options = format!("--mechanism {mechanism} {io}");
        let measured = Weigh::bash(NAMELESS).options(&options).end();
        let rows = measured.processes().into_iter();
        let found: BTreeSet<(String, Option<String>)> =
            rows.map(|row| (row.name, row.name_base64)).collect();
        let is_there = |(shown, bytes): &(String, String)| {
            found.contains(&(shown.clone(), Some(bytes.clone())))
        };
        measured.check(is_there(&writer), || format!("{mechanism}: {found:?}"));
        if mechanism == "poll" {
            continue;
        }
        measured.check(is_there(&reader), || format!("{mechanism}: {found:?}"));
        let files = measured.files().into_iter();
        let used: BTreeSet<Option<String>> = files.map(|used| used.process_base64).collect();
        let both = [&writer, &reader].map(|(_, bytes)| Some(bytes.clone()));
        measured.check(both.iter().all(|name| used.contains(name)), || format!("{used:?}"));
        let mut over_time = BTreeSet::new();
        let see = |row: weigh_schema::io::Moment| {
            over_time.insert(row.process_base64);
        };
        measured.recording().each_io_moment(see).expect("moments");
        measured.check(over_time.contains(&both[0]), || format!("{over_time:?}"));
    }
}
