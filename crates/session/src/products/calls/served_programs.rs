//! The programs with libweigh of a command, served by the kernel side that follows the calls.
//!
//! Reads their requests; emits their accounts, the state of each part of the kernel, and what of devices was missed.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_agent::Server;
use weigh_collect::calls::{Attached, KernelCalls};
use weigh_schema::call::SubsystemState;

use crate::command::Command;
use crate::error::SourceError;
use crate::source::Source;

/// How often single calls are taken in, unless there are many.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);

/// Programs with libweigh, and the kernel side.
pub(super) struct ServedPrograms {
    /// The kernel side.
    pub calls: KernelCalls,
    /// None where they find another agent.
    pub server: Option<Server>,
}

impl Source for ServedPrograms {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.server.iter().map(|server| server.descriptor()).collect()
    }

    fn deadline(&self) -> Option<Instant> {
        Some(Instant::now() + INTERVAL)
    }

    fn is_member(&self, pid: u32) -> bool {
        self.calls.is_member(pid)
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        if let Some(server) = &mut self.server {
            server.handle(&mut self.calls).context("serving the command's programs")?;
        }
        Ok(())
    }

    fn is_over(&mut self, command: &Command) -> bool {
        self.calls.tally().living == 0 && command.is_reaped()
    }
}

/// A part of the kernel, as it is reported.
pub(super) fn state(attached: &Attached) -> SubsystemState {
    SubsystemState {
        name: attached.subsystem.clone(),
        probes: attached.probes,
        functions: attached.functions,
        missing: attached.missing.clone(),
    }
}

/// Devices' programs are attached while they have something to see.
pub(super) fn undriven_packets(calls: &KernelCalls) -> Option<String> {
    let packets = match calls.not_driven() {
        0 => return None,
        1 => "1 packet was".to_string(),
        many => format!("{many} packets were"),
    };
    Some(format!(
        "net: {packets} handed to a device before its driver was looked at: the time in the driver is in the \
         remainder"
    ))
}
