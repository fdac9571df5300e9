//! The loop. It wakes for signals, for the end of the command, for what a source has, for deadlines, and for nothing else.

use std::time::{Duration, Instant};

use crate::command::Command;
use crate::error::SessionError;
pub use crate::source::SessionEnd;
use crate::source::Source;

/// Signals end a wait: this is how long one takes at most.
const PAUSE: Duration = Duration::from_secs(60);

/// One measurement.
pub struct Session {
    /// The command, if there is one.
    pub command: Command,
    /// When it ends in any case; none any more once a turn has come so far.
    end: Option<Instant>,
    is_late: bool,
}

impl Session {
    /// Of a command that has begun, until `end` at the latest.
    pub fn new(command: Command, end: Option<Instant>) -> Session {
        Session { command, end, is_late: false }
    }

    /// Polls a source until it is over, it is time, or somebody interrupts.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<SessionEnd, SessionError> {
        loop {
            self.step(source)?;
            if let Some(end) = self.reason_to_end(source) {
                return Ok(end);
            }
        }
    }

    /// Goes on for a command that has not ended, whatever becomes of the time: its programs may need the source.
    pub fn run_until_reaped(&mut self, source: &mut dyn Source) -> Result<(), SessionError> {
        while !self.command.is_reaped() {
            self.step(source)?;
        }
        Ok(())
    }

    /// One turn: waits, passes signals on, reaps, and polls.
    pub fn step(&mut self, source: &mut dyn Source) -> Result<(), SessionError> {
        let until = [source.deadline(), self.end].into_iter().flatten().min();
        let until = until.unwrap_or_else(|| Instant::now() + PAUSE);
        self.command.wait(until, &source.descriptors())?;
        // Not before a turn has seen it: it may come while nobody waits.
        self.is_late |= self.end.take_if(|end| Instant::now() >= *end).is_some();
        self.command.attend(source)?;
        Ok(source.poll(&mut self.command)?)
    }

    fn reason_to_end(&mut self, source: &mut dyn Source) -> Option<SessionEnd> {
        if source.is_over(&self.command) {
            return Some(SessionEnd::Over);
        }
        let command = &mut self.command;
        [
            (SessionEnd::Time, self.is_late),
            (SessionEnd::CpuTime, command.is_short_of_cpu()),
            (SessionEnd::Interrupted, command.is_interrupted()),
        ]
        .into_iter()
        .find_map(|(end, is_so)| (is_so && source.may_stop(command, end)).then_some(end))
    }

    /// Waits for what is still to come after the end, until something does, or it is time. Signals are not passed on.
    pub fn settle(&mut self, source: &mut dyn Source, until: Instant) -> Result<(), SessionError> {
        self.command.wait(until, &source.descriptors())?;
        self.command.discard_signals();
        // What cannot be waited for now can be a little later.
        let _ = self.command.reap(source);
        Ok(())
    }
}

impl Command {
    /// Passes on what was sent to weigh, and takes note of how the command does.
    pub(crate) fn attend(&mut self, source: &mut dyn Source) -> Result<(), SessionError> {
        self.pass_signals_on(&|pid| source.is_member(pid));
        self.reap(source)
    }

    /// Takes note of how the command does: a source that waits for children tells.
    pub fn reap(&mut self, source: &mut dyn Source) -> Result<(), SessionError> {
        let Some(reaper) = source.reaper() else { return self.wait_for_child() };
        if self.status().is_none() && reaper.looks_at_zombies() && self.is_zombie() {
            reaper.look_at_zombie()?;
        }
        while let Some((pid, status)) = reaper.next_child()? {
            self.child_changed(pid, status, reaper.is_holding());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Launcher;
    use crate::error::SourceError;
    use crate::source::Sources;
    use weigh_collect::spawn::With;

    /// Is over after so many polls, and lets itself be stopped for these reasons.
    struct Countdown {
        polls: usize,
        left: usize,
        stops_for: Vec<SessionEnd>,
        asked: Vec<SessionEnd>,
    }

    impl Countdown {
        fn new(left: usize, stops_for: &[SessionEnd]) -> Countdown {
            Countdown { polls: 0, left, stops_for: stops_for.to_vec(), asked: Vec::new() }
        }
    }

    impl Source for Countdown {
        fn deadline(&self) -> Option<Instant> {
            Some(Instant::now() + Duration::from_millis(1))
        }

        fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
            self.polls += 1;
            self.left = self.left.saturating_sub(1);
            Ok(())
        }

        fn is_over(&mut self, _: &Command) -> bool {
            self.left == 0
        }

        fn may_stop(&mut self, _: &mut Command, end: SessionEnd) -> bool {
            self.asked.push(end);
            self.stops_for.contains(&end)
        }
    }

    fn session(end: Option<Instant>) -> Session {
        Session::new(Launcher::prepare().expect("signals").stay(), end)
    }

    #[test]
    fn it_goes_on_until_every_source_is_over() {
        let (mut short, mut long) = (Countdown::new(2, &[]), Countdown::new(5, &[]));
        let end = session(None).run(&mut Sources(vec![&mut short, &mut long])).expect("runs");
        assert_eq!((end, short.polls, long.polls), (SessionEnd::Over, 5, 5));
    }

    #[test]
    fn it_ends_in_time_only_where_the_source_lets_it() {
        let now = Some(Instant::now());
        let mut source = Countdown::new(1000, &[SessionEnd::Time]);
        assert_eq!(session(now).run(&mut source).expect("runs"), SessionEnd::Time);
        assert_eq!(source.polls, 1);
        let mut source = Countdown::new(7, &[]);
        assert_eq!(session(now).run(&mut source).expect("runs"), SessionEnd::Over);
        assert_eq!(source.asked, [SessionEnd::Time; 6], "asked again at each turn");
    }

    #[test]
    fn a_time_that_comes_while_nobody_waits_is_no_reason_to_wait() {
        struct Quiet;
        impl Source for Quiet {
            fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
                Ok(())
            }
            fn is_over(&mut self, _: &Command) -> bool {
                false
            }
        }
        let began = Instant::now();
        assert_eq!(session(Some(began)).run(&mut Quiet).expect("runs"), SessionEnd::Time);
        assert!(began.elapsed() < PAUSE / 2);
    }

    #[test]
    fn a_source_that_fails_ends_it_with_its_own_error() {
        struct Broken;
        impl Source for Broken {
            fn deadline(&self) -> Option<Instant> {
                Some(Instant::now())
            }
            fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
                Err("the ring buffer is gone".into())
            }
            fn is_over(&mut self, _: &Command) -> bool {
                false
            }
        }
        let error = session(None).run(&mut Broken).expect_err("it fails");
        assert_eq!(error.to_string(), "the ring buffer is gone");
    }

    #[test]
    fn a_command_is_reaped_and_its_status_known() {
        struct UntilReaped;
        impl Source for UntilReaped {
            // Another thread of the tests may take the signal.
            fn deadline(&self) -> Option<Instant> {
                Some(Instant::now() + Duration::from_millis(10))
            }
            fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
                Ok(())
            }
            fn is_over(&mut self, command: &Command) -> bool {
                command.is_reaped()
            }
        }
        let words = ["sh", "-c", "exit 7"].map(Into::into);
        let launcher = Launcher::prepare().expect("signals");
        let command = launcher.start(&words, &With::default(), |_| Ok::<_, SourceError>(()));
        let mut session = Session::new(command.expect("prepares").expect("starts"), None);
        assert_eq!(session.run(&mut UntilReaped).expect("runs"), SessionEnd::Over);
        assert_eq!(session.command.status().and_then(|status| status.code()), Some(7));
    }
}
