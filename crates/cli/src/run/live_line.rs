//! The live line of `weigh run`.
//!
//! Reads what was sampled last, and whether the job leaves the terminal alone; draws one line over itself on standard
//! error. Asked for, it is there from the start. By itself it comes after two seconds, and only while no process of the
//! job has the terminal as standard output or error, reads from it, or has changed its settings.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use weigh_account::job_value;
use weigh_collect::message::{self, Frame};
use weigh_collect::terminal::JobTerminal;
use weigh_schema::event::JobReading;
use weigh_schema::limit::Limit;
use weigh_session::products::run::{RunState, RunView};

use super::settings::RunOutput;
use crate::show::width;

/// A job that is over sooner needs no line.
const UNASKED_AFTER: Duration = Duration::from_secs(2);

/// It is not drawn more often.
const PACE: Duration = Duration::from_millis(250);

/// So many limits, the nearest first, are shown.
const LIMITS: usize = 2;

/// Who wants a line.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LineMode {
    #[default]
    None,
    /// Where the job leaves the terminal alone.
    Unasked,
    Asked,
}

/// What is on the terminal.
#[derive(Default)]
pub struct LiveLine {
    wish: LineMode,
    terminal: Option<JobTerminal>,
    begun: Option<Instant>,
    drawn: Option<Instant>,
    is_shown: bool,
    before: Option<JobReading>,
}

impl LiveLine {
    /// Nothing is drawn yet.
    pub fn new(output: &RunOutput) -> LiveLine {
        let is_never = std::env::var_os("WEIGH_LIVE").is_some_and(|value| value == "never");
        let wish = match std::io::stderr().is_terminal() {
            false => LineMode::None,
            true if output.live => LineMode::Asked,
            true if output.quiet || is_never => LineMode::None,
            true => LineMode::Unasked,
        };
        LiveLine { wish, ..LiveLine::default() }
    }

    /// Draws the line, or takes it away where it may not be.
    fn draw_line(&mut self, state: &RunState<'_>) {
        let is_soon = |at: Instant| at.elapsed() < PACE;
        // What is behind the times is not drawn: the terminal does not keep up.
        if self.wish == LineMode::None || self.drawn.is_some_and(is_soon) || !message::is_idle() {
            return;
        }
        if !self.may_draw(state.living) {
            return self.clear();
        }
        let columns = width(std::io::stderr()).saturating_sub(1);
        let (now, near) = (state.reading, nearest(state.limits, state.reading));
        let line = weigh_show::progress::line(self.before.as_ref(), now, &near, columns);
        message::draw(Frame::Line, &line);
        (self.is_shown, self.drawn) = (true, Some(Instant::now()));
        self.before = Some(now.clone());
    }

    /// Takes it away.
    pub fn clear(&mut self) {
        if self.is_shown {
            message::draw(Frame::Line, "");
            self.is_shown = false;
        }
    }

    fn may_draw(&self, living: &dyn Fn() -> Vec<u32>) -> bool {
        let is_late = || self.begun.is_some_and(|begun| begun.elapsed() >= UNASKED_AFTER);
        match &self.terminal {
            _ if self.wish == LineMode::Asked => true,
            Some(terminal) => is_late() && terminal.is_left_alone(living),
            None => false,
        }
    }
}

impl RunView for LiveLine {
    fn begin(&mut self) {
        self.begun = Some(Instant::now());
        self.terminal = (self.wish == LineMode::Unasked).then(JobTerminal::of_stderr).flatten();
    }

    fn draw(&mut self, state: &RunState<'_>) {
        self.draw_line(state);
    }
}

/// The limits that are nearest, with the share that is used.
fn nearest<'a>(limits: &'a [Limit], now: &JobReading) -> Vec<(&'a str, f64)> {
    let wall = now.at_ns as f64 * 1e-9;
    let used = |limit: &'a Limit| {
        let value = job_value(limit.metric, now, wall)?;
        (limit.value > 0.0).then(|| (limit.metric.name, value / limit.value))
    };
    let mut near: Vec<_> = limits.iter().filter_map(used).collect();
    near.sort_by(|a, b| b.1.total_cmp(&a.1));
    near.truncate(LIMITS);
    near
}
