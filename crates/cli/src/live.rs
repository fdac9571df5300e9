//! A table on the terminal while something is followed: drawn over itself.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use weigh_show::Screen;

use crate::show::{height, screen};

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
        if !err.is_terminal() {
            return;
        }
        // What scrolls out of the terminal can not be drawn over.
        let room = height(&err).saturating_sub(1);
        let text = render(screen(&err, 80));
        let text: String = text.split_inclusive('\n').take(room).collect();
        let mut out = err.lock();
        let _ = write!(out, "{}{}", self.erasing(), text);
        self.lines = text.lines().count();
        // What it costs to draw is never more than a quarter of the time.
        self.next = began + PACE.max(began.elapsed() * 4);
    }

    /// Takes it away: what follows is written in its place.
    pub fn clear(&mut self) {
        eprint!("{}", self.erasing());
        self.lines = 0;
    }

    fn erasing(&self) -> String {
        match self.lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}F\x1b[J"),
        }
    }
}
