//! Follows what is read and written from beginning to end: starts the command or takes in the process,
//! and empties what the kernel side has told now and then.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_account::io::{IoBook, Run, file_use, report};
use weigh_account::shell_words;
use weigh_collect::io::{KernelIo, name};
use weigh_collect::job::JobError;
use weigh_collect::spawn::{SpawnError, Waiting};
use weigh_keep::{IoWriter, KeepError};
use weigh_schema::io::{FileId, IoReport};

use super::live::Live;
use crate::arguments::IoArguments;
use crate::foreground::{Foreground, Started};

/// How often what was told is taken in, unless there is much.
const LOOK: Duration = Duration::from_millis(50);
/// So long a page that is dirty may need to be told of when the last process has ended.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// What came of it.
pub struct Followed {
    /// What was found.
    pub report: IoReport,
    /// How the command ended.
    pub status: Option<ExitStatus>,
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn follow(arguments: &IoArguments) -> anyhow::Result<Result<Followed, SpawnError>> {
    let parquet = arguments.parquet.as_deref().map(IoWriter::create).transpose()?;
    let mut io = KernelIo::open()?;
    let foreground = Foreground::prepare()?;
    let began = Instant::now();
    let started = match arguments.pid {
        Some(pid) => {
            io.join(pid).with_context(|| format!("--pid {pid}"))?;
            foreground.stay()
        }
        None => {
            let arm = |waiting: &Waiting| Ok(io.arm(waiting.pidfd())?);
            match foreground.start(&arguments.command, &[], arm)? {
                Ok(started) => started,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let mut following = Following {
        arguments,
        io,
        book: IoBook::default(),
        parquet: parquet.map(Ok),
        live: arguments.live.then(|| Live::new(arguments.rows)),
        began,
    };
    let status = following.until_over(started)?;
    Ok(Ok(Followed { report: following.finish()?, status }))
}

/// What is known while it goes on.
struct Following<'a> {
    arguments: &'a IoArguments,
    io: KernelIo,
    book: IoBook,
    /// The first error is kept, and told when the command has ended.
    parquet: Option<Result<IoWriter, KeepError>>,
    live: Option<Live>,
    began: Instant,
}

impl Following<'_> {
    fn until_over(&mut self, mut started: Started) -> anyhow::Result<Option<ExitStatus>> {
        let end = self.arguments.duration.map(|duration| self.began + duration);
        loop {
            let look = Instant::now() + LOOK;
            started.wait(end.map_or(look, |end| end.min(look)), &[self.io.wake_fd()])?;
            started.attend(&|pid| self.io.is_member(pid))?;
            self.take_in();
            self.draw()?;
            let is_time = end.is_some_and(|end| Instant::now() >= end);
            if self.io.tally().living == 0 || started.is_interrupted() || is_time {
                return Ok(started.status());
            }
        }
    }

    /// Takes in what has come, but for no longer than until somebody should look elsewhere.
    fn take_in(&mut self) {
        let until = Instant::now() + LOOK;
        while self.take_in_a_batch() && Instant::now() < until {}
    }

    /// Whether there was anything.
    fn take_in_a_batch(&mut self) -> bool {
        let events = self.io.events();
        let is_something = !events.is_empty();
        for event in events {
            self.book.add(event);
        }
        self.make_room();
        is_something
    }

    fn make_room(&mut self) {
        let old = self.book.make_room();
        if old.is_empty() {
            return;
        }
        for (key, row) in &old {
            let Some(Ok(parquet)) = &mut self.parquet else { break };
            if let Err(error) = parquet.push(&file_use(&self.book, *key, row, &name)) {
                self.parquet = Some(Err(error));
            }
        }
        let forgotten: Vec<FileId> = self.book.forget_names();
        self.io.forget_names(&forgotten);
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        if !self.live.as_ref().is_some_and(Live::is_due) {
            return Ok(());
        }
        let mut book = self.book.clone();
        take_in_open(&mut book, &self.io)?;
        let report = report(&book, self.run(Vec::new()), &name);
        if let Some(live) = &mut self.live {
            live.draw(&report);
        }
        Ok(())
    }

    fn run(&self, notes: Vec<String>) -> Run {
        let words = self.arguments.command.iter().map(|a| a.to_string_lossy().into_owned());
        Run {
            command: words.collect(),
            pid: self.arguments.pid,
            wall_seconds: self.began.elapsed().as_secs_f64(),
            tally: self.io.tally(),
            notes,
        }
    }

    fn finish(mut self) -> anyhow::Result<IoReport> {
        let mut run = self.run(self.io.missing().to_vec());
        if self.arguments.pid.is_none() {
            // The memory of the last process is given back after its end was told.
            std::thread::sleep(LAST_LOOK);
        }
        self.io.detach();
        while self.take_in_a_batch() {}
        take_in_open(&mut self.book, &self.io)?;
        if let Some(rest) = self.io.rest() {
            self.book.add_rest(&rest);
        }
        let requests = self.io.open_requests()?;
        for request in &requests {
            self.book.add_use(request);
        }
        if !requests.is_empty() {
            run.notes.push(format!(
                "{} AIO requests, whose results no call handed over, are counted as they were asked for",
                requests.len()
            ));
        }
        run.tally = self.io.tally();
        if let Some(live) = &mut self.live {
            live.clear();
        }
        let command = match run.pid {
            Some(pid) => format!("process {pid}"),
            None => shell_words(&run.command),
        };
        let report = report(&self.book, run, &name);
        if let Some(parquet) = self.parquet {
            let mut parquet = parquet?;
            report.files.iter().try_for_each(|file| parquet.push(file))?;
            parquet.finish(&command)?;
        }
        Ok(report)
    }
}

/// What processes have open still.
fn take_in_open(book: &mut IoBook, io: &KernelIo) -> Result<(), JobError> {
    io.open_uses()?.iter().for_each(|used| book.add_use(used));
    for process in io.processes()? {
        book.add_process(process);
    }
    Ok(())
}
