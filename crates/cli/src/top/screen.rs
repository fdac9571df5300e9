//! The screen while it is shown: keys in, changed cells out, the terminal as it was at the end.

use std::fmt::Write as _;
use std::io::{Stdin, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use weigh_account::rules::RuleSet;
use weigh_agent::PublishedReader;
use weigh_schema::top::TopReport;
use weigh_schema::top_detail::TopDetail;
use weigh_session::products::top::{ListedProcesses, TopFocus, TopSettings, TopSource};
use weigh_session::{Command, Launcher, Session, Source, SourceError};
use weigh_show::top::{SortKey, TopList, TopView, chosen, draw, row_count};

use super::busiest::BusiestReader;
use crate::terminal::color;

/// For the recordings of jobs, at each look: keys wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(300);

/// Shows it until q, or a signal that ends it.
pub fn show(settings: TopSettings, rules: Option<RuleSet>) -> anyhow::Result<ExitCode> {
    // Signals are taken before the terminal is changed: each finds it put right.
    let launcher = Launcher::prepare()?;
    let terminal = RawTerminal::open()?;
    let view = TopView { color: color(&std::io::stdout()), ..TopView::default() };
    let mut source = TopSource::new(settings, None);
    rules.into_iter().for_each(|rules| source.set_rules(rules));
    let everybody = settings.listed == ListedProcesses::Everybody;
    let mut screen = Screen {
        source,
        published: PublishedReader::new(weigh_agent::socket()),
        terminal,
        view,
        everybody,
        report: None,
        detail: None,
        busiest: BusiestReader::default(),
        outer: Vec::new(),
        shown: Buffer::default(),
        is_over: false,
    };
    Session::new(launcher.stay(), None).run(&mut screen)?;
    Ok(ExitCode::SUCCESS)
}

/// A terminal that gives keys as they are typed; as it was before when this is dropped.
struct RawTerminal {
    input: Stdin,
    before: Termios,
}

impl RawTerminal {
    fn open() -> anyhow::Result<RawTerminal> {
        let input = std::io::stdin();
        let before = tcgetattr(&input).context("cannot ask the terminal for its settings")?;
        let terminal = RawTerminal { input, before };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&self) -> anyhow::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(&self.input, OptionalActions::Now, &raw).context("cannot set the terminal")?;
        // Another screen, no cursor.
        write("\x1b[?1049h\x1b[?25l\x1b[2J").context("cannot write to the terminal")
    }

    fn leave(&self) {
        let _ = write("\x1b[0m\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(&self.input, OptionalActions::Now, &self.before);
    }

    /// Stops as the terminal would stop it, with all of its group, until the shell has it go on. Where no shell could, the
    /// kernel ignores this signal.
    fn suspend(&self) -> anyhow::Result<()> {
        self.leave();
        kill_current_process_group(Signal::TSTP).context("cannot stop")?;
        self.enter()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.leave();
    }
}

fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Columns and rows; some terminals do not know theirs.
fn size() -> (u16, u16) {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => (80, 24),
    }
}

struct Screen {
    source: TopSource,
    published: PublishedReader,
    terminal: RawTerminal,
    view: TopView,
    everybody: bool,
    report: Option<TopReport>,
    /// Of the job or the process that is open.
    detail: Option<TopDetail>,
    busiest: BusiestReader,
    /// What Esc leads back to: lists, and the rows that were chosen there.
    outer: Vec<(TopList, usize)>,
    shown: Buffer,
    is_over: bool,
}

impl Source for Screen {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.terminal.input.as_fd()]
    }

    fn deadline(&self) -> Option<Instant> {
        self.source.deadline()
    }

    fn poll(&mut self, command: &mut Command) -> Result<(), SourceError> {
        if self.source.deadline().is_some_and(|next| Instant::now() >= next) {
            self.source.set_published(self.published.values());
        }
        self.source.poll(command)?;
        let report = self.source.take_report();
        let is_new = report.is_some();
        if is_new {
            self.report = report;
            self.detail = self.source.take_detail();
            self.read_busiest();
        }
        let keys = self.read_keys()?;
        keys.chars().for_each(|key| self.press(key));
        let (columns, rows) = size();
        let is_resized = self.shown.area != Rect::new(0, 0, columns, rows);
        if is_new || !keys.is_empty() || is_resized {
            self.redraw(columns, rows)?;
        }
        Ok(())
    }

    fn is_over(&mut self, _: &Command) -> bool {
        self.is_over
    }
}

