//! A table on the terminal while something is followed: drawn over itself.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use weigh_collect::message::{self, Frame};
use weigh_show::Screen;

use crate::terminal::{height, screen};

/// How often it is drawn.
const PACE: Duration = Duration::from_millis(250);

/// What is on the terminal.
pub struct Live {
    next: Instant,
    lines: usize,
}

impl Live {
    /// Nothing yet.
    pub fn new() -> Live {
        Live { next: Instant::now() + PACE, lines: 0 }
    }

    /// Whether it is time.
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Draws a text for this screen.
    pub fn draw(&mut self, render: impl FnOnce(Screen) -> String) {
        let began = Instant::now();
        let err = std::io::stderr();
        // What was drawn last is not there yet where the terminal does not keep up.
        if !err.is_terminal() || !message::is_idle() {
            return;
        }
        // What scrolls out of the terminal cannot be drawn over.
        let room = height(&err).saturating_sub(1);
        let text = render(screen(&err, 80));
        let text: String = text.split_inclusive('\n').take(room).collect();
        message::draw(Frame::Lines(self.lines), &text);
        self.lines = text.lines().count();
        // What it costs to draw is never more than a quarter of the time.
        self.next = began + PACE.max(began.elapsed() * 4);
    }

    /// Takes it away: what follows is written in its place.
    pub fn clear(&mut self) {
        message::draw(Frame::Lines(self.lines), "");
        self.lines = 0;
    }
}
