//! `weigh io mount`: serves a folder at another place, and says what is done with its files there.
//!
//! Reads what the file system counted; emits the same table, JSON and Parquet as `weigh io`. Refuses
//! folders that can not be used before the command is started.

use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weigh_account::io::{IoBook, Run, report};
use weigh_account::shell_words;
use weigh_collect::notice;
use weigh_collect::spawn::{SpawnError, With};
use weigh_mount::Mounted;
use weigh_session::products::io::mount::{MountSettings, MountSource, MountSpec, Unmount};
use weigh_session::products::io::{Gatherer, LOOK};
use weigh_session::{Command, Launcher, Session, SessionEnd, Source, SourceError, end_like};

use super::sinks::Sinks;
use crate::arguments::MountArguments;
use crate::live::Live;

/// Serves, and tells.
pub fn execute(arguments: &MountArguments) -> anyhow::Result<ExitCode> {
    let telling = &arguments.telling;
    telling.status.apply();
    super::check_files(telling, arguments.calls.as_deref())?;
    let (json, live) = (super::open_json(telling)?, super::live(telling)?);
    let sinks = Sinks::open(telling, arguments.calls.as_deref())?;
    let began = Instant::now();
    let (mounted, source, command) = match start(arguments)? {
        Ok(all) => all,
        Err(error) => {
            notice!("{error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    // What uses it without a command is seen from here on.
    let began = if arguments.command.is_empty() { Instant::now() } else { began };
    let gatherer = Gatherer::new(source.io, source.call_name);
    let mut served =
        ServedMount { arguments, mounted, gatherer, sinks, live, began, counted: None };
    let end = arguments.duration.map(|duration| began + duration);
    let mut session = Session::new(command, end);
    session.run(&mut served)?;
    served.leave(&mut session)?;
    let (book, run, kept) = served.finish()?;
    let report = report(&book, &run, &source.call_name);
    super::tell_all(&report, telling, json, kept, true)?;
    Ok(session.command.status().map_or(ExitCode::SUCCESS, end_like))
}

/// A mount, who tells of it, and who uses it.
type Begun = (Arc<Mounted>, MountSource, Command);

/// Mounts, and starts the command. It is made before, and waits: it inherits nothing of the mount's.
fn start(arguments: &MountArguments) -> anyhow::Result<Result<Begun, SpawnError>> {
    let settings = MountSettings::from(arguments);
    let mut spec = Some(MountSpec::check(&settings.folder)?);
    let launcher = Launcher::prepare()?;
    let mut mounted = None;
    let mut mount = || -> anyhow::Result<()> {
        if let Some(spec) = spec.take() {
            mounted = Some(spec.mount(settings.mechanism)?);
        }
        Ok(())
    };
    let started = match arguments.command.is_empty() {
        true => mount().map(|()| Ok(launcher.stay())),
        false => Ok(launcher.start(&arguments.command, &With::default(), |_| mount())?),
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
    arguments: &'a MountArguments,
    mounted: Arc<Mounted>,
    gatherer: Gatherer,
    sinks: Sinks,
    live: Option<Live>,
    began: Instant,
    /// For how long was counted, if that is over.
    counted: Option<Duration>,
}

impl ServedMount<'_> {
    /// Serves those who have files open still.
    fn leave(&mut self, session: &mut Session) -> anyhow::Result<()> {
        session.command.heed();
        self.mounted.detach()?;
        let mut leaving = Unmount::default();
        let at = &self.arguments.mountpoint;
        while !leaving.is_done(&self.mounted, at, || clear(&mut self.live))
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
        if !self.live.as_ref().is_some_and(Live::is_due) {
            return Ok(());
        }
        let book = self.gatherer.so_far()?;
        let run = self.run();
        let report = report(&book, &run, &self.gatherer.name);
        if let Some(live) = &mut self.live {
            let telling = &self.arguments.telling;
            live.draw(|screen| super::text(&report, telling, screen));
        }
        Ok(())
    }

    /// What a book is about, and how far it can be trusted.
    fn run(&self) -> Run {
        let words = self.arguments.command.iter().map(|word| word.to_string_lossy().into_owned());
        Run {
            command: words.collect(),
            command_base64: weigh_schema::base64::of_words(&self.arguments.command),
            pid: None,
            mount: None,
            wall_seconds: self.counted.unwrap_or_else(|| self.began.elapsed()).as_secs_f64(),
            tally: self.gatherer.io.tally(),
            grounds: self.gatherer.io.grounds(),
        }
    }

    fn finish(mut self) -> anyhow::Result<(IoBook, Run, anyhow::Result<()>)> {
        clear(&mut self.live);
        let mut run = self.run();
        let sinks = &mut self.sinks;
        self.gatherer.end(&mut run, &mut |update| sinks.keep(&update))?;
        let Gatherer { book, io, name, .. } = self.gatherer;
        drop(io);
        if let Some(mounted) = Arc::into_inner(self.mounted) {
            mounted.finish()?;
        }
        let command = match run.command.is_empty() {
            true => format!("mount of {}", self.arguments.source.display()),
            false => shell_words(&run.command),
        };
        let kept = self.sinks.finish(&command, &book, &run, &name);
        Ok((book, run, kept))
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
        let sinks = &mut self.sinks;
        self.gatherer.take_in(&mut |update| sinks.keep(&update));
        Ok(self.draw()?)
    }

    fn is_over(&mut self, command: &Command) -> bool {
        match self.arguments.command.is_empty() {
            true => self.mounted.is_over(),
            false => command.status().is_some(),
        }
    }

    /// A command needs the mount until it ends.
    fn may_stop(&mut self, _: &mut Command, end: SessionEnd) -> bool {
        if matches!(end, SessionEnd::Time | SessionEnd::CpuTime) {
            self.stop_counting();
        }
        self.arguments.command.is_empty() && end != SessionEnd::CpuTime
    }
}

fn clear(live: &mut Option<Live>) {
    if let Some(live) = live {
        live.clear();
    }
}
