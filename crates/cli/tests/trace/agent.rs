//! An ordinary user's `weigh trace` where an agent runs: his own threads alone, and only what tells of nobody else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};

use weigh_schema::synthesis::{SynthesisReport, What};

use crate::support::library::{Agent, NOBODY};
use crate::support::mortal::Mortal;
use crate::support::run::Scratch;
use crate::support::trace::{counted, lines, succeeds};
use crate::support::{processes, wait_until, weigh_for_everybody, workload};

/// `weigh trace` of an ordinary user's, who asks this agent.
fn trace(agent: &Agent, scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    command.arg(weigh_for_everybody()).arg("trace").args(words);
    command.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    command.env("XDG_RUNTIME_DIR", agent.folder.path()).current_dir(scratch.path("work"));
    command
}

fn run(agent: &Agent, scratch: &Scratch, words: &[&str]) -> Output {
    trace(agent, scratch, words).output().expect("setpriv starts")
}

/// A file that he may write.
fn file(agent: &Agent, name: &str) -> String {
    agent.folder.path().join(name).display().to_string()
}

#[test]
fn a_user_follows_his_own_command_exactly() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let events = file(&agent, "events.jsonl");
    let program = workload("datagrams");
    // sendto(2), and what came back of it, are as many as the program says; of the second an older kernel has no
    // event of its own.
    let listed = run(&agent, &scratch, &["list", "sock_send_length"]);
    let sent = match String::from_utf8_lossy(&listed.stdout).contains("sock_send_length(") {
        true => "sock:sock_send_length{sent=ret}",
        false => "raw_syscalls:sys_exit{sent=ret} if regs->orig_ax == 44",
    };
    let words = [
        "-e",
        "raw_syscalls:sys_enter{id, to=regs->di} if id == 44",
        "-e",
        sent,
        "-o",
        &events,
        "--",
        &program,
        "1003",
        "100",
        "0",
    ];
    let said = succeeds(&run(&agent, &scratch, &words));
    let (taken, lost) = counted(&said);
    assert_eq!(taken + lost, 2 * 1003, "{said}");
    let text = std::fs::read_to_string(&events).expect("a file");
    assert!(text.lines().filter(|line| line.contains("\"sent\":100")).count() >= 1000, "{said}");
    wait_until("nothing is left", 5.0, || processes::children(agent.process.id()).is_empty());
}

#[test]
fn a_user_sees_the_names_in_his_own_system_calls() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    for event in [
        "openat",
        "syscalls:sys_enter_openat",
        "openat{filename, ret} if filename == \"/etc/hostname\" && ret != -ENOENT",
    ] {
        let words = ["-e", event, "--", "cat", "/etc/hostname"];
        let said = succeeds(&run(&agent, &scratch, &words));
        assert_eq!(said.matches("\"/etc/hostname\"").count(), 1, "{event}: {said}");
    }
}

/// Each of them needs a field that the event has not.
#[test]
fn a_user_asks_for_several_things_of_one_event() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let exits = "raw_syscalls:sys_exit";
    let told = file(&agent, "told.json");
    let words = [
        ["--top", "3 by comm"],
        ["--histogram", &format!("ret of {exits} by comm")],
        ["--rate", &format!("of {exits} by comm, regs->orig_ax")],
        ["--json", &told],
    ];
    let words: Vec<&str> = words.concat().into_iter().chain(["-q", "--", "sleep", "0.1"]).collect();
    succeeds(&run(&agent, &scratch, &words));
    let text = std::fs::read_to_string(&told).expect("a report");
    let report: SynthesisReport = serde_json::from_str(&text).expect("a report");
    let rows = report.found.iter().map(|found| match &found.what {
        What::Rate(table) | What::Top(table) | What::Histogram(table) => {
            (table.by.len(), table.rows.iter().map(|row| row.events_total).sum::<u64>())
        }
        other => panic!("{other:?}"),
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.iter().map(|(by, _)| *by).collect::<Vec<_>>(), [2, 1, 1]);
    assert!(rows.iter().all(|(_, events)| *events > 0 && *events == rows[0].1), "{rows:?}");
}

