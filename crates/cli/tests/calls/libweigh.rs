//! libweigh and `weigh agent`: programs of `libweigh/tests`, which hold each account to what they
//! themselves did, to the byte.

mod crossed;
mod flood;
mod starved;

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::support::library::{
    Agent, Asked, NOBODY, folder, must, program, python_module, sanitized,
};
use crate::support::weigh_binary;
use tempfile::TempDir;

#[test]
fn accounts_of_many_threads_are_exact_to_the_byte() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    must(agent.command("exact").arg(storage.path()).arg("200"));
    agent.stop();
}

#[test]
fn moves_and_connections_are_as_the_kernel_says() {
    needs_root!();
    let agent = Agent::start(&[]);
    must(&mut agent.command("states"));
    must(&mut agent.as_nobody("states"));
}

#[test]
fn allocations_of_parts_add_up_to_those_of_the_account() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    must(agent.command("by_part").arg(storage.path()));
    must(agent.as_nobody("by_part").arg(storage.path()));
}

#[test]
fn where_calls_are_followed_the_next_call_is_all_that_is_accounted() {
    needs_root!();
    let agent = Agent::start(&["--every-call"]);
    let storage = agent.storage();
    must(agent.command("exact").arg(storage.path()).args(["100", "follows"]));
}

#[test]
fn a_user_without_rights_is_measured_as_exactly() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    must(agent.as_nobody("exact").arg(storage.path()).arg("50"));
}

#[test]
fn forks_execs_deaths_and_too_many_tokens_confuse_nothing() {
    needs_root!();
    let agent = Agent::start(&[]);
    must(&mut agent.command("life"));
    must(&mut agent.as_nobody("life"));
}

/// Sanitizers end a program with what they have found.
#[test]
fn sanitizers_find_nothing() {
    needs_root!();
    if std::env::var_os("WEIGH_LIBWEIGH").is_some() {
        crate::support::leave_out("no compiler here: the programs were made elsewhere");
        return;
    }
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    let socket = agent.folder.path().join("socket");
    for sanitizer in ["address,undefined", "thread"] {
        let made = sanitized(sanitizer, &["together", "exact", "stream_hostile", "regions_life"]);
        let program = |name: &str, socket: &Path| {
            let mut command = Command::new(made.path().join(name));
            command.env("WEIGH_SOCKET", socket);
            command
        };
        must(program("regions_life", &socket).arg("threads"));
        must(program("regions_life", &socket).arg("others"));
        must(&mut program("together", &storage.path().join("nobody-listens")));
        must(&mut program("together", &socket));
        must(program("exact", &socket).arg(storage.path()).arg("20"));
        if sanitizer != "thread" {
            // What it writes to while it is read is a race on purpose.
            must(program("stream_hostile", &socket).arg(made.path()).arg("100"));
        }
    }
}

#[test]
fn what_ends_later_is_accounted_and_told() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    must(agent.command("deferred_writes").arg(storage.path()));
}

#[test]
fn a_limit_of_an_account_is_told_once_it_is_passed_and_not_before() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    must(agent.command("limits").arg(storage.path()));
    must(agent.as_nobody("limits").arg(storage.path()));
}

/// The server of `examples`, which throttles by its own accounts, compiled as a user does.
#[test]
fn a_server_throttles_by_its_own_accounts() {
    needs_root!();
    if std::env::var_os("WEIGH_LIBWEIGH").is_some() {
        crate::support::leave_out("no compiler here");
        return;
    }
    let agent = Agent::start(&[]);
    // On a file system with a device below it: of files in memory no page becomes dirty.
    let place = agent.storage();
    let installed = program("limits").parent().expect("a folder").to_path_buf();
    let server = place.path().join("throttle");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/throttle.c");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-I"]);
    compile.arg(installed.join("include")).arg(source).arg("-o").arg(&server);
    must(compile.arg(installed.join("lib/libweigh.a")).arg("-pthread"));
    let file = place.path().join("kept");
    let mut command = Command::new(&server);
    command.arg(&file).arg("10").env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    let mut server = Asked::start(&mut command);
    // 36 KiB are nine pages: below the limit of ten.
    assert_eq!(server.say("7 36"), "user 7: kept 36 KiB");
    assert_eq!(server.say("8 12"), "user 8: kept 12 KiB");
    assert_eq!(server.say("7 8"), "user 7: kept 8 KiB");
    assert_eq!(server.answer(), "user 7 has made 11 pages dirty, of 10");
    assert_eq!(server.say("7 4"), "user 7: later");
    assert_eq!(server.say("8 4"), "user 8: kept 4 KiB");
    assert_eq!(server.say("0 0"), "next period");
    assert_eq!(server.say("7 4"), "user 7: kept 4 KiB");
    assert_eq!(std::fs::metadata(&file).expect("it is there").len(), 1024 * (36 + 12 + 8 + 4 + 4));
}

