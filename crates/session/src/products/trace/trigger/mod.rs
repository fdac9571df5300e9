//! `--on-event COMMAND … at most 1/s`: a command of the user's, for events of a stream.
//!
//! Counts events; emits orders to a helper, which is weigh itself, but no child of it, and runs the command: the words as
//! they are, by no shell. One command of a trigger runs at a time, and no more often than its rule says; the next one is
//! told how many events it stands for. Nothing waits for a command. It has the rights of who has typed it.

mod helper;
mod order;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use weigh_collect::notice;
use weigh_schema::byte_text;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sampling::Sampling;

use crate::products::run::event_hook::Order;
use order::{HELPER, TriggerOrder};

pub use helper::{be_trigger_helper, is_trigger_helper};

/// Bytes of an order that find room in the pipe whenever the helper waits for one.
const MOST_ORDER: usize = 512 * 1024;
const PIPE_BYTES: usize = 2 * MOST_ORDER;
/// The name and version of what a command gets.
const SCHEMA: &str = "weigh.trigger/1";

/// A trigger, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerSpec {
    /// Names of events; none: all that are written.
    pub events: Vec<String>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// How often it is run at most.
    pub rule: Sampling,
}

impl TriggerSpec {
    /// The least time from one command to the next.
    fn pause(&self) -> Duration {
        match self.rule {
            Sampling::AtMost(most) => Duration::from_secs(1) / most.clamp(1, 1000) as u32,
            Sampling::Every(ns) => Duration::from_nanos(ns),
            Sampling::OneIn(_) => Duration::from_secs(1),
        }
    }
}

/// Events that a command is still to be run for.
struct Pending {
    variables: Vec<(String, String)>,
    /// The first of them, as JSON.
    event: String,
    events: u64,
}

/// A command that is run for events.
pub struct Trigger {
    spec: TriggerSpec,
    orders: Option<File>,
    /// A byte for each command that has ended.
    done: File,
    is_running: bool,
    /// When the next may be run.
    next: Instant,
    pending: Option<Pending>,
}

impl Trigger {
    /// Starts the helper. Refuses events that are not followed.
    pub fn start(spec: TriggerSpec, probes: &[&Probe]) -> anyhow::Result<Trigger> {
        check_names(&spec, probes)?;
        let flags = PipeFlags::CLOEXEC;
        let orders = pipe_with(flags).context("a pipe for --on-event")?;
        let done = pipe_with(flags).context("a pipe for --on-event")?;
        // Without that much an order that is too long is cut.
        let _ = fcntl_setpipe_size(&orders.1, PIPE_BYTES);
        for end in [&orders.1, &done.0] {
            rustix::io::ioctl_fionbio(end, true).context("a pipe for --on-event")?;
        }
        let words: Vec<OsString> =
            std::iter::once(HELPER.into()).chain(spec.command.iter().cloned()).collect();
        weigh_collect::daemonize::start_itself(&words, &orders.0, &done.1)
            .context("cannot start the helper that runs the command of --on-event")?;
        let (orders, done) = (Some(File::from(orders.1)), File::from(done.0));
        let (is_running, next) = (false, Instant::now());
        Ok(Trigger { spec, orders, done, is_running, next, pending: None })
    }

    /// An event has come. `text` writes it as JSON: it is asked for once for each command.
    pub fn take(
        &mut self,
        probe: &Probe,
        record: Record<'_>,
        text: impl FnOnce() -> io::Result<String>,
    ) {
        if !self.is_of(probe) {
            return;
        }
        if let Some(pending) = &mut self.pending {
            pending.events += 1;
            return;
        }
        let event = text().unwrap_or_else(|_| "null".to_string());
        let variables = variables(probe, record);
        self.pending = Some(Pending { variables, event, events: 1 });
        self.run_if_due();
    }

    fn is_of(&self, probe: &Probe) -> bool {
        let is = |name: &String| is_called(&probe.name, name);
        self.orders.is_some() && (self.spec.events.is_empty() || self.spec.events.iter().any(is))
    }

    /// Has the command run for what has come, if it may be.
    pub fn run_if_due(&mut self) {
        if self.pending.is_none() || self.orders.is_none() {
            return;
        }
        self.hear_ends();
        let now = Instant::now();
        if !self.is_running && now >= self.next {
            self.order(Duration::ZERO);
            self.next = now + self.spec.pause();
        }
    }

    /// Whether the last command has ended.
    fn hear_ends(&mut self) {
        loop {
            match self.done.read(&mut [0; 64]) {
                Ok(0) => return self.give_up(&io::ErrorKind::BrokenPipe.into()),
                Ok(_) => self.is_running = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn order(&mut self, wait: Duration) {
        let (Some(orders), Some(pending)) = (&mut self.orders, self.pending.take()) else { return };
        let order = TriggerOrder { wait_ms: wait.as_millis() as u64, order: pending.into_order() };
        let written = serde_json::to_string(&order)
            .map_err(io::Error::from)
            .and_then(|line| orders.write_all((line + "\n").as_bytes()));
        match written {
            Ok(()) => self.is_running = true,
            Err(error) => self.give_up(&error),
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        self.orders = None;
        notice!("the command of --on-event is not run any more: {error}");
    }

    /// No more events come. The command is run once more for those that none has been run for, when it may be; nobody
    /// waits for it.
    pub fn finish(mut self) {
        if self.pending.is_some() {
            self.order(self.next.saturating_duration_since(Instant::now()));
        }
    }
}

impl Pending {
    fn into_order(self) -> Order {
        let Pending { mut variables, event, events } = self;
        variables.push(("WEIGH_EVENTS".to_string(), events.to_string()));
        let event = if event.len() > MOST_ORDER / 2 { "null" } else { event.trim_end() };
        let input =
            format!("{{\"schema\":\"{SCHEMA}\",\"events_total\":{events},\"event\":{event}}}\n");
        Order { variables, input }
    }
}

fn variables(probe: &Probe, record: Record<'_>) -> Vec<(String, String)> {
    let name = byte_text::keep(probe.name.as_bytes());
    [
        ("WEIGH_EVENT", name),
        ("WEIGH_TGID", record.tgid().to_string()),
        ("WEIGH_TID", record.tid().to_string()),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into()
}

/// By its whole name, or by what is behind the group.
fn is_called(full: &str, name: &str) -> bool {
    full == name || full.split_once(':').is_some_and(|(_, rest)| rest == name)
}

fn check_names(spec: &TriggerSpec, probes: &[&Probe]) -> anyhow::Result<()> {
    for name in &spec.events {
        if !probes.iter().any(|probe| is_called(&probe.name, name)) {
            let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
            bail!("--on-event: no event '{name}' is written; there are {}", names.join(", "));
        }
    }
    Ok(())
}
