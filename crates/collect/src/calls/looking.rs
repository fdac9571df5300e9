//! What the kernel itself knows of who has connected to a socket, and of a thread: what the rule goes by that says
//! whether the one may look at the other.
//!
//! Runs `member__look` of `bpf/calls/look.h` in this very thread; emits numbers. It decides nothing.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use libbpf_rs::ProgramInput;

use super::kernel_calls::KernelCalls;
use super::layout;
use super::thread_credentials::ThreadCredentials;
use crate::job::{JobError, bpf};

impl KernelCalls {
    /// A thread of the process that has connected, by the number that it has for that process; without one its
    /// first thread. None if there is no such thread, or it has ended.
    pub fn credentials_of(
        &mut self,
        connection: BorrowedFd<'_>,
        process: u32,
        number: Option<u32>,
    ) -> Result<Option<ThreadCredentials>, JobError> {
        let request = layout::look_request(connection.as_raw_fd(), process, number.unwrap_or(0));
        if let Some(variables) = self.skeleton.maps.bss_data.as_deref_mut() {
            variables.look = request;
        }
        let program = &self.skeleton.progs.member__look;
        program.test_run(ProgramInput::default()).map_err(bpf("looking at a thread"))?;
        let variables = self.skeleton.maps.bss_data.as_deref();
        Ok(variables.and_then(|variables| layout::looked(&variables.look)))
    }
}
