//! `weigh io mount`: serves a folder at another place, and says what is done with its files there.
//!
//! Reads what the file system counted; emits the same table, JSON and Parquet as `weigh io`. Refuses
//! folders that can not be used before the command is started.

mod view;

use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use weigh_account::io::{Files, IoBook, Run, file_use, report};
use weigh_account::shell_words;
use weigh_collect::file_flags::control;
use weigh_collect::spawn::SpawnError;
use weigh_keep::{IoWriter, KeepError};
use weigh_mount::{Mounted, Wish, call_name};
use weigh_schema::io::{Event, Grounds, Tally};

use super::gather::LOOK;
use crate::arguments::MountArguments;
use crate::foreground::{self, Foreground, Started};
use crate::live::Live;

/// So long files that are still open after the end go unmentioned.
const PATIENCE: Duration = Duration::from_millis(300);

/// Serves, and tells.
pub fn execute(arguments: &MountArguments) -> anyhow::Result<ExitCode> {
    let telling = &arguments.telling;
    let (json, live) = (super::open_json(telling)?, super::live(telling)?);
    let parquet = telling.parquet.as_deref().map(IoWriter::create).transpose()?;
    let began = Instant::now();
    let (mounted, mut started) = match start(arguments)? {
        Ok(both) => both,
        Err(error) => {
            eprintln!("weigh: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    let (book, parquet) = (IoBook::default(), parquet.map(Ok));
    let mut serving = Serving { arguments, mounted, book, parquet, live, began };
    let status = serving.until_over(&mut started)?;
    let (book, run) = serving.finish()?;
    let report = report(&book, &run, &call_name);
    if !telling.quiet {
        super::tell_beside(&report, telling);
    }
    if let Some(json) = json {
        json.write_json(&report)?;
    }
    Ok(status.map_or(ExitCode::SUCCESS, foreground::end_like))
}

/// Mounts, and starts the command. It is made before, and waits: it inherits nothing of the mount's.
fn start(arguments: &MountArguments) -> anyhow::Result<Result<(Mounted, Started), SpawnError>> {
    let mut place = Some(Mounted::check(&arguments.source, &arguments.mountpoint)?);
    let wish = Wish { exact: arguments.exact, may_pass: !arguments.no_passthrough, control };
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

struct Serving<'a> {
    arguments: &'a MountArguments,
    mounted: Mounted,
    book: IoBook,
    /// The first error is kept, and told in the end.
    parquet: Option<Result<IoWriter, KeepError>>,
    live: Option<Live>,
    began: Instant,
}

impl Serving<'_> {
    /// Serves until the command has ended, somebody unmounts it, or somebody interrupts; and then those who
    /// have files open still.
    fn until_over(&mut self, started: &mut Started) -> anyhow::Result<Option<ExitStatus>> {
        let has_command = !self.arguments.command.is_empty();
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
        self.outlast(started)?;
        Ok(started.status())
    }

    /// Serves those who have files open still. Whoever has no more than its working directory there, or a
    /// copy of the mount in a namespace of his own, is not waited for.
    fn outlast(&mut self, started: &mut Started) -> anyhow::Result<()> {
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
                self.clear();
                eprintln!(
                    "weigh: {} is unmounted, but somebody has files of it open: they are served until they are closed, or weigh is interrupted",
                    self.arguments.mountpoint.display()
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
        self.draw();
        Ok(())
    }

    /// All that is known, on the terminal.
    fn draw(&mut self) {
        if !self.live.as_ref().is_some_and(Live::is_due) {
            return;
        }
        let mut book = self.book.clone();
        self.mounted.so_far().into_iter().for_each(|event| book.add(event));
        let run = self.run(&mut book);
        let report = report(&book, &run, &call_name);
        if let Some(live) = &mut self.live {
            let rows = self.arguments.telling.rows;
            live.draw(|columns, color| super::text(&report, rows, columns, color));
        }
    }

    fn clear(&mut self) {
        if let Some(live) = &mut self.live {
            live.clear();
        }
    }

    /// What a book is about, and how far it can be trusted.
    fn run(&self, book: &mut IoBook) -> Run {
        let (grounds, unseen) = view::of(self.mounted.sight());
        book.unseen = unseen;
        let notes = self.mounted.refused().iter().map(view::refused).collect();
        let words = self.arguments.command.iter().map(|word| word.to_string_lossy().into_owned());
        Run {
            command: words.collect(),
            pid: None,
            mount: None,
            wall_seconds: self.began.elapsed().as_secs_f64(),
            tally: Tally::default(),
            grounds: Grounds { notes, ..grounds },
        }
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

    fn finish(mut self) -> anyhow::Result<(IoBook, Run)> {
        self.clear();
        let rest = self.mounted.rest();
        self.take_in(rest);
        let mut book = std::mem::take(&mut self.book);
        let run = self.run(&mut book);
        match self.mounted.is_over() {
            true => self.mounted.finish()?,
            // Its end would wait for those who have something of it still.
            false => std::mem::forget(self.mounted),
        }
        let command = match run.command.is_empty() {
            true => format!("mount of {}", self.arguments.source.display()),
            false => shell_words(&run.command),
        };
        if let Some(parquet) = self.parquet {
            let mut parquet = parquet?;
            let files = Files::of(&book, &call_name);
            files.iter().try_for_each(|file| parquet.push(&file))?;
            parquet.finish(&command)?;
        }
        Ok((book, run))
    }
}
