//! The live line of `weigh run`.
//!
//! Reads what was sampled last, and whether the job leaves the terminal alone; draws one line over itself on standard
//! error. Asked for, it is there from the start. By itself it comes after two seconds, and only while no process of the
//! job has the terminal as standard output or error, reads from it, or has changed its settings.

use std::io::{IsTerminal as _, Stderr};
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::termios::{Termios, tcgetattr, tcgetpgrp};
use weigh_account::job_value;
use weigh_collect::io::name;
use weigh_collect::message::{self, Frame};
use weigh_schema::event::JobReading;
use weigh_schema::limit::Limit;
use weigh_session::products::run::{RunState, RunView};

use super::settings::RunOutput;
use crate::show::width;

/// A job that is over sooner needs no line.
const UNASKED_AFTER: Duration = Duration::from_secs(2);

/// It is not drawn more often.
const PACE: Duration = Duration::from_millis(250);

/// The most processes whose descriptors are looked at: of more nobody knows what they do to the terminal.
const PROCESSES: usize = 64;

/// So many limits, the nearest first, are shown.
const LIMITS: usize = 2;

/// `/dev/tty`: whatever terminal a process has.
const OWN_TERMINAL: (u32, u32) = (5, 0);

/// Who wants a line.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    None,
    /// Where the job leaves the terminal alone.
    Unasked,
    Asked,
}

/// What is on the terminal.
#[derive(Default)]
pub struct LiveLine {
    wish: Wish,
    terminal: Option<Terminal>,
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
            false => Wish::None,
            true if output.live => Wish::Asked,
            true if output.quiet || is_never => Wish::None,
            true => Wish::Unasked,
        };
        LiveLine { wish, ..LiveLine::default() }
    }

    /// Draws the line, or takes it away where it may not be.
    fn draw_line(&mut self, state: &RunState<'_>) {
        let is_soon = |at: Instant| at.elapsed() < PACE;
        // What is behind the times is not drawn: the terminal does not keep up.
        if self.wish == Wish::None || self.drawn.is_some_and(is_soon) || !message::is_idle() {
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
            _ if self.wish == Wish::Asked => true,
            Some(terminal) => is_late() && terminal.is_left_alone(living),
            None => false,
        }
    }
}

impl RunView for LiveLine {
    fn begin(&mut self) {
        self.begun = Some(Instant::now());
        self.terminal = (self.wish == Wish::Unasked).then(Terminal::of_stderr).flatten();
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

/// The terminal behind standard error, as it was before the command began.
struct Terminal {
    stderr: Stderr,
    device: (u32, u32),
    settings: Termios,
}

impl Terminal {
    fn of_stderr() -> Option<Terminal> {
        let stderr = std::io::stderr();
        let settings = tcgetattr(&stderr).ok()?;
        let device = device(Path::new("/proc/self/fd/2"))??;
        Some(Terminal { stderr, device, settings })
    }

    /// Whether nobody of the job writes to it, reads from it, or has changed its settings, and weigh is in its
    /// foreground. What cannot be found out counts as no.
    fn is_left_alone(&self, living: &dyn Fn() -> Vec<u32>) -> bool {
        let is_foreground =
            tcgetpgrp(&self.stderr).is_ok_and(|group| group == rustix::process::getpgrp());
        let is_as_before =
            || tcgetattr(&self.stderr).is_ok_and(|now| modes(&now) == modes(&self.settings));
        let living = living();
        is_foreground
            && is_as_before()
            && living.len() <= PROCESSES
            && living.iter().all(|pid| self.is_left_alone_by(*pid) == Some(true))
    }

    fn is_left_alone_by(&self, pid: u32) -> Option<bool> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let is_it = |number: u32| {
            let device = device(&folder.join(format!("fd/{number}")))?;
            Some(device.is_some_and(|device| [self.device, OWN_TERMINAL].contains(&device)))
        };
        let is_output = is_it(1)? || is_it(2)?;
        Some(!(is_output || is_it(0)? && waits_for_input(&folder)?))
    }
}

/// The device behind a descriptor of a process; none if it is closed or no device of characters, nothing if that
/// cannot be known.
fn device(descriptor: &Path) -> Option<Option<(u32, u32)>> {
    const TYPE: u32 = 0o170_000;
    const CHARACTERS: u32 = 0o020_000;
    match std::fs::metadata(descriptor) {
        Ok(about) if about.st_mode() & TYPE == CHARACTERS => {
            let device = about.st_rdev();
            Some(Some((rustix::fs::major(device), rustix::fs::minor(device))))
        }
        Ok(_) => Some(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Closed, or what it was is gone; or the process has ended meanwhile.
            Some(None)
        }
        Err(_) => None,
    }
}

/// Whether a thread of the process is in a call that reads, or waits for something to read.
fn waits_for_input(folder: &Path) -> Option<bool> {
    let threads = std::fs::read_dir(folder.join("task")).ok()?;
    for thread in threads.filter_map(Result::ok) {
        let text = std::fs::read_to_string(thread.path().join("syscall")).ok()?;
        let number = text.split(' ').next().and_then(|number| number.parse().ok());
        // "running", or a number below 0: in no call.
        let Some(number) = number else { continue };
        let call = name(number);
        if ["read", "poll", "select", "epoll"].iter().any(|word| call.contains(word)) {
            return Some(true);
        }
    }
    Some(false)
}

fn modes(settings: &Termios) -> [u32; 4] {
    [
        settings.input_modes.bits(),
        settings.output_modes.bits(),
        settings.control_modes.bits(),
        settings.local_modes.bits(),
    ]
}
