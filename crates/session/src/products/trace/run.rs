//! One run of a stream: what it follows begins, and what becomes of it until it ends.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_collect::clock::Moment;
use weigh_collect::spawn::{SpawnError, Waiting, With};
use weigh_trace::sink::Totals;

use super::adaptive::Adaptive;
use super::control::Control;
use super::event_stream::EventStream;
use super::outputs::RecordOutputs;
use super::settings::TraceSettings;
use crate::command::{Command, CommandWait, Launcher, must_run};
use crate::engine::Session;
use crate::error::SourceError;
use crate::source::Source;

/// How often records are taken in that no watermark tells of.
const LOOK: Duration = Duration::from_millis(50);
/// The same where names are wanted of processes: what is not looked at while they live has none.
const LOOK_FOR_NAMES: Duration = Duration::from_millis(2);

/// What came of a stream that was followed.
pub struct TraceOutcome {
    /// What is to be waited for when it has been told.
    pub rest: CommandWait,
    /// What was counted.
    pub totals: Totals,
    /// Why not all of it was kept.
    pub failed: Option<anyhow::Error>,
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn follow(
    settings: &TraceSettings,
    outputs: &dyn RecordOutputs,
    mut stream: Box<dyn EventStream>,
    (control, adaptive): (Control, Adaptive),
) -> anyhow::Result<Result<TraceOutcome, SpawnError>> {
    let launcher = Launcher::prepare()?;
    let began = Instant::now();
    let command = match (settings.pid, settings.command.is_empty()) {
        (Some(pid), _) => {
            must_run(pid)?;
            stream.join(pid).with_context(|| format!("--pid {pid}"))?;
            launcher.stay()
        }
        (None, true) => launcher.stay(),
        (None, false) => {
            let arm = |waiting: &Waiting| stream.arm(waiting.pidfd());
            match launcher.start(&settings.command, &With::default(), arm)? {
                Ok(command) => command,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let end = settings.duration.map(|duration| began + duration);
    let mut session = Session::new(command, end);
    let mut source = StreamSource { settings, outputs, stream, control, adaptive, has_all: true };
    session.run(&mut source)?;
    let StreamSource { mut stream, control, .. } = source;
    let ended = (Moment::now().ns(), began.elapsed().as_secs_f64());
    stream.stop();
    control.end(stream.as_ref());
    let (totals, failed) = stream.finish(ended);
    // Who was of the job is not known any more.
    let mut command = session.command;
    let rest = Box::new(move || command.see_to_its_end(&|_| false));
    Ok(Ok(TraceOutcome { rest, totals, failed }))
}

/// Whether nobody can read what all of it goes to.
fn is_gone(settings: &TraceSettings, outputs: &dyn RecordOutputs) -> bool {
    settings.goes_to_output_alone() && outputs.is_output_gone()
}

/// A stream with who steers it from outside.
struct StreamSource<'a> {
    settings: &'a TraceSettings,
    outputs: &'a dyn RecordOutputs,
    stream: Box<dyn EventStream>,
    control: Control,
    adaptive: Adaptive,
    /// Whether the last look took all records that were there.
    has_all: bool,
}

impl StreamSource<'_> {
    /// Whether nobody can have anything of it any more.
    fn is_useless(&self) -> bool {
        self.settings.command.is_empty()
            && (self.stream.has_failed() || is_gone(self.settings, self.outputs))
    }
}

impl Source for StreamSource<'_> {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.stream.wakers();
        descriptors.extend(self.control.descriptors());
        descriptors
    }

    fn deadline(&self) -> Option<Instant> {
        let pause = if self.stream.wants_names() { LOOK_FOR_NAMES } else { LOOK };
        let pause = self.stream.pause().map_or(pause, |other| pause.min(other));
        let look = Instant::now() + if self.has_all { pause } else { Duration::ZERO };
        Some(self.control.look_at().map_or(look, |at| look.min(at)))
    }

    fn is_member(&self, pid: u32) -> bool {
        self.stream.is_member(pid)
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        self.control.attend(self.stream.as_mut());
        self.has_all = self.stream.take_in();
        self.control.tell(self.stream.as_mut());
        self.adaptive.attend(self.stream.as_mut());
        self.stream.draw();
        Ok(())
    }

    fn is_over(&mut self, command: &Command) -> bool {
        let has_ended = match self.stream.living() {
            // The kernel side knows of the last end before the command's parent, weigh, does.
            Some(living) => living == 0 && command.is_reaped(),
            None => command.status().is_some() || self.stream.is_over() && self.has_all,
        };
        has_ended || self.is_useless()
    }
}