impl Screen {
    /// What was typed; sequences of escape become one key.
    fn read_keys(&mut self) -> Result<String, SourceError> {
        let mut fds = [PollFd::new(&self.terminal.input, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0) {
            return Ok(String::new());
        }
        let mut bytes = [0; 256];
        let count = match rustix::io::read(&self.terminal.input, &mut bytes) {
            // The terminal is gone.
            Ok(0) | Err(_) => {
                self.is_over = true;
                0
            }
            Ok(count) => count,
        };
        Ok(keys(&String::from_utf8_lossy(&bytes[..count])))
    }

    fn press(&mut self, key: char) {
        match key {
            INTERRUPT => self.is_over = true,
            SUSPEND => {
                self.is_over = self.terminal.suspend().is_err();
                self.shown = Buffer::default();
            }
            _ if self.view.is_typing => self.type_filter(key),
            'q' => self.is_over = true,
            'c' => self.view.sort = SortKey::Cpu,
            'm' => self.view.sort = SortKey::Memory,
            't' => self.view.sort = SortKey::Threads,
            'p' => self.view.sort = SortKey::Pid,
            's' => self.switch(TopList::Collectors),
            'r' => self.switch(TopList::Rules),
            'v' => self.switch(TopList::Published),
            '?' => self.switch(TopList::Keys),
            'b' => self.switch(TopList::Busiest(match self.view.list {
                TopList::Job(pid) | TopList::Busiest(Some(pid)) => Some(pid),
                _ => None,
            })),
            '/' => self.view.is_typing = true,
            '\r' | '\n' => self.open(),
            ESCAPE if !self.view.filter.is_empty() => self.view.filter.clear(),
            ESCAPE => self.close(),
            'a' => {
                self.everybody = !self.everybody;
                self.source.list_everybody(self.everybody);
            }
            _ => self.scroll(key),
        }
    }

    /// To a list of the node, and back.
    fn switch(&mut self, list: TopList) {
        match self.view.list == list {
            true => self.close(),
            false => self.enter(list),
        }
    }

    fn open(&mut self) {
        let report = self.report.as_ref();
        let list = report.and_then(|report| chosen(report, self.detail.as_ref(), &self.view));
        list.into_iter().for_each(|list| self.enter(list));
    }

    fn enter(&mut self, list: TopList) {
        self.outer.push((self.view.list, self.view.row));
        self.look_at(list, 0);
    }

    fn close(&mut self) {
        if let Some((list, row)) = self.outer.pop() {
            self.look_at(list, row);
        }
    }

    fn look_at(&mut self, list: TopList, row: usize) {
        (self.view.list, self.view.row) = (list, row);
        self.view.filter.clear();
        self.source.set_focus(match list {
            TopList::Job(pid) => TopFocus::Job(pid),
            TopList::Process(pid) => TopFocus::Process(pid),
            _ => TopFocus::Node,
        });
        self.detail = self.report.as_ref().and_then(|report| self.source.look_in_detail(report));
        self.read_busiest();
    }

    /// Reads on in the jobs' recordings while somebody looks at what they are busy with.
    fn read_busiest(&mut self) {
        match (self.view.list, &mut self.report) {
            (TopList::Busiest(job), Some(report)) => {
                self.busiest.complete(report, job, PATIENCE);
            }
            _ => self.busiest.rest(),
        }
    }

    fn type_filter(&mut self, key: char) {
        self.view.row = 0;
        match key {
            '\r' | '\n' => self.view.is_typing = false,
            ESCAPE => {
                self.view.is_typing = false;
                self.view.filter.clear();
            }
            '\x7f' | '\x08' => drop(self.view.filter.pop()),
            key if !key.is_control() && self.view.filter.len() < 64 => self.view.filter.push(key),
            _ => {}
        }
    }

    fn scroll(&mut self, key: char) {
        let last = self
            .report
            .as_ref()
            .map_or(0, |report| row_count(report, self.detail.as_ref(), &self.view))
            .saturating_sub(1);
        let row = self.view.row.min(last);
        self.view.row = match key {
            UP | 'k' => row.saturating_sub(1),
            DOWN | 'j' => row + 1,
            PAGE_UP => row.saturating_sub(10),
            PAGE_DOWN => row + 10,
            _ => row,
        }
        .min(last);
    }

    /// Writes the cells that differ from what is shown.
    fn redraw(&mut self, columns: u16, rows: u16) -> Result<(), SourceError> {
        let Some(report) = &self.report else { return Ok(()) };
        let next = draw(report, self.detail.as_ref(), &self.view, columns, rows);
        let mut out = String::new();
        if self.shown.area != next.area {
            out += "\x1b[0m\x1b[2J";
            self.shown = Buffer::empty(next.area);
        }
        let mut last: Option<(u16, u16, &Cell)> = None;
        for (x, y, cell) in self.shown.diff(&next) {
            let is_next = last.is_some_and(|(column, row, before)| {
                (column + 1, row) == (x, y) && before.symbol().len() == 1
            });
            if !is_next {
                let _ = write!(out, "\x1b[{};{}H", y + 1, x + 1);
            }
            if !last.is_some_and(|(_, _, before)| has_same_style(before, cell)) {
                style(cell, &mut out);
            }
            out += cell.symbol();
            last = Some((x, y, cell));
        }
        self.shown = next;
        write(&out)?;
        Ok(())
    }
}

fn has_same_style(a: &Cell, b: &Cell) -> bool {
    (a.modifier, a.fg) == (b.modifier, b.fg)
}

/// Puts a cell's style in place of the last one's.
fn style(cell: &Cell, out: &mut String) {
    *out += "\x1b[0";
    for (modifier, code) in
        [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")]
    {
        if cell.modifier.contains(modifier) {
            *out += code;
        }
    }
    if let Color::Indexed(number) = cell.fg {
        let _ = write!(out, ";38;5;{number}");
    }
    out.push('m');
}

/// Ctrl-C and Ctrl-Z: in a raw terminal they are keys.
const INTERRUPT: char = '\x03';
const SUSPEND: char = '\x1a';
const ESCAPE: char = '\x1b';
/// Keys without a character have one that no keyboard types.
const UP: char = '\u{e000}';
const DOWN: char = '\u{e001}';
const PAGE_UP: char = '\u{e002}';
const PAGE_DOWN: char = '\u{e003}';

/// Sequences of escape as one key each; those of unknown keys are left out.
fn keys(typed: &str) -> String {
    let mut keys = String::new();
    let mut rest = typed;
    while let Some(first) = rest.chars().next() {
        let sequence = rest.strip_prefix("\x1b[").or_else(|| rest.strip_prefix("\x1bO"));
        let end = sequence.and_then(|sequence| sequence.find(|c: char| ('@'..='~').contains(&c)));
        match (sequence, end) {
            (Some(sequence), Some(end)) => {
                let key = match &sequence[..=end] {
                    "A" => Some(UP),
                    "B" => Some(DOWN),
                    "5~" => Some(PAGE_UP),
                    "6~" => Some(PAGE_DOWN),
                    _ => None,
                };
                keys.extend(key);
                rest = &sequence[end + 1..];
            }
            _ => {
                keys.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_a_character_are_one_key() {
        assert_eq!(
            keys("q\x1b[A\x1b[6~\x1bOBx\x1b[1;5Cy\x1b"),
            format!("q{UP}{PAGE_DOWN}{DOWN}xy\x1b")
        );
        assert_eq!(keys("ä\x1b["), "ä\x1b[");
    }
}
