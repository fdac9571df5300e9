//! `weigh io mount`: serves a folder at another place, and says what is done with its files there.
//!
//! Reads what the file system counted; emits the same table, JSON and Parquet as `weigh io`. Refuses
//! folders that can not be used before the command is started.

mod view;

use std::io::IsTerminal as _;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use weigh_account::io::{Files, IoBook, Run, file_use, report};
use weigh_account::shell_words;
use weigh_collect::spawn::SpawnError;
use weigh_keep::{IoWriter, KeepError};
use weigh_mount::{Mounted, Wish, call_name};
use weigh_schema::io::{Event, Grounds, Tally};

use super::WIDE;
use super::gather::LOOK;
use crate::arguments::MountArguments;
use crate::destination::Destination;
use crate::foreground::{self, Foreground, Started};
use crate::show::{color, width};

/// So long files that are still open after the end go unmentioned.
const PATIENCE: Duration = Duration::from_millis(300);

/// Serves, and tells.
pub fn execute(arguments: &MountArguments) -> anyhow::Result<ExitCode> {
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    let parquet = arguments.parquet.as_deref().map(IoWriter::create).transpose()?;
    let began = Instant::now();
    let (mounted, mut started) = match start(arguments)? {
        Ok(both) => both,
        Err(error) => {
            eprintln!("weigh: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    let mut serving = Serving { mounted, book: IoBook::default(), parquet: parquet.map(Ok) };
    let status = serving.until_over(&mut started, arguments)?;
    let (book, run) = serving.finish(arguments, began)?;
    let report = report(&book, &run, &call_name);
    if !arguments.quiet {
        let err = std::io::stderr();
        let columns = if err.is_terminal() { width(&err) } else { WIDE };
        eprint!("{}", super::text(&report, arguments.rows, columns, color(&err)));
    }
    if let Some(json) = json {
        json.write_json(&report)?;
    }
    Ok(status.map_or(ExitCode::SUCCESS, foreground::end_like))
}

/// Mounts, and starts the command. It is made before, and waits: it inherits nothing of the mount's.
fn start(arguments: &MountArguments) -> anyhow::Result<Result<(Mounted, Started), SpawnError>> {
    let mut place = Some(Mounted::check(&arguments.source, &arguments.mountpoint)?);
    let wish = Wish { exact: arguments.exact, may_pass: !arguments.no_passthrough };
    let foreground = Foreground::prepare()?;
    let mut mounted = None;
    let mut mount = || -> anyhow::Result<()> {
        if let Some(place) = place.take() {
            mounted = Some(Mounted::new(place, wish)?);
        }
        Ok(())
    };
    let started = match arguments.command.is_empty() {
        true => mount().map(|()| Ok(foreground.stay())),
        false => foreground.start(&arguments.command, &[], |_| mount()),
    }?;
    let Some(mounted) = mounted else { anyhow::bail!("the mount was not made") };
    mounted.widen();
    match started {
        Ok(started) => Ok(Ok((mounted, started))),
        Err(error) => {
            mounted.detach()?;
            mounted.finish()?;
            Ok(Err(error))
        }
    }
}

struct Serving {
    mounted: Mounted,
    book: IoBook,
    /// The first error is kept, and told in the end.
    parquet: Option<Result<IoWriter, KeepError>>,
}

impl Serving {
    /// Serves until the command has ended, somebody unmounts it, or somebody interrupts; and then those who
    /// have files open still.
    fn until_over(
        &mut self,
        started: &mut Started,
        arguments: &MountArguments,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let has_command = !arguments.command.is_empty();
        loop {
            self.look(started)?;
            let is_over = match has_command {
                true => started.status().is_some(),
                false => started.is_interrupted() || self.mounted.is_over(),
            };
            if is_over {
                break;
            }
        }
        started.heed();
        if !self.mounted.is_over() {
            self.mounted.detach()?;
        }
        self.outlast(started, arguments)?;
        Ok(started.status())
    }

    /// Serves those who have files open still. Whoever has no more than its working directory there, or a
    /// copy of the mount in a namespace of his own, is not waited for.
    fn outlast(&mut self, started: &mut Started, arguments: &MountArguments) -> anyhow::Result<()> {
        let ended = Instant::now();
        let mut is_told = false;
        loop {
            let is_late = ended.elapsed() > PATIENCE;
            let is_done = self.mounted.is_over() || is_late && !self.mounted.is_in_use();
            if is_done || started.is_interrupted() {
                return Ok(());
            }
            if is_late && !is_told {
                is_told = true;
                eprintln!(
                    "weigh: {} is unmounted, but somebody has files of it open: they are served until they are closed, or weigh is interrupted",
                    arguments.mountpoint.display()
                );
            }
            self.look(started)?;
        }
    }

    fn look(&mut self, started: &mut Started) -> anyhow::Result<()> {
        started.wait(Instant::now() + LOOK, &[])?;
        started.attend(&|_| false)?;
        let events = self.mounted.overflow();
        self.take_in(events);
        Ok(())
    }

    fn take_in(&mut self, events: Vec<Event>) {
        events.into_iter().for_each(|event| self.book.add(event));
        let left = self.book.make_room();
        if left.is_empty() {
            return;
        }
        for (key, row) in &left {
            let row = file_use(&self.book, *key, &row.row(), &call_name);
            if let Some(Ok(writer)) = &mut self.parquet
                && let Err(error) = writer.push(&row)
            {
                self.parquet = Some(Err(error));
            }
        }
        let forgotten = self.book.forget_names(&left);
        self.mounted.forget_names(&forgotten);
    }

    fn finish(
        mut self,
        arguments: &MountArguments,
        began: Instant,
    ) -> anyhow::Result<(IoBook, Run)> {
        let rest = self.mounted.rest();
        self.take_in(rest);
        let sight = self.mounted.sight();
        let (grounds, unseen) = view::of(sight);
        self.book.unseen = unseen;
        let notes = self.mounted.refused().iter().map(view::refused).collect();
        let words = arguments.command.iter().map(|word| word.to_string_lossy().into_owned());
        let run = Run {
            command: words.collect(),
            pid: None,
            mount: None,
            wall_seconds: began.elapsed().as_secs_f64(),
            tally: Tally::default(),
            grounds: Grounds { notes, ..grounds },
        };
        match self.mounted.is_over() {
            true => self.mounted.finish()?,
            // Its end would wait for those who have something of it still.
            false => std::mem::forget(self.mounted),
        }
        let command = match run.command.is_empty() {
            true => format!("mount of {}", arguments.source.display()),
            false => shell_words(&run.command),
        };
        if let Some(parquet) = self.parquet {
            let mut parquet = parquet?;
            let files = Files::of(&self.book, &call_name);
            files.iter().try_for_each(|file| parquet.push(&file))?;
            parquet.finish(&command)?;
        }
        Ok((self.book, run))
    }
}