#[test]
fn nothing_is_told_of_others() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let events = file(&agent, "events.jsonl");
    let set_user = agent.folder.path().join("become");
    std::fs::copy("/usr/bin/setpriv", &set_user).expect("a copy");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(&set_user, mode).expect("rights");
    // Root's beside him; one that has become root; one that is closed to others; and his own.
    let root = Command::new("sh").args(["-c", "while :; do true </dev/null; done"]).spawn();
    let mut root = Mortal::of(root);
    let become_root = format!("{} --reuid=0 --regid=0 --clear-groups", set_user.display());
    // A program of its own: a shell may have others, such as cat, in itself.
    let own = workload("datagrams");
    let script = format!("echo own >/dev/null; {become_root} {own} 1 100 0; exec {own} 1 100 0");
    let words = ["-e", "syscalls", "-e", "sched", "--system", "-o", &events, "--", "sh", "-c"];
    let output = run(&agent, &scratch, &[&words[..], &[&script]].concat());
    let (id, _) = (root.id(), root.kill());
    let _ = root.wait();
    let said = succeeds(&output);
    assert!(said.contains("sched_wakeup") && said.contains("is left out"), "{said}");
    assert!(said.contains("left out is what is not a user's to see: id, to, to_tid"), "{said}");
    let text = std::fs::read_to_string(&events).expect("a file");
    std::fs::write(scratch.path("events.jsonl"), &text).expect("a copy");
    let all = lines(&scratch, "events.jsonl");
    assert!(all.len() > 50, "{said}");
    assert!(all.iter().all(|event| event["tgid"] != id), "root's is told");
    let executed = |name: &str| {
        let file = |event: &serde_json::Value| event["fields"]["file"] == name;
        all.iter().filter(|event| file(event)).count()
    };
    // Once: as root's it is not to be seen, nor is the program by which it became root's.
    assert_eq!(executed(&own), 1, "{text}");
    assert_eq!(executed(&set_user.display().to_string()), 0, "{text}");
    // No address of the kernel's is in it: those begin so. -1 is the call of one that was started by none.
    let text = text.replace("0xffffffffffffffff", "").replace("18446744073709551615", "");
    assert!(!text.contains("0xffff"), "{text}");
    assert!(!text.contains("1844674"), "{text}");
}

