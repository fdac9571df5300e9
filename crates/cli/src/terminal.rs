//! Standard output and the terminal: how large, in which colours, and what is written there.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weigh_collect::{inherited, message};
use weigh_schema::printable::{Allowed, json_on_screen, on_screen};
use weigh_show::Screen;

use weigh_arguments::ColorChoice;

/// The width of the terminal behind a stream, or 80.
pub fn width(stream: impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).max(40),
        _ => 80, // no terminal, or a serial line that does not know
    }
}

/// How many lines fit on a terminal.
pub fn height(stream: impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_row > 0 => usize::from(size.ws_row),
        _ => 24,
    }
}

/// What --color says.
static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// Takes note of --color.
pub fn choose_color(choice: ColorChoice) {
    let _ = COLOR.set(choice);
}

/// Whether a stream wants colour: it is a terminal, and neither --color nor the environment says no (see no-color.org).
pub fn color(stream: &impl std::io::IsTerminal) -> bool {
    match COLOR.get().unwrap_or(&ColorChoice::Auto) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            stream.is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    }
}

/// The columns that COLUMNS asks for, where no terminal has an own opinion.
fn asked_columns() -> Option<usize> {
    let text = std::env::var("COLUMNS").ok()?;
    text.parse().ok().filter(|columns| (40..=1000).contains(columns))
}

/// Refuses standard output that was closed when weigh was started: what is written there would be lost.
pub fn check_output() -> anyhow::Result<()> {
    if inherited::was_closed(1) {
        bail!("cannot write to standard output: it is closed");
    }
    Ok(())
}

/// Writes what people read to standard output; that nobody reads on (`| head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    write(&on_screen(text, Allowed::Colors))
}

/// Writes columns with tabs between them.
pub fn print_columns(text: &str) -> anyhow::Result<()> {
    write(&on_screen(text, Allowed::Tabs))
}

/// Whether nobody can read standard output any more: the reader of a pipe has gone, or the terminal.
pub fn is_output_gone() -> bool {
    let out = std::io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
        && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Whether an error is that nobody reads on: the reader of standard output may have read enough.
pub fn is_enough(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Writes a page, as it is.
pub fn print_page(page: &str) -> anyhow::Result<()> {
    write(page)
}

/// Writes a path, to read or to use.
pub fn print_path(path: &Path) -> anyhow::Result<()> {
    let line = format!("{}\n", path.display());
    if std::io::stdout().is_terminal() { print(&line) } else { write(&line) }
}

/// Writes JSON. A terminal gets escapes, which mean the same, for what it would act on.
pub fn print_json(json: &str) -> anyhow::Result<()> {
    match std::io::stdout().is_terminal() {
        true => write(&json_on_screen(json)),
        false => write(json),
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    // What was said before stands before it.
    message::settle();
    check_output()?;
    match std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// What a stream is for a text that people read. `wide` is what sentences are wrapped at where it is no terminal.
pub fn screen(stream: &(impl std::os::fd::AsFd + std::io::IsTerminal), wide: usize) -> Screen {
    let is_terminal = stream.is_terminal();
    let asked = asked_columns().filter(|_| !is_terminal);
    let columns = asked.unwrap_or_else(|| if is_terminal { width(stream) } else { wide });
    Screen { columns, is_terminal, is_cut: is_terminal || asked.is_some(), color: color(stream) }
}

/// Shows a text for people: on standard output, unless that is taken, by the command or by JSON. `wide` is
/// what is taken for the width where nobody's terminal has to hold it.
pub fn tell(
    is_taken: bool,
    wide: usize,
    render: impl FnOnce(Screen) -> String,
) -> anyhow::Result<()> {
    if is_taken {
        message::show(&render(screen(&std::io::stderr(), wide)));
        return Ok(());
    }
    print(&render(screen(&std::io::stdout(), wide)))
}
