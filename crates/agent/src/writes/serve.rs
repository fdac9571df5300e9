//! The side with the rights: has followed what one job writes to devices, for one user, in a process of its own, as
//! long as that user's weigh is there.
//!
//! Reads requests from a stream; emits answers. Refuses processes that are not the user's own. Of programs that have
//! gained rights what they wrote is in the sum, as it is among what the job used.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use weigh_collect::calls::KernelCalls;
use weigh_collect::follow::PageWrites as _;

use super::wire::{Ask, Tell};
use crate::follow::user::User;
use crate::follow::wire::{self, MOST_ASKED, VERSION};
use crate::process;

/// Serves until the user's weigh has gone.
pub fn serve(user: User) -> io::Result<()> {
    let mut server = Server { user, kernel: None, is_armed: false };
    while server.is_asked()? {
        let Some((ask, with)) = wire::receive(&server.user.stream, MOST_ASKED)? else { break };
        let told = server.answer(&ask, with).unwrap_or_else(Tell::Refused);
        server.user.notes.note(server.is_armed);
        wire::send(&server.user.stream, &told, None)?;
    }
    Ok(())
}

struct Server {
    user: User,
    kernel: Option<KernelCalls>,
    is_armed: bool,
}

impl Server {
    /// Waits for a request; there is none any more when the user has gone.
    fn is_asked(&self) -> io::Result<bool> {
        let mut fds = [
            PollFd::new(&self.user.process, PollFlags::IN),
            PollFd::new(&self.user.stream, PollFlags::IN),
        ];
        loop {
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(fds[0].revents().is_empty()),
            }
        }
    }

    fn answer(&mut self, ask: &Ask, with: Option<OwnedFd>) -> Result<Tell, String> {
        let peer = self.user.peer;
        let kernel = self.kernel.as_mut().ok_or_else(|| "it is not open".to_string());
        match ask {
            Ask::Open { version } => self.open(*version).map(|()| Tell::Done),
            Ask::Arm => {
                let kernel = kernel?;
                let Some(pidfd) = with.filter(|_| !self.is_armed) else {
                    return Err("it is armed already, or by nothing".to_string());
                };
                process::command_of(peer, pidfd.as_fd()).map_err(|why| why.to_string())?;
                self.is_armed = true;
                kernel.arm(pidfd.as_fd()).map_err(|error| error.to_string())?;
                Ok(Tell::Done)
            }
            Ask::Found => kernel?.found().map(Tell::Found).map_err(|error| error.to_string()),
        }
    }

    fn open(&mut self, version: u32) -> Result<(), String> {
        if version != VERSION {
            return Err("the agent is of another version of weigh".to_string());
        }
        if self.kernel.is_some() {
            return Err("it is open already".to_string());
        }
        process::may_ask(self.user.peer).map_err(|refusal| refusal.to_string())?;
        let kernel = KernelCalls::open_for_writes().map_err(|error| error.to_string())?;
        self.kernel = Some(kernel);
        Ok(())
    }
}
