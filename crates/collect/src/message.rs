//! What weigh says to people on standard error.
//!
//! Texts go into a queue; a thread of its own, made for the first of them, writes them in their order. So a
//! thread that measures or enforces never waits for a terminal, a pipe or a disk, and never fails for one: what finds
//! no room and what cannot be written is dropped and counted, and the count is printed when writing works again.
//! Standard error is not made non-blocking: the job shares its open file description. Nothing of what is written
//! steers a terminal but weigh's own colours and what a [`Frame`] is drawn over.
//!
//! Emits nothing else, and refuses nothing. The thread ends when all was written.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weigh_schema::printable::{Allowed, in_words, on_screen};

use crate::signals::with_all_blocked;

/// Bytes that wait to be written.
const ROOM: usize = 4 << 20;
/// A pipe takes so much at once or nothing, and each piece that was written is progress.
const PIECE: usize = 4096;
/// How long notices are waited for before the command begins to write, too.
const BEFORE_START: Duration = Duration::from_millis(200);
/// How long the end of weigh waits for a reader that reads nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same where weigh's result is what waits to be read.
const PATIENCE_FOR_ROWS: Duration = Duration::from_secs(10);
const STACK: usize = 128 << 10;

/// Says one thing: `weigh: ` and the text, formatted as by `format!`.
#[macro_export]
macro_rules! notice {
    ($($text:tt)*) => {
        $crate::message::notice(format_args!($($text)*))
    };
}

/// Whether the thread that writes stays when all was written.
static STAYS: AtomicBool = AtomicBool::new(false);

static QUEUE: Queue = Queue { state: Mutex::new(State::new()), changed: Condvar::new() };

struct Queue {
    state: Mutex<State>,
    /// Something came, or was written, or was dropped.
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// There is nothing to write.
    Ended,
    Runs,
    /// No thread can be made.
    Refused,
}

struct State {
    texts: VecDeque<String>,
    /// In `texts`.
    bytes: usize,
    is_writing: bool,
    /// Pieces that were written, and texts that were given up.
    steps: u64,
    /// Texts that were dropped, and not told of.
    dropped: u64,
    writer: Writer,
    thread: Option<JoinHandle<()>>,
    /// After how many steps a short wait was in vain, and one at the end: neither is made again before the next.
    stuck_at: [Option<u64>; 2],
}

/// What is waited for.
#[derive(Clone, Copy)]
enum Wait {
    /// So long in all.
    Short(Duration),
    /// So long after each step.
    End(Duration),
}

impl State {
    const fn new() -> State {
        State {
            texts: VecDeque::new(),
            bytes: 0,
            is_writing: false,
            steps: 0,
            dropped: 0,
            writer: Writer::Ended,
            thread: None,
            stuck_at: [None; 2],
        }
    }

    fn is_idle(&self) -> bool {
        self.texts.is_empty() && !self.is_writing
    }

    fn push(&mut self, text: String) {
        self.bytes += text.len();
        self.texts.push_back(text);
    }

    fn take(&mut self) -> Option<String> {
        let text = self.texts.pop_front()?;
        self.bytes -= text.len();
        Some(text)
    }
}

/// What a text is drawn over on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The line that the cursor is in.
    Line,
    /// So many lines above the cursor.
    Lines(usize),
}

impl Frame {
    fn erasing(self) -> String {
        match self {
            Frame::Line => "\r\x1b[K".to_string(),
            Frame::Lines(0) => String::new(),
            Frame::Lines(lines) => format!("\x1b[{lines}F\x1b[J"),
        }
    }
}

/// Says one thing, as [`notice!`] does. A further line of it is indented: none is taken for another notice.
pub fn notice(text: fmt::Arguments<'_>) {
    let text = in_words(text.to_string());
    let mut said = String::from("weigh: ");
    for (number, line) in text.trim_end_matches('\n').split('\n').enumerate() {
        match number {
            0 => {}
            _ if line.starts_with("  ") => said.push('\n'),
            _ => said.push_str("\n  "),
        }
        said.push_str(line);
    }
    said.push('\n');
    QUEUE.push(in_place_of_line() + &on_screen(&said, Allowed::Lines));
}

/// Whether a line was drawn last: what comes next stands in its place.
static IS_LINE_DRAWN: AtomicBool = AtomicBool::new(false);