#[test]
fn pages_are_their_writer_s_nobody_s_or_said_to_be_lost() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    must(agent.command("pages").arg(storage.path()));
}

#[test]
fn others_accounts_are_read_by_who_may_only() {
    needs_root!();
    let agent = Agent::start(&[]);
    for (owner, reader, may) in
        [("root", "root", true), ("nobody", "nobody", true), ("root", "nobody", false)]
    {
        let command = |who: &str| match who {
            "root" => agent.command("peer"),
            _ => agent.as_nobody("peer"),
        };
        let mut served = Asked::start(command(owner).arg("serve"));
        assert_eq!(served.answer(), "ready");
        let pid = served.process.id().to_string();
        let way = if may { "read" } else { "refused" };
        must(command(reader).arg(way).arg(&pid));
    }
    // In a user namespace of one's own one has all capabilities, and they count for nothing.
    let mut served = Asked::start(agent.command("peer").arg("serve"));
    assert_eq!(served.answer(), "ready");
    let pid = served.process.id().to_string();
    let mut stranger = Command::new("setpriv");
    stranger.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    stranger.args(["unshare", "--user", "--map-root-user"]).arg(program("peer"));
    stranger.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    must(stranger.args(["refused", &pid]));
    // The capability is enough, whichever user has it.
    let mut reader = Command::new("setpriv");
    reader.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    reader.args(["--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace"]);
    reader.arg(program("peer")).env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    must(reader.arg("read").arg(&pid));
}

#[test]
fn a_program_in_a_pid_namespace_is_found_by_its_own_numbers() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    let mut apart = Command::new("unshare");
    apart.args(["--pid", "--fork", "--kill-child"]).arg(program("exact"));
    apart.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    must(apart.arg(storage.path()).arg("20"));
}

#[test]
fn the_library_allocates_nothing_prints_nothing_and_ends_nothing() {
    let library = program("lib/libweigh.so.0");
    let output = must(Command::new("nm").args(["-D", "--undefined-only"]).arg(library));
    let used = String::from_utf8_lossy(&output.stdout).into_owned();
    let used: Vec<&str> =
        used.lines().filter_map(|l| l.split_whitespace().last()?.split('@').next()).collect();
    assert!(used.contains(&"mmap"), "{used:?}");
    let forbidden =
        ["alloc", "printf", "puts", "write", "exit", "abort", "assert", "signal", "syslog"];
    // Into memory of the caller's is no printing, and the room of a file is no memory.
    let is_fine = |name: &&str| matches!(*name, "snprintf" | "__snprintf_chk" | "posix_fallocate");
    for name in used.into_iter().filter(|name| !is_fine(name)) {
        assert!(!forbidden.iter().any(|bad| name.contains(bad)), "it uses {name}");
    }
}

#[test]
fn a_hostile_program_harms_nobody() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    let mut hostile: Vec<Child> = ["1", "2"]
        .iter()
        .map(|_| {
            let mut command = agent.as_nobody("hostile");
            command.arg(storage.path()).arg("4").spawn().expect("it starts")
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        must(agent.command("exact").arg(storage.path()).arg("50"));
    }
    for hostile in &mut hostile {
        assert!(hostile.wait().expect("it is there").success());
    }
    must(agent.command("exact").arg(storage.path()).arg("50"));
    agent.stop();
}

#[test]
fn the_agent_may_end_and_come_again() {
    needs_root!();
    let agent = Agent::start(&[]);
    let mut steps = Asked::start(&mut agent.command("steps"));
    assert_eq!(steps.numbers(), (0, 2, 2002));
    // In order, of which the program knows at once.
    let place = agent.stop();
    assert_eq!(steps.numbers(), (2, 4, 2002));
    let agent = Agent::start_in(place, &[]);
    let (calls, bytes) = until_measured(&mut steps, 4, 2002);
    // Killed, of which it knows within a second.
    let place = agent.kill();
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(steps.numbers(), (2, calls + 2, bytes));
    let _agent = Agent::start_in(place, &[]);
    until_measured(&mut steps, calls + 2, bytes);
}

