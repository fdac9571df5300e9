//! Serves a folder at another place from beginning to end, and takes in what is done with its files there.
//!
//! Refuses folders that cannot be used before the command is started.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weigh_account::io::{IoBook, Run};
use weigh_collect::spawn::{SpawnError, With};
use weigh_mount::Mounted;

use super::settings::MountSettings;
use super::source::MountSource;
use super::spec::MountSpec;
use super::unmount::Unmount;
use crate::command::{Command, Launcher};
use crate::engine::Session;
use crate::error::SourceError;
use crate::products::io::gatherer::{Gatherer, LOOK};
use crate::products::io::sinks::IoSinks;
use crate::source::{SessionEnd, Source};

/// What came of it.
pub struct MountOutcome {
    /// What was found.
    pub book: IoBook,
    /// Of what.
    pub run: Run,
    /// What its calls are called, by their numbers.
    pub call_name: fn(u64) -> String,
    /// The command, which has ended, if there was one.
    pub command: Command,
}

/// Serves until the command has ended, or, without one, until the time is over, somebody unmounts it or interrupts.
pub fn measure<'a>(
    settings: &'a MountSettings,
    sinks: IoSinks<'a>,
) -> anyhow::Result<Result<MountOutcome, SpawnError>> {
    let began = Instant::now();
    let (mounted, source, command) = match start(settings)? {
        Ok(all) => all,
        Err(error) => return Ok(Err(error)),
    };
    // What uses it without a command is seen from here on.
    let began = if settings.command.is_empty() { Instant::now() } else { began };
    let gatherer = Gatherer::new(source.io, source.call_name);
    let mut served = ServedMount { settings, mounted, gatherer, sinks, began, counted: None };
    let end = settings.duration.map(|duration| began + duration);
    let mut session = Session::new(command, end);
    session.run(&mut served)?;
    served.leave(&mut session)?;
    let (book, run) = served.finish()?;
    Ok(Ok(MountOutcome { book, run, call_name: source.call_name, command: session.command }))
}

/// A mount, what counts there, and the command that uses it.
type MountStart = (Arc<Mounted>, MountSource, Command);

/// Mounts, and starts the command. It is made before, and waits: it inherits nothing of the mount's.
fn start(settings: &MountSettings) -> anyhow::Result<Result<MountStart, SpawnError>> {
    let mut spec = Some(MountSpec::check(&settings.folder)?);
    let launcher = Launcher::prepare()?;
    let mut mounted = None;
    let mut mount = || -> anyhow::Result<()> {
        if let Some(spec) = spec.take() {
            let (served, source, _) = spec.mount(settings.mechanism)?;
            mounted = Some((served, source));
        }
        Ok(())
    };
    let started = match settings.command.is_empty() {
        true => mount().map(|()| Ok(launcher.stay())),
        false => Ok(launcher.start(&settings.command, &With::default(), |_| mount())?),
    }?;
    let Some((mounted, source)) = mounted else { anyhow::bail!("the mount was not made") };
    match started {
        Ok(started) => Ok(Ok((mounted, source, started))),
        Err(error) => {
            mounted.detach()?;
            drop(source);
            Arc::into_inner(mounted).map_or(Ok(()), Mounted::finish)?;
            Ok(Err(error))
        }
    }
}

/// A mount that is served, and what is counted of it.
struct ServedMount<'a> {
    settings: &'a MountSettings,
    mounted: Arc<Mounted>,
    gatherer: Gatherer,
    sinks: IoSinks<'a>,
    began: Instant,
    /// For how long was counted, if that is over.
    counted: Option<Duration>,
}

impl ServedMount<'_> {
    /// Serves those who have files open still.
    fn leave(&mut self, session: &mut Session) -> anyhow::Result<()> {
        session.command.heed();
        let mut unmount = Unmount::default();
        while !unmount.may_begin(&self.mounted) && !session.command.is_interrupted() {
            session.step(self)?;
        }
        if !self.mounted.is_in_use() {
            self.stop_counting();
        }
        self.mounted.detach()?;
        let at = &self.settings.folder.mountpoint;
        while !unmount.is_done(&self.mounted, at, || self.sinks.clear_view())
            && !session.command.is_interrupted()
        {
            session.step(self)?;
        }
        Ok(())
    }

    fn stop_counting(&mut self) {
        if self.counted.is_none() {
            self.gatherer.io.detach();
            self.counted = Some(self.began.elapsed());
        }
    }

    /// All that is known, on the terminal.
    fn draw(&mut self) -> anyhow::Result<()> {
        if !self.sinks.is_view_due() {
            return Ok(());
        }
        let run = self.run();
        Ok(self.sinks.draw(&self.gatherer, &run)?)
    }

    /// What a book is about, and how far it can be trusted.
    fn run(&self) -> Run {
        let wall = self.counted.unwrap_or_else(|| self.began.elapsed());
        self.gatherer.run_of(&self.settings.command, wall)
    }

    fn finish(mut self) -> anyhow::Result<(IoBook, Run)> {
        self.sinks.clear_view();
        let mut run = self.run();
        self.sinks.end(&mut self.gatherer, &mut run)?;
        let Gatherer { book, io, .. } = self.gatherer;
        drop(io);
        if let Some(mounted) = Arc::into_inner(self.mounted) {
            mounted.finish()?;
        }
        Ok((book, run))
    }
}

/// The command's end, an unmount, an interrupt and the time end it.
impl Source for ServedMount<'_> {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.gatherer.io.wake_fds()
    }

    fn deadline(&self) -> Option<Instant> {
        Some(Instant::now() + LOOK)
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        self.sinks.take_in(&mut self.gatherer);
        Ok(self.draw()?)
    }

    fn is_over(&mut self, command: &Command) -> bool {
        match self.settings.command.is_empty() {
            true => self.mounted.is_over(),
            false => command.status().is_some(),
        }
    }

    /// A command needs the mount until it ends.
    fn may_stop(&mut self, _: &mut Command, end: SessionEnd) -> bool {
        if matches!(end, SessionEnd::Time | SessionEnd::CpuTime) {
            self.stop_counting();
        }
        self.settings.command.is_empty() && end != SessionEnd::CpuTime
    }
}
