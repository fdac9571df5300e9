//! Commands of rules: `command = ["mail", …]` in a file of rules runs when the rule begins and when it ends.
//!
//! Takes events and never waits: a thread without capabilities starts the commands, no shell between, each in a process
//! group of its own, and kills what takes too long. A rule runs at most one a minute; of the events between, the latest
//! is said later. Refuses commands of a file that others than its user may change.

mod command_pace;
mod trusted_file;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use weigh_account::rules::Rule;
use weigh_schema::printable::printable;
use weigh_schema::rule::{RuleChange, RuleEvent};

use command_pace::{CommandPace, DueEvent};
pub use trusted_file::read_trusted;

use crate::capabilities;

/// How commands are run.
#[derive(Clone, Copy, Debug)]
pub struct CommandSettings {
    /// The shortest time between two commands of a rule.
    pub pause: Duration,
    /// What runs longer is killed.
    pub timeout: Duration,
    /// So many run at once.
    pub most_at_once: usize,
}

impl Default for CommandSettings {
    fn default() -> CommandSettings {
        CommandSettings {
            pause: Duration::from_secs(60),
            timeout: Duration::from_secs(30),
            most_at_once: 4,
        }
    }
}

/// What has become of the commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// Commands that were started.
    pub started: u64,
    /// Those that ended with status 0.
    pub succeeded: u64,
    /// Those that could not be started, or ended otherwise.
    pub failed: u64,
    /// Those that were killed because they took too long.
    pub killed: u64,
    /// Events without a command of their own: it was less than a minute after another, or too many waited.
    pub left_out: u64,
}

/// Events that wait for the thread.
const MOST_WAITING: usize = 256;
/// How often it looks after commands that run.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the commands of rules.
#[derive(Debug)]
pub struct RuleCommands {
    events: SyncSender<RuleEvent>,
    counts: Arc<Mutex<CommandCounts>>,
    has_command: Vec<String>,
}

impl RuleCommands {
    /// None where no rule has a command.
    ///
    /// # Errors
    /// Where no thread can be made.
    pub fn start(
        rules: &[Rule],
        settings: CommandSettings,
    ) -> std::io::Result<Option<RuleCommands>> {
        let commands: BTreeMap<String, Vec<String>> = rules
            .iter()
            .filter(|rule| !rule.command.is_empty())
            .map(|rule| (rule.name.clone(), rule.command.clone()))
            .collect();
        if commands.is_empty() {
            return Ok(None);
        }
        let has_command = commands.keys().cloned().collect();
        let (events, waiting) = sync_channel(MOST_WAITING);
        let counts = Arc::new(Mutex::new(CommandCounts::default()));
        let runner = CommandRunner {
            commands,
            settings,
            pace: CommandPace::new(settings.pause),
            children: Vec::new(),
            counts: Arc::clone(&counts),
        };
        std::thread::Builder::new().name("rule commands".into()).spawn(|| runner.run(waiting))?;
        Ok(Some(RuleCommands { events, counts, has_command }))
    }

    /// Takes an event, if its rule has a command. It never waits.
    pub fn take(&self, event: &RuleEvent) {
        if self.has_command.contains(&event.rule) && self.events.try_send(event.clone()).is_err() {
            count(&self.counts, |counts| counts.left_out += 1);
        }
    }

    /// What has become of them so far.
    pub fn counts(&self) -> CommandCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counts: &Mutex<CommandCounts>, change: impl FnOnce(&mut CommandCounts)) {
    change(&mut counts.lock().unwrap_or_else(PoisonError::into_inner));
}

struct CommandRunner {
    commands: BTreeMap<String, Vec<String>>,
    settings: CommandSettings,
    pace: CommandPace,
    children: Vec<(Child, Instant)>,
    counts: Arc<Mutex<CommandCounts>>,
}

impl CommandRunner {
    /// Until nobody sends events any more.
    fn run(mut self, waiting: Receiver<RuleEvent>) {
        capabilities::drop_all();
        loop {
            let now = Instant::now();
            match waiting.recv_timeout(self.wait(now)) {
                Ok(event) => self.pace.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look_after_children();
            while self.children.len() < self.settings.most_at_once
                && let Some(due) = self.pace.next(Instant::now())
            {
                count(&self.counts, |counts| counts.left_out += due.left_out);
                self.start(&due);
            }
        }
    }

    fn wait(&self, now: Instant) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        match self.children.is_empty() {
            true => self.pace.due_in(now).unwrap_or(LONG),
            false => LOOK,
        }
    }