/// Goes on until the program has found the agent, which both of its threads then profit from.
fn until_measured(steps: &mut Asked, mut calls: u64, mut bytes: u64) -> (u64, u64) {
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(200));
        let (reason, now, sent) = steps.numbers();
        calls += 2;
        assert_eq!(now, calls);
        if reason == 0 {
            assert_eq!(sent, bytes + 2002);
            return (calls, sent);
        }
        // The second thread may have been the one that found it.
        assert!(sent == bytes || sent == bytes + 1001, "{sent} after {bytes}");
        bytes = sent;
    }
    panic!("the agent is not found again");
}

#[test]
fn without_an_agent_all_works_and_says_why_nothing_is_measured() {
    let nowhere = folder();
    let mut command = Command::new(program("steps"));
    let mut steps =
        Asked::start(command.env("WEIGH_SOCKET", nowhere.path().join("nobody-listens")));
    assert_eq!(steps.numbers(), (1, 2, 0));
    assert_eq!(steps.numbers(), (1, 4, 0));
}

#[test]
fn what_nobody_measured_is_not_taken_for_settled_and_holds_nobody_up() {
    needs_root!();
    let place = folder();
    let mut program = Command::new(program("unmeasured"));
    let mut program = Asked::start(program.env("WEIGH_SOCKET", place.path().join("socket")));
    assert_eq!(program.answer(), "alone");
    let _agent = Agent::start_in(place, &[]);
    assert_eq!(program.ask(), "served");
}

#[test]
fn a_user_has_a_limit_of_programs() {
    needs_root!();
    let agent = Agent::start(&["--per-user", "2"]);
    let first: Vec<Asked> = (0..2)
        .map(|_| {
            let mut one = Asked::start(&mut agent.as_nobody("steps"));
            assert_eq!(one.numbers(), (0, 2, 2002));
            one
        })
        .collect();
    let mut third = Asked::start(&mut agent.as_nobody("steps"));
    assert_eq!(third.numbers(), (5, 2, 0));
    // Of another user there is room, and of this one when another has gone.
    assert_eq!(Asked::start(&mut agent.command("steps")).numbers(), (0, 2, 2002));
    drop(first);
    drop(third);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(Asked::start(&mut agent.as_nobody("steps")).numbers(), (0, 2, 2002));
}

/// Where this machine has counters of the CPU the program says nothing: it knows of stand-ins and of none.
#[test]
fn counters_that_this_machine_has_not_are_not_measured_and_the_reason_is_told() {
    needs_root!();
    let agent = Agent::start(&[]);
    let output = agent.command("counting").arg("missing").output().expect("it is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || said.contains("weigh_subsystems(w) & WEIGH_COUNTERS"),
        "{said}"
    );
}

#[test]
fn two_agents_do_not_share_a_socket() {
    needs_root!();
    let agent = Agent::start(&[]);
    let socket = agent.folder.path().join("socket");
    let second = Command::new(weigh_binary())
        .args(["agent", "--socket"])
        .arg(&socket)
        .output()
        .expect("weigh starts");
    assert_eq!(second.status.code(), Some(125));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("somebody serves there already"), "{said}");
    // A file that is no socket is not taken away.
    let file = agent.folder.path().join("file");
    std::fs::write(&file, "precious").expect("a file");
    let third = Command::new(weigh_binary())
        .args(["agent", "--socket"])
        .arg(&file)
        .output()
        .expect("weigh starts");
    assert_eq!(third.status.code(), Some(125));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "precious");
    // What an agent that was killed has left is.
    let agent = Agent::start_in(agent.kill(), &[]);
    agent.stop();
}

