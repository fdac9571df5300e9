//! `weigh io mount`: serves a folder at another place, and says what is done with its files there.
//!
//! Reads what the file system counted; emits the same table, JSON and Parquet as `weigh io`. Refuses
//! folders that can not be used before the command is started.

mod leaving;
pub mod recorded;
mod source;
mod told;
mod view;

use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weigh_account::io::{IoBook, Run, report};
use weigh_account::shell_words;
use weigh_collect::file_flags::control;
use weigh_collect::notice;
use weigh_collect::spawn::SpawnError;
use weigh_mount::{Detail, Mounted, Wish};

use super::gather::{Gather, LOOK};
use super::sinks::Sinks;
use crate::arguments::{IoBy, MountArguments};
use crate::foreground::{self, Foreground, Started};
use crate::live::Live;
use leaving::Leaving;
use source::MountSource;

/// Serves, and tells.
pub fn execute(arguments: &MountArguments) -> anyhow::Result<ExitCode> {
    let telling = &arguments.telling;
    telling.status.apply();
    super::check_files(telling, arguments.calls.as_deref())?;
    let (json, live) = (super::open_json(telling)?, super::live(telling)?);
    let sinks = Sinks::open(telling, arguments.calls.as_deref())?;
    let began = Instant::now();
    let (mounted, source, mut started) = match start(arguments)? {
        Ok(all) => all,
        Err(error) => {
            notice!("{error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    // Whoever uses it without a command is seen from here on.
    let began = if arguments.command.is_empty() { Instant::now() } else { began };
    let gather = Gather::new(source.io, source.call_name);
    let mut serving = Serving { arguments, mounted, gather, sinks, live, began, counted: None };
    let status = serving.until_over(&mut started)?;
    let (book, run, kept) = serving.finish()?;
    let report = report(&book, &run, &source.call_name);
    super::tell_all(&report, telling, json, kept, true)?;
    Ok(status.map_or(ExitCode::SUCCESS, foreground::end_like))
}

/// A mount, who tells of it, and who uses it.
type Begun = (Arc<Mounted>, MountSource, Started);

/// Mounts, and starts the command. It is made before, and waits: it inherits nothing of the mount's.
fn start(arguments: &MountArguments) -> anyhow::Result<Result<Begun, SpawnError>> {
    let mut place = Some(Mounted::check(&arguments.source, &arguments.mountpoint)?);
    let by_thread = arguments.by == IoBy::Thread;
    let detail = Detail { each_call: arguments.calls.is_some(), by_thread };
    let (exact, may_pass) = (arguments.exact, !arguments.no_passthrough);
    let wish = Wish { exact, may_pass, detail, control };
    let foreground = Foreground::prepare()?;
    let mut mounted = None;
    let mut mount = || -> anyhow::Result<()> {
        if let Some(place) = place.take() {
            let (at, made) = (place.mountpoint.clone(), Arc::new(Mounted::new(place, wish)?));
            let source = MountSource::open(&made, &at, detail, arguments.mechanism);
            if source.is_err() {
                made.detach()?;
            }
            mounted = Some((made, source?));
        }
        Ok(())
    };
    let started = match arguments.command.is_empty() {
        true => mount().map(|()| Ok(foreground.stay())),
        false => foreground.start(&arguments.command, &[], |_| mount()),
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

struct Serving<'a> {
    arguments: &'a MountArguments,
    mounted: Arc<Mounted>,
    gather: Gather,
    sinks: Sinks,
    live: Option<Live>,
    began: Instant,
    /// For how long was counted, if that is over.
    counted: Option<Duration>,
}

impl Serving<'_> {
    /// Serves until the command has ended, somebody unmounts it, somebody interrupts, or it is time; and then
    /// those who have files open still.
    fn until_over(&mut self, started: &mut Started) -> anyhow::Result<Option<ExitStatus>> {
        let has_command = !self.arguments.command.is_empty();
        let end = self.arguments.duration.map(|duration| self.began + duration);
        loop {
            let look = Instant::now() + LOOK;
            self.look(
                started,
                end.filter(|_| self.counted.is_none()).map_or(look, |e| e.min(look)),
            )?;
            let is_time = end.is_some_and(|end| Instant::now() >= end);
            if is_time || started.why_to_stop().is_some() {
                self.stop_counting();
            }
            let is_over = match has_command {
                true => started.status().is_some(),
                false => is_time || started.is_interrupted() || self.mounted.is_over(),
            };
            if is_over {
                break;
            }
        }
        started.heed();
        self.mounted.detach()?;
        let mut leaving = Leaving::default();
        let at = &self.arguments.mountpoint;
        while !leaving.is_done(&self.mounted, at, || clear(&mut self.live))
            && !started.is_interrupted()
        {
            self.look(started, Instant::now() + LOOK)?;
        }
        Ok(started.status())
    }

    fn stop_counting(&mut self) {
        if self.counted.is_none() {
            self.gather.io.detach();
            self.counted = Some(self.began.elapsed());
        }
    }

    fn look(&mut self, started: &mut Started, until: Instant) -> anyhow::Result<()> {
        started.wait(until, &self.gather.io.wake_fds())?;
        started.attend(&|_| false)?;
        let sinks = &mut self.sinks;
        self.gather.take_in(&mut |told| sinks.keep(told));
        self.draw()
    }

    /// All that is known, on the terminal.
    fn draw(&mut self) -> anyhow::Result<()> {
        if !self.live.as_ref().is_some_and(Live::is_due) {
            return Ok(());
        }
        let book = self.gather.so_far()?;
        let run = self.run();
        let report = report(&book, &run, &self.gather.name);
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
            tally: self.gather.io.tally(),
            grounds: self.gather.io.grounds(),
        }
    }

    fn finish(mut self) -> anyhow::Result<(IoBook, Run, anyhow::Result<()>)> {
        clear(&mut self.live);
        let mut run = self.run();
        let sinks = &mut self.sinks;
        self.gather.end(&mut run, &mut |told| sinks.keep(told))?;
        let Gather { book, io, name, .. } = self.gather;
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

fn clear(live: &mut Option<Live>) {
    if let Some(live) = live {
        live.clear();
    }
}
