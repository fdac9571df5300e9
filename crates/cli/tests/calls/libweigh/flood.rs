//! One user who floods the agent, and another one who asks it for what it may.

use std::process::Command;
use std::time::Duration;

use crate::support::library::{Agent, Asked, NOBODY, folder, must, program};
use crate::support::{slowness, wait_until};
use weigh_schema::library::Reason;

const OTHER: &str = "61113";
const CONNECTIONS: u64 = 200;
const THREADS: u64 = 8000;
const TIMES: u64 = 60;

/// By another user, in a PID namespace or not.
fn flood(agent: &Agent, is_apart: bool) -> Asked {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    if is_apart {
        command.args(["unshare", "--user", "--pid", "--fork", "--kill-child"]);
    }
    command
        .arg(program("flood"))
        .args([CONNECTIONS, THREADS / u64::from(slowness())].map(|number| number.to_string()));
    let mut flood = Asked::start(command.env("WEIGH_SOCKET", agent.folder.path().join("socket")));
    assert_eq!(flood.answer(), "ready");
    flood
}

/// Microseconds that half of what a third user does take at most, and 999 of 1,000: `ask`s for a page and a thread, or
/// `open`s libweigh, in processes and in threads; each time it is measured, or this fails.
fn timed_of_another<const N: usize>(agent: &Agent, what: &str, times: u64) -> [f64; N] {
    let mut other = Command::new("setpriv");
    other.args(["--reuid", OTHER, "--regid", OTHER, "--clear-groups"]).arg(program("flood"));
    other.args([what, &times.to_string()]);
    let output = must(other.env("WEIGH_SOCKET", agent.folder.path().join("socket")));
    let times = String::from_utf8_lossy(&output.stdout);
    let mut times = times.split_whitespace().map(|time| time.parse().expect("a time"));
    [(); N].map(|()| times.next().expect("as many times"))
}

/// Time that the agent has had of CPUs, in seconds.
fn cpu_seconds(agent: &Agent) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", agent.process.id()));
    let stat = stat.expect("it is there");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    let ticks: f64 = [11, 12].map(|at| fields[at].parse::<f64>().expect("a number")).iter().sum();
    ticks / 100.0
}

#[test]
fn one_user_s_flood_makes_no_other_wait() {
    needs_root!();
    for is_apart in [false, true] {
        let agent = Agent::with_two_capabilities(folder(), &[]);
        let mut flood = flood(&agent, is_apart);
        // Until what they all want is attached.
        timed_of_another::<2>(&agent, "ask", 20);
        let before = cpu_seconds(&agent);
        // More are tried by hand, on a machine that has nothing else to do: for 99.9 % of them.
        let by_hand = std::env::var("WEIGH_FLOODED").ok().and_then(|times| times.parse().ok());
        let times: u64 = by_hand.unwrap_or(TIMES);
        let [median, most_us] = timed_of_another(&agent, "ask", times);
        let opened = timed_of_another::<4>(&agent, "open", times);
        let answers: f64 = flood.ask().parse().expect("a number");
        let each = (cpu_seconds(&agent) - before) / (answers + 6.0 * times as f64);
        let most = 1e5 * f64::from(slowness());
        assert!(median < most, "apart: {is_apart}: {median} µs");
        // The medians; by hand 999 of 1,000 as well.
        let is_soon = |at: usize| opened[at] < most && (by_hand.is_none() || opened[at + 1] < most);
        assert!(is_soon(0) && is_soon(2), "apart: {is_apart}: weigh_open() took {opened:?} µs");
        assert!(answers >= CONNECTIONS as f64, "apart: {is_apart}: {answers} answers");
        let most = 1e-3 * f64::from(slowness());
        assert!(each < most, "apart: {is_apart}: {each} s of a CPU each, {answers} answers");
        println!(
            "apart: {is_apart}: {median} µs, 99.9 % {most_us} µs, {answers} answers of {each} s; weigh_open() {opened:?} µs"
        );
    }
}

/// What each of several programs of a user's, which come and go, is answered that keeps its page.
fn kept(agent: &Agent, times: usize) -> (Asked, Vec<u64>) {
    let mut keeper = Asked::start(agent.as_nobody("flood").args(["keep", &times.to_string()]));
    let reasons = keeper.answer();
    let reasons = reasons.split(' ').map(|reason| reason.parse().expect("a number")).collect();
    (keeper, reasons)
}

#[test]
fn who_keeps_a_page_keeps_its_place() {
    needs_root!();
    let agent = Agent::start(&["--per-user", "3"]);
    let (measured, too_many) = (Reason::Measured as u64, Reason::TooMany as u64);
    let (keeper, reasons) = kept(&agent, 5);
    assert_eq!(reasons, [measured, measured, measured, too_many, too_many]);
    drop(keeper);
    // The kernel takes a moment to give the memory back.
    wait_until("there is room again", 20.0, || {
        std::thread::sleep(Duration::from_millis(50));
        kept(&agent, 1).1 == [measured]
    });
}

/// Root maps a second user for a user's namespace, as newuidmap(1) does by /etc/subuid.
fn in_a_container(agent: &Agent) -> Asked {
    let script = "read mapped; exec setpriv --reuid 1 --clear-groups \"$0\"";
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "unshare", "--user"]);
    command.args(["sh", "-c", script]).arg(program("steps"));
    command.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    let mut container = Asked::start(&mut command);
    let id = container.process.id();
    let is_apart = || {
        let users = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/user")).ok();
        users(&id.to_string()).is_some_and(|theirs| Some(theirs) != users("self"))
    };
    wait_until("it is in a namespace of its own", 20.0, is_apart);
    let map = format!("0 {NOBODY} 1\n1 123456 1\n");
    for which in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{id}/{which}"), &map).expect("it is mapped");
    }
    container.say_last("mapped");
    container
}

#[test]
fn a_user_s_containers_are_the_user_s() {
    needs_root!();
    let agent = Agent::start(&["--per-user", "2"]);
    let own: Vec<Asked> = (0..2)
        .map(|_| {
            let mut one = Asked::start(&mut agent.as_nobody("steps"));
            assert_eq!(one.numbers().0, Reason::Measured as u64);
            one
        })
        .collect();
    let mut another = in_a_container(&agent);
    assert_eq!(another.numbers().0, Reason::TooMany as u64);
    drop(own);
    drop(another);
    wait_until("there is room again", 20.0, || {
        in_a_container(&agent).numbers().0 == Reason::Measured as u64
    });
}