#[test]
fn an_agent_makes_one_folder_for_its_socket_and_no_more() {
    needs_root!();
    let place = folder();
    let missing = place.path().join("missing");
    let socket = missing.join("folder/socket");
    // One that does not refuse it would serve for good.
    let mut agent = Command::new("timeout");
    agent.arg("20").arg(weigh_binary()).args(["agent", "--socket"]).arg(&socket);
    let refused = agent.output().expect("weigh starts");
    assert_eq!(refused.status.code(), Some(125));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let expected =
        format!("the folder {} lies in one that is not there", missing.join("folder").display());
    assert!(
        said.contains(&format!("--socket {}", socket.display())) && said.contains(&expected),
        "{said}"
    );
    assert!(!missing.exists());
    let made = TempDir::new_in(place.path()).expect("a folder");
    std::fs::remove_dir(made.path()).expect("it is empty");
    Agent::start_in(made, &[]).stop();
}

/// The Python module, installed as a user does.
#[test]
fn python_reads_the_same_numbers() {
    needs_root!();
    let agent = Agent::start(&[]);
    let (module, storage) = (python_module(), agent.storage());
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh/python/tests");
    let mut command = Command::new("python3");
    command.args(["-B", "-W", "ignore", "-m", "unittest", "-v", "test_weigh"]).current_dir(tests);
    command.env("PYTHONPATH", module).env("STORAGE", storage.path());
    command.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    let output = must(&mut command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Ran 18 tests"), "{said}");
}

#[test]
fn python_without_an_agent_knows_nothing_and_says_so() {
    let (module, nowhere) = (python_module(), folder());
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh/python/tests");
    let mut command = Command::new("python3");
    command.args(["-B", "-W", "ignore", "-m", "unittest", "-v", "test_alone"]).current_dir(tests);
    command.env("PYTHONPATH", module);
    command.env("WEIGH_SOCKET", nowhere.path().join("nobody-listens"));
    let said = String::from_utf8_lossy(&must(&mut command).stderr).into_owned();
    assert!(said.contains("Ran 6 tests"), "{said}");
}

/// Two requests write to each page of a file, the first 1,229 bytes, the second the rest: prints what each is charged.
const SHARED_PAGES: &str = r#"
import os, sys, weigh
file = os.open(os.path.join(sys.argv[1], "shared"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
for page in range(10):
    os.pwrite(file, bytes(4096), page * 4096)
os.fsync(file)
for page in range(10):
    with weigh.account("first", ["pagecache", "block"]) as first:
        os.pwrite(file, bytes(1229), page * 4096)
    with weigh.account("second", ["pagecache", "block"]) as second:
        os.pwrite(file, bytes(4096 - 1229), page * 4096 + 1229)
os.fsync(file)
assert first.why is None and second.why is None, (first, second)
assert first.wait(5) and second.wait(5)
print(first.later.block_bytes_total, second.later.block_bytes_total)
"#;

#[test]
fn the_agent_shares_pages_out_as_it_was_told() {
    needs_root!();
    let module = python_module();
    for (share, first) in [("bytes", 1229), ("equal", 2048), ("last", 0)] {
        let agent = Agent::start(&["--share", share]);
        let storage = agent.storage();
        let mut command = Command::new("python3");
        command.args(["-B", "-c", SHARED_PAGES]).arg(storage.path());
        command.env("PYTHONPATH", module);
        command.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
        let output = must(&mut command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let charged: Vec<u64> =
            said.split_whitespace().map(|word| word.parse().expect("bytes")).collect();
        // More intervals than there is room for owners of sixteen pages: those of one account are one.
        assert_eq!(charged, [10 * first, 10 * (4096 - first)], "--share {share}");
        agent.stop();
    }
}

#[test]
fn pages_of_more_accounts_than_can_be_told_apart_are_not_foreign() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    must(agent.as_nobody("crowd").arg(storage.path()));
    agent.stop();
}

#[test]
fn what_threads_of_io_uring_do_is_accounted_to_who_asked_for_it() {
    needs_root!();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    must(agent.as_nobody("uring").arg(storage.path()));
    agent.stop();
}

/// CAP_BPF and CAP_PERFMON, and nothing else.
#[test]
fn two_capabilities_are_enough_for_the_agent() {
    needs_root!();
    let agent = Agent::with_two_capabilities(folder(), &[]);
    let storage = agent.storage();
    must(agent.command("exact").arg(storage.path()).arg("30"));
    must(agent.as_nobody("exact").arg(storage.path()).arg("30"));
    let mut served = Asked::start(agent.as_nobody("peer").arg("serve"));
    assert_eq!(served.answer(), "ready");
    must(agent.as_nobody("peer").arg("read").arg(served.process.id().to_string()));
}
