//! Follows reads and writes from beginning to end: starts the command or joins the process, and takes in what its
//! mechanism emits.

use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::Pid;
use weigh_account::io::{IoBook, Run};
use weigh_collect::follow::CommandSetup;
use weigh_collect::io::name;
use weigh_collect::notice;
use weigh_collect::spawn::{SpawnError, Waiting, With};
use weigh_schema::byte_text;

use super::gatherer::{Gatherer, LOOK};
use super::mechanism;
use super::settings::IoSettings;
use super::sinks::IoSinks;
use crate::command::{Command, CommandWait, Launcher, must_run};
use crate::engine::Session;
use crate::error::SourceError;
use crate::source::{Reaper, SessionEnd, Source};

/// So long a page that is dirty may need to be told of when the last process has ended.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// What came of it.
pub struct IoOutcome {
    /// What was found.
    pub book: IoBook,
    /// Of what.
    pub run: Run,
    /// What is to be waited for when it has been told.
    pub rest: CommandWait,
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn measure<'a>(
    settings: &'a IoSettings,
    sinks: IoSinks<'a>,
) -> anyhow::Result<Result<IoOutcome, SpawnError>> {
    let mut gatherer = Gatherer::new(mechanism::open(settings)?, name);
    let launcher = Launcher::prepare()?;
    let began = Instant::now();
    let command = match settings.pid {
        Some(pid) => {
            must_run(pid)?;
            if let Some(attachment) = gatherer.io.attachment() {
                let attached = attachment.running().and_then(|running| running.join(pid));
                attached.with_context(|| format!("--pid {pid}"))?;
            }
            launcher.stay()
        }
        // Everybody is followed already.
        None if settings.runs_already() => launcher.stay(),
        None => {
            let attachment = gatherer.io.attachment();
            let setup = attachment.map(|attachment| attachment.command_setup());
            let CommandSetup { variables, filter, .. } = setup.unwrap_or_default();
            let filter = filter.cloned();
            let with = With { variables: &variables, filter: filter.as_ref(), ..With::default() };
            let arm = |waiting: &Waiting| -> anyhow::Result<()> {
                let pid = waiting.pid().as_raw_nonzero().get() as u32;
                if let Some(attachment) = gatherer.io.attachment() {
                    attachment.arm(pid, waiting.pidfd())?;
                }
                gatherer.begin();
                Ok(())
            };
            match launcher.start(&settings.command, &with, arm)? {
                Ok(command) => command,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let mut source = IoSource { settings, gatherer, sinks, began, is_warned: false };
    let end = settings.duration.map(|duration| began + duration);
    let mut session = Session::new(command, end);
    session.run(&mut source)?;
    Ok(Ok(source.finish(session.command)?))
}

/// What is known while it goes on.
struct IoSource<'a> {
    settings: &'a IoSettings,
    gatherer: Gatherer,
    sinks: IoSinks<'a>,
    began: Instant,
    /// Of what happens to the job if weigh ends before it.
    is_warned: bool,
}

impl Source for IoSource<'_> {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.gatherer.io.wake_fds()
    }

    fn deadline(&self) -> Option<Instant> {
        Some(Instant::now() + LOOK)
    }

    fn is_member(&self, pid: u32) -> bool {
        self.gatherer.io.is_member(pid)
    }

    fn reaper(&mut self) -> Option<&mut dyn Reaper> {
        match self.waits_alone() {
            true => Some(self),
            false => None,
        }
    }

    fn poll(&mut self, command: &mut Command) -> Result<(), SourceError> {
        if command.is_reaped() {
            self.reap_others();
        }
        self.take_in();
        Ok(self.draw()?)
    }

    fn is_over(&mut self, command: &Command) -> bool {
        self.gatherer.io.tally().living == 0 && command.is_reaped()
    }

    fn may_stop(&mut self, command: &mut Command, end: SessionEnd) -> bool {
        end != SessionEnd::Interrupted || self.may_leave(command)
    }
}

impl Reaper for IoSource<'_> {
    fn next_child(&mut self) -> Result<Option<(Pid, ExitStatus)>, SourceError> {
        match self.gatherer.io.children() {
            Some(children) => Ok(children.next_child()?),
            None => Ok(None),
        }
    }
}

impl IoSource<'_> {
    /// Whether no other code may wait for weigh's children.
    fn waits_alone(&mut self) -> bool {
        self.gatherer.io.children().is_some_and(|children| children.is_exclusive())
    }

    /// The command has been waited for: other processes that became weigh's children may be, too.
    fn reap_others(&mut self) {
        let children = self.gatherer.io.children();
        if let Some(children) = children.filter(|children| !children.is_exclusive()) {
            while let Ok(Some(_)) = children.next_child() {}
        }
    }

    /// Whether weigh may end while processes of the job are left: under a filter their calls would fail, so
    /// that has to be asked for once more.
    fn may_leave(&mut self, command: &mut Command) -> bool {
        let living = self.gatherer.io.tally().living;
        if !self.is_filtered() || living == 0 || self.is_warned {
            return true;
        }
        self.is_warned = true;
        command.heed();
        notice!(
            "{living} threads of the job are left. Without weigh their reads and writes fail (ENOSYS): \
             Ctrl-C again ends weigh all the same; without --seccomp they go on."
        );
        false
    }

    fn is_filtered(&mut self) -> bool {
        let attachment = self.gatherer.io.attachment();
        attachment.is_some_and(|attachment| attachment.command_setup().filter.is_some())
    }

    /// Takes in what has come; what leaves the book to make room has its row in the file now.
    fn take_in(&mut self) {
        self.sinks.take_in(&mut self.gatherer);
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        if !self.sinks.is_view_due() {
            return Ok(());
        }
        let run = self.run();
        Ok(self.sinks.draw(&self.gatherer, &run)?)
    }

    fn run(&self) -> Run {
        let wall = self.began.elapsed().max(self.by_its_clock());
        Run {
            pid: self.settings.pid,
            mount: self
                .settings
                .mount
                .as_ref()
                .map(|folder| byte_text::keep(folder.as_os_str().as_bytes())),
            ..self.gatherer.run_of(&self.settings.command, wall)
        }
    }

    /// How long by the clock of who tells: everybody is followed before the first look.
    fn by_its_clock(&self) -> Duration {
        Duration::from_nanos(self.gatherer.io.elapsed_ns())
    }

    /// What was measured is whole. What the command was given is there until it ends: its programs may still use it.
    fn finish(mut self, mut started: Command) -> anyhow::Result<IoOutcome> {
        let mut run = self.run();
        // The memory of a process is given back after its end was told; that of the command, before it can be reaped.
        let is_alone = run.tally.threads == 1;
        if !self.settings.runs_already() && started.is_reaped() && !is_alone {
            std::thread::sleep(LAST_LOOK);
        }
        self.sinks.end(&mut self.gatherer, &mut run)?;
        run.grounds.notes.extend(started.why_to_stop());
        self.sinks.clear_view();
        if self.waits_alone() {
            started.reap(&mut self)?;
        }
        let Gatherer { io, book, .. } = self.gatherer;
        let rest = Box::new(move || started.see_to_its_end(&|pid| io.is_member(pid)));
        Ok(IoOutcome { book, run, rest })
    }
}