/// What erases a line that was drawn, if there is one.
fn in_place_of_line() -> String {
    match IS_LINE_DRAWN.swap(false, Ordering::Relaxed) {
        true => Frame::Line.erasing(),
        false => String::new(),
    }
}

/// Shows what was rendered for the screen, lines with or without colours.
pub fn show(text: &str) {
    QUEUE.push(in_place_of_line() + &on_screen(text, Allowed::Colors));
}

/// Draws over what stands there. That what was drawn before is on the terminal is asked by [`is_idle`].
pub fn draw(over: Frame, text: &str) {
    IS_LINE_DRAWN.store(over == Frame::Line && !text.is_empty(), Ordering::Relaxed);
    QUEUE.push(over.erasing() + &on_screen(text, Allowed::Colors));
}

/// Shows rows that are weigh's result, as they come: waits a moment for room while a reader reads. Whether all of
/// it is in the queue.
pub fn show_rows(text: &str) -> bool {
    drop(QUEUE.until(Wait::Short(BEFORE_START), |state| state.bytes + text.len() <= ROOM));
    QUEUE.push(on_screen(text, Allowed::Lines).into_owned())
}

/// Whether all was written: what would be drawn now is not behind the times.
pub fn is_idle() -> bool {
    QUEUE.lock().is_idle()
}

/// From now on the thread that writes stays: a process that must not end for want of memory begins no other later.
pub fn stay() {
    STAYS.store(true, Ordering::Relaxed);
}

/// Waits a moment for what was said until now, so that it stands before what comes next from elsewhere.
pub fn settle() {
    QUEUE.wait(Wait::Short(BEFORE_START));
}

/// Waits at the end for what was said, as long as somebody reads it.
pub fn finish() {
    QUEUE.wait(Wait::End(PATIENCE));
}

/// The same for rows.
pub fn finish_rows() {
    QUEUE.wait(Wait::End(PATIENCE_FOR_ROWS));
}

/// Waits at the end of a scope, also where a panic leaves it.
pub struct Finish;

impl Drop for Finish {
    fn drop(&mut self) {
        finish();
    }
}