    fn start(&mut self, due: &DueEvent) {
        let Some(words) = self.commands.get(&due.event.rule) else { return };
        let started = spawn(words, due);
        let is_started = started.is_ok();
        count(&self.counts, |counts| match is_started {
            true => counts.started += 1,
            false => counts.failed += 1,
        });
        if let Ok(mut child) = started {
            // What fits in a pipe does not wait for a reader.
            let body = body(due);
            if let Some(mut input) = child.stdin.take() {
                let _ = input.write_all(body.as_bytes());
            }
            self.children.push((child, Instant::now()));
        }
    }

    fn look_after_children(&mut self) {
        let (timeout, counts) = (self.settings.timeout, &self.counts);
        self.children.retain_mut(|(child, since)| match child.try_wait() {
            Ok(None) if since.elapsed() < timeout => true,
            Ok(None) => {
                kill(child);
                count(counts, |counts| counts.killed += 1);
                false
            }
            Ok(Some(status)) if status.success() => {
                count(counts, |counts| counts.succeeded += 1);
                false
            }
            _ => {
                count(counts, |counts| counts.failed += 1);
                false
            }
        });
    }
}

/// With all that it has started and not put into groups of their own.
fn kill(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn spawn(words: &[String], due: &DueEvent) -> std::io::Result<Child> {
    let [program, arguments @ ..] = words else {
        return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(variables(due)).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// The event in the environment.
fn variables(due: &DueEvent) -> [(&'static str, String); 11] {
    let event = &due.event;
    [
        ("WEIGH_RULE", event.rule.clone()),
        ("WEIGH_STATE", state(event).to_string()),
        ("WEIGH_SEVERITY", event.severity.name().to_string()),
        // No variable holds a NUL byte.
        ("WEIGH_SCOPE", printable(&event.scope.to_string()).into_owned()),
        ("WEIGH_METRIC", event.metric.clone()),
        ("WEIGH_VALUE", event.value.map(|value| value.to_string()).unwrap_or_default()),
        ("WEIGH_UNIT", event.unit.to_string()),
        ("WEIGH_AT", event.at.to_string()),
        ("WEIGH_TEXT", printable(&event.text).into_owned()),
        ("WEIGH_PASTE", printable(&event.paste).into_owned()),
        ("WEIGH_LEFT_OUT", due.left_out.to_string()),
    ]
}

fn state(event: &RuleEvent) -> &'static str {
    match event.state {
        RuleChange::Began => "began",
        RuleChange::Ended => "ended",
    }
}

/// The event in words, as a mail has it, and as JSON in the last line.
fn body(due: &DueEvent) -> String {
    let event = &due.event;
    let json = serde_json::to_string(event).unwrap_or_default();
    let left_out = match due.left_out {
        0 => String::new(),
        count => format!("\nevents left out before it: {count}"),
    };
    format!(
        "{}\n\nrule: {} ({}), {}\nscope: {}\nat: {}\nsince: {}{left_out}\nto paste: {}\n\n{json}\n",
        printable(&event.text),
        event.rule,
        event.severity.name(),
        state(event),
        printable(&event.scope.to_string()),
        event.at,
        event.since,
        printable(&event.paste),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use weigh_account::rules::RuleSet;
    use weigh_schema::Unit;
    use weigh_schema::rule::{RULE_EVENT, Severity};
    use weigh_schema::update::Scope;

    fn event(rule: &str, state: RuleChange) -> RuleEvent {
        RuleEvent {
            schema: RULE_EVENT.into(),
            rule: rule.into(),
            state,
            severity: Severity::Critical,
            scope: Scope::Disk("a\0b\x1b".into()),
            metric: "m".into(),
            value: Some(12_345.5),
            unit: Unit::Bytes,
            per_second: false,
            at: "2026-01-02T03:04:05Z".parse().unwrap(),
            since: "2026-01-02T03:04:00Z".parse().unwrap(),
            text: "too much; $(reboot) `reboot`".into(),
            paste: "ls".into(),
        }
    }

    fn commands(name: &str, words: &[&str], settings: CommandSettings) -> RuleCommands {
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let text = format!(
            "shipped = false\n[rule.{name}]\nwhen = \"node_threads > 1\"\ntext = \"t\"\ncommand = [{}]\n",
            words.join(", ")
        );
        let set = RuleSet::parse(&text, "f").expect("rules");
        RuleCommands::start(set.rules(), settings).expect("a thread").expect("it has a command")
    }

    #[track_caller]
    fn wait_for(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_command_has_the_event_on_its_input_and_in_its_environment() {
        let folder = tempfile::tempdir().expect("a folder");
        let (seen, status) = (folder.path().join("seen"), folder.path().join("status"));
        let script =
            "env > \"$1.env\"; cp /proc/self/status \"$2\"; cat > \"$1.new\"; mv \"$1.new\" \"$1\"";
        let paths = [&seen, &status].map(|path| path.display().to_string());
        let words = ["sh", "-c", script, "sh", &paths[0], &paths[1]];
        let commands = commands("r", &words, CommandSettings::default());
        // Of another rule, it has none.
        commands.take(&event("other", RuleChange::Began));
        commands.take(&event("r", RuleChange::Began));
        wait_for("it ran", || seen.exists());
        let body = read(&seen);
        assert!(
            body.starts_with("too much; $(reboot) `reboot`\n\nrule: r (critical), began\n"),
            "{body}"
        );
        let json = body.lines().next_back().expect("JSON");
        let read_back: RuleEvent = serde_json::from_str(json).expect("an event");
        assert_eq!(read_back, event("r", RuleChange::Began));
        let env = read(&folder.path().join("seen.env"));
        for line in [
            "WEIGH_RULE=r",
            "WEIGH_STATE=began",
            "WEIGH_VALUE=12345.5",
            "WEIGH_SCOPE=disk:a\\u{0}b\\u{1b}",
        ] {
            assert!(env.lines().any(|found| found == line), "{line}: {env}");
        }
        // The second witness is the kernel's own word for it.
        let status = read(&status);
        for line in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let found = status.lines().find(|found| found.starts_with(line)).expect("its line");
            let is_root = rustix::process::geteuid().is_root();
            assert!(
                !is_root && line == "CapBnd" || found.ends_with("\t0000000000000000"),
                "{found}"
            );
        }
        wait_for("it is counted", || commands.counts().succeeded == 1);
        assert_eq!(
            commands.counts(),
            CommandCounts { started: 1, succeeded: 1, ..Default::default() }
        );
    }

    #[test]
    fn a_rule_runs_at_most_one_in_its_pause_and_says_the_latest() {
        let folder = tempfile::tempdir().expect("a folder");
        let seen = folder.path().join("seen");
        let script = "echo $WEIGH_STATE $WEIGH_LEFT_OUT >> \"$1\"";
        let path = seen.display().to_string();
        let words = ["sh", "-c", script, "sh", &path];
        let settings = CommandSettings { pause: Duration::from_secs(2), ..Default::default() };
        let commands = commands("r", &words, settings);
        commands.take(&event("r", RuleChange::Began));
        wait_for("the first ran", || commands.counts().succeeded == 1);
        for state in [RuleChange::Ended, RuleChange::Began, RuleChange::Ended] {
            commands.take(&event("r", state));
        }
        wait_for("the latest ran", || commands.counts().succeeded == 2);
        assert_eq!(read(&seen), "began 0\nended 2\n");
        assert_eq!(commands.counts().left_out, 2);
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_children_and_nothing_waits_for_it() {
        let settings =
            CommandSettings { timeout: Duration::from_millis(300), ..Default::default() };
        let folder = tempfile::tempdir().expect("a folder");
        let pid = folder.path().join("pid");
        let script = "sleep 1000 & echo $! > \"$1\"; wait";
        let path = pid.display().to_string();
        let words = ["sh", "-c", script, "sh", &path];
        let commands = commands("r", &words, settings);
        let before = Instant::now();
        commands.take(&event("r", RuleChange::Began));
        assert!(before.elapsed() < Duration::from_millis(250), "it waited");
        wait_for("it is killed", || commands.counts().killed == 1);
        let child: u32 = read(&pid).trim().parse().expect("a PID");
        let ended = || weigh_collect::host::has_ended(child);
        wait_for("its child is killed as well", ended);
    }

    #[test]
    fn what_cannot_be_started_is_counted() {
        let commands = commands("r", &["/no/such/program"], CommandSettings::default());
        commands.take(&event("r", RuleChange::Began));
        wait_for("it is counted", || commands.counts().failed == 1);
    }
}
