//! One run of weigh trace: what it follows begins, and what becomes of it until it ends.

use std::os::fd::BorrowedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use weigh_collect::spawn::{SpawnError, Waiting};

use super::asked::Asked;
use super::control::Control;
use super::counts::Totals;
use super::stream::Stream;
use super::wishes::{Checker, Wish};
use crate::arguments::TraceArguments;
use crate::descriptors::Descriptors;
use crate::foreground::{Foreground, Started};

/// How often records are taken in that no watermark tells of.
const LOOK: Duration = Duration::from_millis(50);
/// The same where names are wanted of processes: what is not looked at while they live has none.
const LOOK_FOR_NAMES: Duration = Duration::from_millis(2);

/// What came of it.
pub struct Followed {
    /// How the command ended.
    pub status: Option<ExitStatus>,
    /// What was counted.
    pub totals: Totals,
    /// Why not all of it was kept.
    pub failed: Option<anyhow::Error>,
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn follow(
    arguments: &TraceArguments,
    checker: Checker,
    wishes: Vec<Wish>,
    asked: &[Asked],
) -> anyhow::Result<Result<Followed, SpawnError>> {
    if arguments.system && arguments.pid.is_some() {
        bail!("expected one of --system and --pid");
    }
    // A probe takes three.
    let descriptors = Descriptors::raise();
    let mut stream = Stream::open(arguments, checker, wishes, asked)?;
    let control = Control::open();
    let foreground = Foreground::prepare()?;
    let began = Instant::now();
    let started = match (arguments.pid, arguments.command.is_empty()) {
        (Some(pid), _) => {
            stream.kernel.join(pid).with_context(|| format!("--pid {pid}"))?;
            foreground.stay()
        }
        (None, true) => foreground.stay(),
        (None, false) => {
            let arm = |waiting: &Waiting| {
                descriptors.give_back(waiting.pid())?;
                Ok(stream.kernel.arm(waiting.pidfd())?)
            };
            match foreground.start(&arguments.command, &[], arm)? {
                Ok(started) => started,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let end = arguments.duration.map(|duration| began + duration);
    let status = until_over(&mut stream, control, started, end)?;
    let (totals, failed) = stream.finish(began);
    Ok(Ok(Followed { status, totals, failed }))
}

fn until_over(
    stream: &mut Stream,
    mut control: Control,
    mut started: Started,
    end: Option<Instant>,
) -> anyhow::Result<Option<ExitStatus>> {
    let mut has_all = true;
    loop {
        let pause = if stream.wants_names() { LOOK_FOR_NAMES } else { LOOK };
        let pause = stream.pause().map_or(pause, |other| pause.min(other));
        let look = Instant::now() + if has_all { pause } else { Duration::ZERO };
        let mut awaited: Vec<BorrowedFd<'_>> = stream.wake_fds().collect();
        awaited.extend(control.descriptors());
        started.wait(end.map_or(look, |end| end.min(look)), &awaited)?;
        started.attend(&|pid| stream.kernel.is_member(pid))?;
        control.attend(&mut |ask| stream.answer(ask));
        has_all = stream.take_in();
        stream.draw();
        let is_time = end.is_some_and(|end| Instant::now() >= end);
        let has_ended = match stream.kernel.living() {
            // The kernel side knows of the last end before the command's parent, weigh, does.
            Some(living) => living == 0 && started.is_reaped(),
            None => started.status().is_some(),
        };
        if has_ended || started.is_interrupted() || is_time {
            return Ok(started.status());
        }
    }
}