/// A panic is said like all else. The standard library would write it itself, and wait or abort.
pub fn say_panics() {
    std::panic::set_hook(Box::new(|info| {
        let trace = std::backtrace::Backtrace::capture();
        match trace.status() {
            std::backtrace::BacktraceStatus::Captured => notice(format_args!("{info}\n{trace}")),
            _ => notice(format_args!("{info}")),
        }
    }));
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was room.
    fn push(&'static self, text: String) -> bool {
        if text.is_empty() {
            return true;
        }
        let mut state = self.lock();
        if state.bytes + text.len() > ROOM {
            state.dropped += 1;
            return false;
        }
        state.push(text);
        self.changed.notify_all();
        if state.writer != Writer::Runs {
            self.start_writer(&mut state);
        }
        if state.writer == Writer::Refused {
            write_what_is_taken(&mut state);
        }
        true
    }

    /// It takes no signals: they are for weigh's own loop. Where SIGTTOU is blocked, a terminal lets a background
    /// process write.
    fn start_writer(&'static self, state: &mut State) {
        let thread = std::thread::Builder::new().name("weigh-message".into()).stack_size(STACK);
        let started = with_all_blocked(|| thread.spawn(|| self.write()));
        state.writer = if started.is_ok() { Writer::Runs } else { Writer::Refused };
        state.thread = started.ok();
    }

    /// Until there is nothing left, unless it is to stay: a thread that waits would be one of those that `ulimit -u` counts.
    fn write(&self) {
        let mut state = self.lock();
        loop {
            let Some(text) = state.take() else {
                if !STAYS.load(Ordering::Relaxed) {
                    break;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.is_writing = true;
            drop(state);
            let written = self.write_pieces(&text);
            state = self.lock();
            match written {
                Ok(()) => tell_what_is_missing(&mut state),
                Err(_) => state.dropped += 1,
            }
            state.is_writing = false;
            state.steps += 1;
            self.changed.notify_all();
        }
        state.writer = Writer::Ended;
        self.changed.notify_all();
    }

    fn write_pieces(&self, text: &str) -> Result<(), Errno> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(piece_length(rest));
            write_piece(piece, Write::Blocking)?;
            self.lock().steps += 1;
            self.changed.notify_all();
            rest = after;
        }
        Ok(())
    }

    /// Waits until all was written and the thread has ended.
    fn wait(&self, wait: Wait) {
        let is_done = |state: &State| {
            state.writer != Writer::Runs || STAYS.load(Ordering::Relaxed) && state.is_idle()
        };
        let mut state = self.until(wait, is_done);
        if state.writer != Writer::Runs
            && let Some(thread) = state.thread.take()
        {
            drop(state);
            // It has done all but end. If it has panicked, that was said.
            let _ = thread.join();
        }
    }

    /// Waits until something is so, or in vain.
    fn until(&self, wait: Wait, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let (which, patience) = match wait {
            Wait::Short(patience) => (0, patience),
            Wait::End(patience) => (1, patience),
        };
        let mut state = self.lock();
        let (mut steps, mut until) = (state.steps, Instant::now() + patience);
        let mut left_unread = unread();
        while !is_so(&state) && state.stuck_at[which] != Some(state.steps) {
            if matches!(wait, Wait::End(_)) && state.steps != steps {
                (steps, until) = (state.steps, Instant::now() + patience);
            }
            let left = until.saturating_duration_since(Instant::now());
            let is_read = left.is_zero() && matches!(wait, Wait::End(_)) && unread() != left_unread;
            if is_read {
                // A pipe may take the next piece only when a whole page of it was read.
                (left_unread, until) = (unread(), Instant::now() + patience);
                continue;
            }
            if left.is_zero() {
                state.stuck_at[which] = Some(state.steps);
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

/// Bytes in a pipe that nobody has read yet.
fn unread() -> Option<u64> {
    rustix::io::ioctl_fionread(std::io::stderr()).ok()
}

/// Whole lines, as many as a pipe takes at once.
fn piece_length(text: &[u8]) -> usize {
    let most = text.len().min(PIECE);
    match text[..most].iter().rposition(|byte| *byte == b'\n') {
        Some(end) if text.len() > most => end + 1,
        _ => most,
    }
}

/// It stands where something can be read again.
fn tell_what_is_missing(state: &mut State) {
    let missing = std::mem::take(&mut state.dropped);
    if missing > 0 {
        let words = if missing == 1 { "1 text is" } else { &format!("{missing} texts are") };
        state.push(format!("weigh: {words} missing above: standard error could not be written\n"));
    }
}

/// Without a thread: what the kernel takes at once is written, the rest is dropped.
fn write_what_is_taken(state: &mut State) {
    while let Some(text) = state.take() {
        let mut pieces = text.as_bytes().chunks(PIECE);
        if pieces.any(|piece| write_piece(piece, Write::IfReady).is_err()) {
            state.dropped += 1;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Blocking,
    IfReady,
}

fn write_piece(piece: &[u8], how: Write) -> Result<(), Errno> {
    let stream = std::io::stderr();
    let error_output = stream.as_fd();
    let ready = |timeout: Option<&Timespec>| {
        let mut fds = [PollFd::from_borrowed_fd(error_output, PollFlags::OUT)];
        poll(&mut fds, timeout)
    };
    let mut rest = piece;
    while !rest.is_empty() {
        if how == Write::IfReady && ready(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
            return Err(Errno::AGAIN);
        }
        match rustix::io::write(error_output, rest) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            // A program that shares the description has made it non-blocking.
            Err(Errno::AGAIN) if how == Write::Blocking => {
                let _ = ready(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_is_told_once_something_is_written() {
        let mut state = State::new();
        state.dropped = 2;
        tell_what_is_missing(&mut state);
        tell_what_is_missing(&mut state);
        let expected = "weigh: 2 texts are missing above: standard error could not be written\n";
        assert_eq!(state.take().as_deref(), Some(expected));
        assert_eq!((state.take(), state.bytes), (None, 0));
    }

    #[test]
    fn pieces_end_with_lines_where_they_can() {
        let line = "x".repeat(1500) + "\n";
        let text = line.repeat(3) + &"y".repeat(5000);
        let mut rest = text.as_bytes();
        let mut lengths = Vec::new();
        while !rest.is_empty() {
            lengths.push(piece_length(rest));
            rest = &rest[piece_length(rest)..];
        }
        assert_eq!(lengths, [3002, 1501, 4096, 904]);
    }
}
