//! An ordinary user's `weigh run` with an agent: the kernel follows his job, as it does for root. The
//! agent has the rights that its unit gives it, and no others; without root nothing of this can be
//! tested.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::support::agent::{Agent, NOBODY, root_for_everybody};
use crate::support::measured::Measured;
use crate::support::run::Weigh;
use crate::support::{patience, processes, wait_until, workload};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weigh_agent::{RemoteJob, RemoteWrites};
use weigh_collect::follow::{Attachment as _, JobDetail};
use weigh_schema::event::CollectorState;
use weigh_schema::{Mechanism, Quality};
use weigh_wire::messages::JobParts;
use weigh_wire::{Answer, HEAD_BYTES, Head, JobRequest, Message as _, VERSION};

/// Somebody of the agent's who follows a job.
fn open(agent: &Agent) -> Result<RemoteJob, weigh_agent::RemoteError> {
    let wanted = JobDetail::default();
    RemoteJob::open(&agent.scratch.path("socket"), wanted)
}

/// The kernel followed it, through the agent.
#[track_caller]
fn was_followed(measured: &Measured) {
    measured.was_followed_by_the_kernel();
    let collectors = &measured.summary().collectors;
    let through = collectors.iter().any(|c| {
        c.name == "processes" && c.reason.as_ref().is_some_and(|r| r.contains("through the agent"))
    });
    measured.check(through, || "it was not through the agent".to_string());
}

#[track_caller]
fn is_exact(measured: &Measured, metrics: &[&str]) {
    for metric in metrics {
        let value = measured.value(metric);
        let is_so = value.quality == Quality::Exact && value.source == Mechanism::Bpf;
        measured.check(is_so, || format!("{metric}: {value:?}"));
    }
}

#[test]
fn all_is_exact() {
    needs_root!();
    let agent = Agent::start();
    let measured = agent.workload("procs 500 exec").options("--mechanism bpf").measure();
    was_followed(&measured);
    measured.is("processes_total", measured.truth("processes_total"));
    assert_eq!(measured.processes().len() as u64, measured.truth("processes_total"));
    is_exact(&measured, &["processes_total", "processes_peak", "cpu_seconds"]);

    let measured = agent.workload("fill 257000000 exit").measure();
    was_followed(&measured);
    measured.is_near("memory_peak_process_rss_bytes", measured.truth("peak_rss_bytes"), 0.01);
    is_exact(&measured, &["memory_peak_process_rss_bytes", "memory_peak_rss_sum_bytes"]);

    let io = workload("io");
    let script = format!("{io} read 1000003 1021 & {io}-static write 2000003 4099 & wait");
    let measured = agent.asked_by(Weigh::bash(&script)).measure();
    was_followed(&measured);
    let row = measured.process(&format!("{io}-static write 2000003 4099"));
    let beyond = row.metrics["io_written_bytes_total"].as_f64() - 2_000_003.0;
    measured.check((1.0..10_000.0).contains(&beyond), || format!("{beyond} bytes too many"));

    let measured = agent.workload("spin 300 2").measure();
    let truth = measured.truth("cpu_ns") as f64 * 1e-9;
    measured.is_between("cpu_seconds", truth, truth + patience(0.02).as_secs_f64());
    wait_until("nobody follows a job any more", 5.0, || agent.sessions().is_empty());
}

#[test]
fn a_limit_on_memory_is_held_in_the_kernel() {
    needs_root!();
    let agent = Agent::start();
    let run = agent.workload("grow step 1000000 1000 2000000000");
    let progress = run.scratch().path("progress");
    let run = run.options("--limit memory_peak_bytes=100MB").env("GROW_PROGRESS", progress);
    let measured = run.end();
    measured.check(measured.status.code() == Some(124), || "expected 124".to_string());
    was_followed(&measured);
    let page = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let page = if page.is_ok_and(|text| text.contains("[always]")) { 2u64 << 20 } else { 0 };
    measured.is_between("memory_peak_bytes", 1e8, (100_500_000 + page) as f64);
    assert_eq!(measured.scratch.survivors(), Vec::<u32>::new());
    let limit = &measured.summary().limits[0];
    assert_eq!((limit.enforced_by.as_str(), limit.exceeded), ("bpf", true));
}

#[test]
fn a_limit_on_processes_is_held_in_the_kernel() {
    needs_root!();
    let agent = Agent::start();
    let run = agent.workload("procs 300 together").options("--limit processes_peak=50");
    let measured = run.end();
    measured.check(measured.status.code() == Some(124), || "expected 124".to_string());
    was_followed(&measured);
    measured.is_between("processes_peak", 51.0, 52.0);
    assert_eq!(measured.scratch.survivors(), Vec::<u32>::new());
}

