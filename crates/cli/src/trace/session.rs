//! One run of weigh trace: what it follows begins, and what becomes of it until it ends.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_collect::clock::Moment;
use weigh_collect::spawn::{SpawnError, Waiting};

use super::control::Control;
use super::counts::Totals;
use super::running::Running;
use crate::arguments::TraceArguments;
use crate::foreground::{Foreground, Rest, Started, must_run};
use crate::show;

/// How often records are taken in that no watermark tells of.
const LOOK: Duration = Duration::from_millis(50);
/// The same where names are wanted of processes: what is not looked at while they live has none.
const LOOK_FOR_NAMES: Duration = Duration::from_millis(2);

/// What came of it.
pub struct Followed {
    /// What is to be waited for when it has been told.
    pub rest: Rest,
    /// What was counted.
    pub totals: Totals,
    /// Why not all of it was kept.
    pub failed: Option<anyhow::Error>,
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn follow(
    arguments: &TraceArguments,
    mut stream: Box<dyn Running>,
    control: Control,
) -> anyhow::Result<Result<Followed, SpawnError>> {
    let foreground = Foreground::prepare()?;
    let began = Instant::now();
    let mut started = match (arguments.pid, arguments.command.is_empty()) {
        (Some(pid), _) => {
            must_run(pid)?;
            stream.join(pid).with_context(|| format!("--pid {pid}"))?;
            foreground.stay()
        }
        (None, true) => foreground.stay(),
        (None, false) => {
            let arm = |waiting: &Waiting| stream.arm(waiting.pidfd());
            match foreground.start(&arguments.command, &[], arm)? {
                Ok(started) => started,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let end = arguments.duration.map(|duration| began + duration);
    let mut control = control;
    let is_useless = |stream: &dyn Running| {
        arguments.command.is_empty() && (stream.has_failed() || is_gone(arguments))
    };
    until_over(stream.as_mut(), &mut control, &mut started, end, &is_useless)?;
    let ended = (Moment::now().ns(), began.elapsed().as_secs_f64());
    stream.stop();
    control.end(stream.as_ref());
    let (totals, failed) = stream.finish(ended);
    // Who was of the job is not known any more.
    let rest = Box::new(move || started.see_to_its_end(&|_| false));
    Ok(Ok(Followed { rest, totals, failed }))
}

/// Whether all records that are written go to standard output.
pub fn writes_to_output(arguments: &TraceArguments) -> bool {
    let is_output = |path: &PathBuf| path.as_os_str() == "-";
    arguments.output.as_ref().is_none_or(is_output) && arguments.into.is_empty()
}

/// Whether nobody can read what all of it goes to.
pub fn is_gone(arguments: &TraceArguments) -> bool {
    goes_to_output_alone(arguments) && show::is_output_gone()
}

/// Whether standard output is all that has something of it.
fn goes_to_output_alone(arguments: &TraceArguments) -> bool {
    let synthesis = &arguments.synthesis;
    writes_to_output(arguments)
        && !synthesis.live
        && synthesis.json.as_deref().is_none_or(|json| json == "-")
}

fn until_over(
    stream: &mut dyn Running,
    control: &mut Control,
    started: &mut Started,
    end: Option<Instant>,
    is_useless: &dyn Fn(&dyn Running) -> bool,
) -> anyhow::Result<()> {
    let mut has_all = true;
    loop {
        let pause = if stream.wants_names() { LOOK_FOR_NAMES } else { LOOK };
        let pause = stream.pause().map_or(pause, |other| pause.min(other));
        let look = Instant::now() + if has_all { pause } else { Duration::ZERO };
        let until = [end, control.look_at()].into_iter().flatten().fold(look, Instant::min);
        let mut awaited: Vec<BorrowedFd<'_>> = stream.wakers();
        awaited.extend(control.descriptors());
        started.wait(until, &awaited)?;
        started.attend(&|pid| stream.is_member(pid))?;
        control.attend(stream);
        has_all = stream.take_in();
        control.tell(stream);
        stream.draw();
        let is_time =
            end.is_some_and(|end| Instant::now() >= end) || started.why_to_stop().is_some();
        let has_ended = match stream.living() {
            // The kernel side knows of the last end before the command's parent, weigh, does.
            Some(living) => living == 0 && started.is_reaped(),
            None => started.status().is_some() || stream.is_over() && has_all,
        };
        if has_ended || started.is_interrupted() || is_time || is_useless(stream) {
            return Ok(());
        }
    }
}
