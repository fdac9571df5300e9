//! What a session polls: the contract of everything that measures.

use std::os::fd::BorrowedFd;
use std::process::ExitStatus;
use std::time::Instant;

use rustix::process::Pid;

use crate::command::Command;
use crate::error::SourceError;

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Nothing more will come.
    Over,
    /// The time that was asked for is over.
    Time,
    /// Somebody asked weigh to stop.
    Interrupted,
    /// Weigh's own CPU time is nearly used up.
    CpuTime,
}

/// Anything that emits updates: a mechanism that follows a job, a collector, programs with libweigh.
pub trait Source {
    /// Readable when there is something to take in.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// When it has to be polled, whatever its descriptors say.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Whether a process is of the job: what that sends to its own process group has reached the command.
    fn is_member(&self, _pid: u32) -> bool {
        false
    }

    /// The capability to wait for the command in the session's place.
    fn reaper(&mut self) -> Option<&mut dyn Reaper> {
        None
    }

    /// Takes in what has come.
    fn poll(&mut self, command: &mut Command) -> Result<(), SourceError>;

    /// Whether nothing more will come from it.
    fn is_over(&mut self, command: &Command) -> bool;

    /// It is to end before it is over. Whether it may.
    fn may_stop(&mut self, _command: &mut Command, _end: SessionEnd) -> bool {
        true
    }
}

/// A source that waits for weigh's children by itself, as a tracer has to.
pub trait Reaper {
    /// The next child that has ended or stopped; none if there is no more now.
    fn next_child(&mut self) -> Result<Option<(Pid, ExitStatus)>, SourceError>;

    /// Whether the command has to be looked at when it has ended, because what is known of it is gone once it is reaped.
    fn looks_at_zombies(&mut self) -> bool {
        false
    }

    /// The command has ended and is about to be reaped.
    fn look_at_zombie(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Whether the command is stopped for the sake of a limit: then weigh does not stop with it.
    fn is_holding(&self) -> bool {
        false
    }
}

/// Several sources as one. It is over when all of them are.
#[derive(Default)]
pub struct Sources<'a>(pub Vec<&'a mut dyn Source>);

impl Source for Sources<'_> {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().flat_map(|source| source.descriptors()).collect()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(|source| source.deadline()).min()
    }

    fn is_member(&self, pid: u32) -> bool {
        self.0.iter().any(|source| source.is_member(pid))
    }

    fn reaper(&mut self) -> Option<&mut dyn Reaper> {
        self.0.iter_mut().find_map(|source| source.reaper())
    }

    fn poll(&mut self, command: &mut Command) -> Result<(), SourceError> {
        self.0.iter_mut().try_for_each(|source| source.poll(command))
    }

    fn is_over(&mut self, command: &Command) -> bool {
        // Each is asked: one that is over may have something to do then.
        let mut are_over = true;
        for source in &mut self.0 {
            are_over &= source.is_over(command);
        }
        are_over
    }

    fn may_stop(&mut self, command: &mut Command, end: SessionEnd) -> bool {
        let mut may_stop = true;
        for source in &mut self.0 {
            may_stop &= source.may_stop(command, end);
        }
        may_stop
    }
}