#[test]
fn a_daemon_is_waited_for() {
    needs_root!();
    let agent = Agent::start();
    let measured = agent.workload("daemon 1500 daemon-output").measure();
    was_followed(&measured);
    measured.is_between("wall_seconds", 1.5, 1.5 + patience(2.0).as_secs_f64());
    let size = measured.scratch.path("work/daemon-output").metadata().expect("a file").len();
    assert_eq!(size, 1_000_003, "weigh ended before the daemon");
}

/// A program that has become root's is one of the job, but not the user's to stop, nor to look at.
#[test]
fn what_the_user_may_not_signal_no_limit_of_his_stops() {
    needs_root!();
    let agent = Agent::start();
    let become_root = root_for_everybody(&agent.scratch);
    let grow = workload("grow");
    let command = [
        &become_root,
        "--reuid=0",
        "--regid=0",
        "--clear-groups",
        &grow,
        "step",
        "1000000",
        "1000",
    ];
    let run = agent.asked_by(Weigh::run(command).argument("200000000"));
    let progress = run.scratch().path("progress");
    let measured = run
        .options("--limit memory_peak_bytes=100MB --grace 100ms")
        .env("GROW_PROGRESS", &progress)
        .end();
    was_followed(&measured);
    measured.check(measured.summary().limits[0].exceeded, || "it was not crossed".to_string());
    measured.is_between("memory_peak_process_rss_bytes", 2e8, 2.2e8);
    // What it ends with when it has all it wants and nobody has ended it for 10 s.
    let exit = measured.summary().exit.clone().expect("it has ended");
    measured.check(exit.code == Some(3) && exit.signal.is_none(), || format!("{exit:?}"));
    let rows = measured.processes();
    let names: Vec<_> = rows.iter().map(|row| row.command.as_str()).collect();
    assert_eq!(names, ["grow"], "its arguments are not the user's to see");
}

#[test]
fn when_the_agent_dies_the_job_goes_on() {
    needs_root!();
    let mut agent = Agent::start();
    let script = format!(
        "{} 100; : > running; until [ -e go ]; do sleep 0.05; done; sleep 1; echo done",
        workload("spin")
    );
    let mut running = agent.asked_by(Weigh::bash(&script)).start();
    let mark = running.scratch.path("work/running");
    running.wait_until("the job runs", 20.0, || mark.exists());
    assert_eq!(agent.sessions().len(), 1);
    // Until a tick has told who is there.
    std::thread::sleep(patience(1.2));
    agent.process.kill().expect("it is there");
    agent.process.wait().expect("it is there");
    std::fs::write(running.scratch.path("work/go"), "").expect("a file");
    let measured = running.end();
    measured.check(measured.status.success(), || "expected 0".to_string());
    assert_eq!(measured.stdout, b"done\n");
    measured.said("the agent has gone");
    let value = measured.value("processes_total");
    measured.check(value.quality == Quality::Estimated && value.number() >= Some(2.0), || {
        format!("{value:?}")
    });
    measured.check(value.reason.as_ref().is_some_and(|r| r.contains("is missing")), || {
        format!("{value:?}")
    });
    let wall = measured.number("wall_seconds");
    measured.check(wall >= 2.0, || format!("weigh ended after {wall} s"));
    let active = |c: &&weigh_schema::event::CollectorStatus| {
        c.mechanism == Mechanism::Bpf && c.status == CollectorState::Active
    };
    assert_eq!(measured.summary().collectors.iter().find(active), None);
}

#[test]
fn when_weigh_dies_nothing_stays_in_the_kernel() {
    needs_root!();
    let agent = Agent::start();
    let mut running = agent.workload("spin 60000").start();
    running.process("spin");
    let sessions = agent.sessions();
    assert_eq!(sessions.len(), 1);
    // Where memory runs out it is ended, and not the agent of all users.
    let score = |pid: u32| {
        let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
        score.expect("it is there").trim().parse::<i32>().expect("a number")
    };
    assert!(score(sessions[0]) > score(agent.process.id()), "{}", score(sessions[0]));
    let held = processes::bpf_identifiers(sessions[0]);
    assert!(!held.is_empty(), "the session holds no programs");
    let job = running.process("spin");
    running.child.kill().expect("it is there");
    running.child.wait().expect("it is there");
    wait_until("the session has ended", 5.0, || agent.sessions().is_empty());
    assert!(processes::is_alive(job), "the job went with it");
    processes::signal(job, 9);
    for (kind, id) in held {
        let others = processes::all();
        let held =
            others.iter().any(|p| processes::bpf_identifiers(*p).contains(&(kind.clone(), id)));
        assert!(!held, "{kind} {id} is left");
    }
}