#[test]
fn what_would_tell_of_others_is_refused_with_the_reason() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let cases: [(&[&str], &str); 15] = [
        (&["-e", "net:net_dev_queue"], "passed in interrupts"),
        (&["-e", "sched:sched_switch{next->pid}"], "'next->pid' is not a user's to see"),
        (&["-e", "sched:sched_switch{id=arg2}"], "'id' is not a user's to see"),
        (&["-e", "sched:sched_switch{prev->mm->pgd}"], "is not a user's to see"),
        (&["-e", "sched:sched_switch{stack}"], "'stack' is not a user's to see"),
        (&["-e", "sched:sched_switch{bytes(prev, 64)}"], "is not a user's to see"),
        (&["-e", "sched:sched_switch{prev_state} if next->pid == 1"], "what the filter looks at"),
        (&["-e", "sched:sched_switch{prev_state} if prev_state == next->pid"], "what the filter"),
        (&["-e", "sched:sched_switch{prev_state}", "-f", "prev > 5"], "what the filter looks at"),
        (&["-e", "raw_syscalls:sys_enter{regs}"], "CAP_BPF and CAP_PERFMON, may follow"),
        (&["-e", "fn:vfs_write"], "functions of the kernel"),
        (&["-e", "raw:sys_enter{arg0}"], "addresses as often as not"),
        (&["-e", "raw_syscalls:sys_enter{counter(cpu-clock)}"], "is not a user's to see"),
        (&["-e", "user:libc.so.6:malloc"], "every process of the machine"),
        (&["-e", "raw_syscalls:sys_enter{id}", "--buffer", "128MiB"], "32 MiB at most"),
    ];
    for (words, reason) in cases {
        let output = run(&agent, &scratch, &[words, &["--", "touch", "ran"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {said}");
        assert!(said.contains(reason), "{words:?}: {said}");
        assert!(!scratch.path("work/ran").exists(), "{words:?} started the command");
    }
    let others = run(&agent, &scratch, &["-e", "raw_syscalls:sys_enter{id}", "--pid", "1"]);
    let said = String::from_utf8_lossy(&others.stderr);
    assert!(said.contains("not the user's own"), "{said}");
    let many = ["-e", "raw_syscalls:sys_enter{id}"].repeat(17);
    let said = run(&agent, &scratch, &[&many[..], &["--", "true"]].concat());
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("16 probes at most"), "{said}");
    // Without an agent it is as before, and an agent would help.
    let mut alone = trace(&agent, &scratch, &["-e", "raw_syscalls:sys_enter{id}", "--", "true"]);
    let alone = alone.env("WEIGH_SOCKET", "/nowhere").output().expect("setpriv starts");
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(said.contains("CAP_BPF") && said.contains("weigh agent"), "{said}");
}

/// What the agent answers who asks it for a stream of one event.
fn answer(stream: &mut BufReader<UnixStream>, event: &str) -> String {
    let event = serde_json::json!({"text": event, "more": [], "is_of_set": false});
    let open = serde_json::json!({"open": {
        "version": 2, "events": [event], "filters": [], "sampling": null, "follows": true,
        "buffer": null, "total_order": false, "per_cpu": false, "wake": null,
    }});
    stream.get_mut().write_all(format!("{open}\n").as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_line(&mut answer).expect("an answer");
    answer
}

/// The user's own weigh would not ask for them; a hostile one does, and the agent may be root's.
#[test]
fn the_agent_opens_no_file_that_a_user_names() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let place = |name: &str| scratch.path("work").join(name).display().to_string();
    std::fs::copy(workload("spin"), place("present")).expect("a copy");
    std::os::unix::fs::symlink("/dev/zero", place("devices")).expect("a link");
    let pipe = std::process::Command::new("mkfifo").arg(place("fifos-1")).status();
    assert!(pipe.expect("mkfifo runs").success());
    let socket = agent.folder.path().join("socket");
    let mut stream = BufReader::new(weigh_agent::stream(&socket).expect("the agent serves"));
    let names = ["present", "presend", "devices", "fifos-1", "nowhere"];
    for (form, what) in [("user:", ":main"), ("user:", ":mein"), ("usdt:", ":a:b")] {
        let answers = names.map(|name| {
            let said = answer(&mut stream, &format!("{form}{}{what}", place(name)));
            assert!(said.contains("refused") && said.contains("does not follow it"), "{said}");
            said.replace(name, "NAME")
        });
        assert!(answers.iter().all(|said| *said == answers[0]), "{answers:#?}");
    }
}

#[test]
fn it_is_changed_while_it_runs_and_ends_with_its_weigh() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let quiet = |words: &[&str]| {
        let mut command = trace(&agent, &scratch, words);
        Mortal::of(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn())
    };
    let words = ["-e", "sched:sched_process_exec{p->pid}", "--for", "60s"];
    let mut stream = quiet(&words);
    let pid = stream.id().to_string();
    let ask = |words: &[&str]| {
        let output = run(&agent, &scratch, &[&["ctl", "--stream", &pid][..], words].concat());
        let (said, why) = (output.stdout, output.stderr);
        (output.status.success(), String::from_utf8_lossy(&[said, why].concat()).into_owned())
    };
    wait_until("it listens", 20.0, || ask(&["list"]).0);
    let (is_done, said) = ask(&["add", "raw_syscalls:sys_exit{ret} if ret < 0"]);
    assert!(is_done && said.contains("probe 1"), "{said}");
    let (is_done, said) = ask(&["filter", "1", "ret < -1"]);
    assert!(is_done, "{said}");
    for words in [&["add", "net:netif_rx"][..], &["filter", "1", "regs->ip == 1"]] {
        let (is_done, said) = ask(words);
        assert!(!is_done && said.contains("may follow it without the agent"), "{said}");
    }
    // His `true` is executed where the stream sees it.
    wait_until("it has seen something", 10.0, || {
        let (_, said) = ask(&["list", "--json"]);
        serde_json::from_str::<serde_json::Value>(&said)
            .is_ok_and(|register| register["probes"][0]["sent"].as_u64() > Some(0))
    });
    let (_, said) = ask(&["list", "--json"]);
    let register: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(register["buffers"][0]["taken"], register["taken"], "{said}");
    assert_eq!(register["buffers"][0]["output"], register["output"], "{said}");
    assert!(register["taken"].as_u64() > Some(0), "{said}");
    // As many as a user may have, and not one more.
    let mut more: Vec<_> = (0..3).map(|_| quiet(&words)).collect();
    wait_until("four run", 20.0, || processes::children(agent.process.id()).len() == 4);
    let output = run(&agent, &scratch, &words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("as the agent allows a user"), "{said}");
    for weigh in more.iter_mut().chain([&mut stream]) {
        weigh.kill().expect("it is there");
        weigh.wait().expect("it ends");
    }
    wait_until("nothing is left of them", 1.0, || {
        processes::children(agent.process.id()).is_empty()
    });
}
