//! Rules of `weigh agent`: the events that they make, and the commands that they run.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use weigh_schema::rule::{RuleChange, RuleEvent, scope_of_job};
use weigh_schema::stream::{EVENTS, NODE, RecordBody};

use crate::agent_node::{NodeAgent, by_nobody, read};
use crate::support::agent::NOBODY;
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, Weigh};
use crate::support::wait_until;

/// A file of rules in a folder that others cannot write.
fn rules_file(scratch: &Scratch, rules: &str) -> PathBuf {
    let folder = scratch.path("etc");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("its mode");
    let file = folder.join("rules.toml");
    std::fs::write(&file, rules).expect("a file");
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("its mode");
    file
}

/// What the agent's rules have said last of one.
fn event(agent: &NodeAgent, rule: &str) -> Option<RuleEvent> {
    let records = agent.client().read(read(EVENTS, 0)).expect("records").records;
    records.into_iter().rev().find_map(|record| match record.body {
        RecordBody::Event(event) if event.rule == rule => Some(*event),
        _ => None,
    })
}

/// Processes are looked at for them, and only while there is a job.
#[test]
fn a_rule_about_jobs_holds_though_nobody_reads_the_node() {
    needs_root!();
    let scratch = Scratch::new();
    let rules = "shipped = false\n[rule.crowd]\nwhen = \"processes > 3\"\ntext = \"{processes} in {instance}\"\n";
    let path = rules_file(&scratch, rules).display().to_string();
    let agent = NodeAgent::start(&["--interval", "0.1s", "--rules", &path]);
    let script = "for i in 1 2 3 4; do sleep 300 & done; until [ -e go ]; do sleep 0.1; done; kill $(jobs -p)";
    let job = Weigh::bash(script).run_by(NOBODY).start();
    let state = |change| event(&agent, "crowd").is_some_and(|event| event.state == change);
    wait_until("it holds", 30.0, || state(RuleChange::Began));
    let began = event(&agent, "crowd").expect("it is there");
    assert_eq!(began.scope, scope_of_job(job.pid()));
    std::fs::write(job.scratch.path("work/go"), "").expect("a file");
    assert!(job.end().status.success());
    wait_until("it is over", 30.0, || state(RuleChange::Ended));
    let node = agent.stream(NODE);
    assert!(!node.is_active && node.records == 0, "{node:?}");
}

/// Rules are judged though nobody reads the node, of what is published as well; each has its event and its command.
#[test]
fn rules_make_events_and_run_their_commands() {
    let scratch = Scratch::new();
    let mail = scratch.path("mail");
    let rules = format!(
        "[rule.busy]\nwhen = \"node_threads > 0\"\ntext = \"{{node_threads}} threads\"\n\
         command = [\"sh\", \"-c\", 'cat > \"$1.new\" && mv \"$1.new\" \"$1\"', \"sh\", {:?}]\n\
         [rule.queue]\nwhen = \"queue_length > 16\"\ntext = \"{{queue_length}} wait in {{scope}}\"\n\
         [metric.queue_length]\nunit = \"count\"\n",
        mail.display().to_string()
    );
    let file = rules_file(&scratch, &rules);
    let path = file.display().to_string();
    let agent = NodeAgent::start(&["--interval", "0.1s", "--rules", &path]);
    let event = |rule: &str| event(&agent, rule);
    wait_until("the event", 30.0, || event("busy").is_some());
    wait_until("its command", 30.0, || mail.exists());
    let mail = std::fs::read_to_string(&mail).expect("it was written");
    let busy = event("busy").expect("it is there");
    assert!(mail.starts_with(&format!("{}\n\nrule: busy (warning), began\n", busy.text)), "{mail}");
    assert!(event("queue").is_none(), "nobody has published it");
    agent.done(NOBODY, &["push", "--scope", "shop", "queue_length=17"]);
    wait_until("the other event", 30.0, || event("queue").is_some());
    assert_eq!(event("queue").expect("it is there").text, "17 wait in shop");
    // What others may change is refused, with what to type.
    std::fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("its mode");
    let refused = agent.refused(0, &["agent", "--socket", "/no/such/socket", "--rules", &path]);
    assert!(
        refused.contains("others may change it") && refused.contains("chmod go-w"),
        "{refused}"
    );
}

/// Commands of rules run in a process apart, which finds the agent again; the agent itself runs none.
#[test]
fn commands_run_in_a_process_apart() {
    let scratch = Scratch::new();
    let mail = scratch.path("mail");
    let rules = format!(
        "[rule.queue]\nwhen = \"queue_length > 16\"\ntext = \"{{queue_length}} wait\"\n\
         command = [\"sh\", \"-c\", 'echo \"$PPID $WEIGH_TEXT\" > \"$1\"', \"sh\", {:?}]\n\
         [metric.queue_length]\nunit = \"count\"\n",
        mail.display().to_string()
    );
    let path = rules_file(&scratch, &rules).display().to_string();
    let options = ["--interval", "0.1s", "--commands-apart", "--rules", &path];
    let mut agent = NodeAgent::start(&options);
    let mut apart = by_nobody();
    apart.args(["agent", "commands", "--rules", &path]);
    apart.env("WEIGH_SOCKET", agent.scratch.path("socket")).stderr(Stdio::piped());
    let mut apart = Mortal::of(apart.spawn());
    let mut lines = BufReader::new(apart.stderr.take().expect("standard error"));
    // It was there before the agent that makes the event.
    wait_until("it reads events", 30.0, || agent.stream(EVENTS).readers == 1);
    agent.end();
    let mut said = String::new();
    lines.read_line(&mut said).expect("a line");
    assert!(said.contains("no events: the agent has gone"), "{said}");
    agent.start_again(&options);
    agent.done(NOBODY, &["push", "--scope", "shop", "queue_length=17"]);
    let mailed = || std::fs::read_to_string(&mail).unwrap_or_default();
    wait_until("the command", 60.0, || mailed().ends_with('\n'));
    assert_eq!(mailed(), format!("{} 17 wait\n", apart.id()));
}