#[test]
fn nobody_s_process_but_one_s_own_is_followed() {
    needs_root!();
    let agent = Agent::start();
    let refused = |pid: u32, why: &str| {
        let mut job = open(&agent).expect("the agent serves");
        let number = Pid::from_raw(pid as i32).expect("a PID");
        let pidfd = pidfd_open(number, PidfdFlags::empty()).expect("it is there");
        let error = job.arm(pid, pidfd.as_fd()).expect_err("it was taken");
        assert!(error.to_string().contains(why), "{error}");
        let socket = agent.scratch.path("socket");
        let mut writes = RemoteWrites::open(&socket).expect("the agent serves");
        let error = writes.arm(pid, pidfd.as_fd()).expect_err("it was taken");
        assert!(error.to_string().contains(why), "{error}");
    };
    let mut own = Command::new("sleep").arg("60").spawn().expect("it starts");
    refused(own.id(), "executed a program already");
    let mut theirs = Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "sleep", "60"])
        .spawn()
        .expect("it starts");
    wait_until("it is another user's", 5.0, || {
        processes::command_line(theirs.id()).starts_with("sleep")
    });
    refused(theirs.id(), "not the user's own");
    refused(1, "no child");
    let mut job = open(&agent).expect("the agent serves");
    let file = std::fs::File::open("/dev/null").expect("it is there");
    let error = job.arm(1, file.as_fd()).expect_err("it was taken");
    assert!(error.to_string().contains("no process that the agent can see"), "{error}");
    for child in [&mut own, &mut theirs] {
        child.kill().expect("it is there");
        child.wait().expect("it is there");
    }
}

/// Where the agent does not serve, weigh makes do with what it has.
#[test]
fn in_a_user_namespace_it_is_done_without_the_agent() {
    needs_root!();
    let agent = Agent::start();
    let run = Weigh::workload("spin 20").env("WEIGH_SOCKET", agent.scratch.path("socket"));
    let measured = run.within("container").options("--details").measure();
    measured.said("in a user namespace of its own");
    measured.said("by ptrace instead");
    // As it is where nobody serves at all.
    let run = Weigh::workload("spin 20").run_by(NOBODY).options("--details");
    let nowhere = agent.scratch.path("nowhere");
    let measured = run.env("WEIGH_SOCKET", nowhere).measure();
    measured.said("CAP_BPF");
    measured.said("by ptrace instead");
}

/// A user's stream to a session, without what speaks to it.
fn stream(agent: &Agent) -> UnixStream {
    weigh_agent::session(&agent.scratch.path("socket")).expect("the agent serves")
}

#[test]
fn garbage_ends_the_conversation_and_nothing_else() {
    needs_root!();
    let agent = Agent::start();
    let kind = JobRequest::Open(JobParts { calls: false, network: false, files: false }).kind();
    let frame = |length: u64, payload: &[u8]| {
        let head = Head { version: VERSION, kind, length, descriptors: 0 };
        [&head.bytes()[..], payload].concat()
    };
    let deep = frame(50_000, &[b'['; 50_000]);
    for garbage in [frame(u64::MAX, b""), frame(2, b"{}"), frame(0, b""), vec![7; 40], deep] {
        let mut stream = stream(&agent);
        stream.write_all(&garbage).expect("it is taken");
        stream.set_read_timeout(Some(patience(5.0))).expect("a time");
        let mut answer = Vec::new();
        // With what was sent unread the end comes as a reset.
        let _ = stream.read_to_end(&mut answer);
        let (answer, end) =
            weigh_wire::decode::<Answer>(&answer, 0).expect("a frame").expect("an answer");
        assert!(matches!(answer, Answer::Refused(_)) && end > HEAD_BYTES, "{answer:?}");
    }
    // What is understood but makes no sense now is answered.
    let stream = stream(&agent);
    let refused = weigh_wire::ask(&stream, &JobRequest::Read, &[]).expect("an answer").0;
    assert_eq!(refused, Answer::Refused("it is not open".to_string()));
    drop(stream);
    wait_until("nobody is served", 5.0, || agent.sessions().is_empty());
    was_followed(&agent.workload("spin 20").measure());
}

#[test]
fn who_asks_for_too_many_is_turned_away() {
    needs_root!();
    let agent = Agent::start();
    let held: Vec<UnixStream> = (0..8).map(|_| stream(&agent)).collect();
    let error = open(&agent).map(drop).expect_err("one too many");
    assert!(error.to_string().contains("as the agent allows"), "{error}");
    let socket = agent.scratch.path("socket");
    let writes: Vec<_> =
        (0..2).map(|_| RemoteWrites::open(&socket).expect("there is room")).collect();
    let error = RemoteWrites::open(&socket).map(drop).expect_err("one too many");
    assert!(error.to_string().contains("as the agent allows"), "{error}");
    drop(writes);
    was_followed(&agent.workload("spin 20").measure());
    drop(held);
    wait_until("nobody is served", 5.0, || agent.sessions().is_empty());
}
