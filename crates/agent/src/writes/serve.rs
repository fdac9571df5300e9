//! The side with the rights: has followed what one job writes to devices, for one user, in a process of its own, as
//! long as that user's weigh is there.
//!
//! Reads requests from a stream; emits answers. Refuses processes that are not the user's own. Of programs that have
//! gained rights what they wrote is in the sum, as it is among what the job used.

use std::os::fd::{AsFd as _, OwnedFd};

use weigh_collect::calls::KernelCalls;
use weigh_collect::follow::PageWrites as _;
use weigh_wire::{Answer, WireError, WriteRequest, receive_request, send};

use crate::follow::user::User;
use crate::process;

/// Serves until the user's weigh has gone.
pub fn serve(user: User) -> Result<(), WireError> {
    let mut server = Server { user, kernel: None, is_armed: false };
    while server.user.wait(&[])?.is_some() {
        let Some((request, mut with)) = receive_request(&server.user.stream)? else { break };
        let answer = server.answer(&request, with.pop()).unwrap_or_else(Answer::Refused);
        server.user.notes.note(server.is_armed);
        send(&server.user.stream, &answer, &[])?;
    }
    Ok(())
}

struct Server {
    user: User,
    kernel: Option<KernelCalls>,
    is_armed: bool,
}

impl Server {
    fn answer(&mut self, request: &WriteRequest, with: Option<OwnedFd>) -> Result<Answer, String> {
        let peer = self.user.peer;
        let kernel = self.kernel.as_mut().ok_or_else(|| "it is not open".to_string());
        match request {
            WriteRequest::Open => self.open().map(|()| Answer::Done),
            WriteRequest::Arm => {
                let kernel = kernel?;
                let Some(pidfd) = with.filter(|_| !self.is_armed) else {
                    return Err("it is armed already, or by nothing".to_string());
                };
                process::command_of(peer, pidfd.as_fd()).map_err(|why| why.to_string())?;
                self.is_armed = true;
                kernel.arm(pidfd.as_fd()).map_err(|error| error.to_string())?;
                Ok(Answer::Done)
            }
            WriteRequest::Found => {
                kernel?.found().map(Answer::Found).map_err(|error| error.to_string())
            }
        }
    }

    fn open(&mut self) -> Result<(), String> {
        if self.kernel.is_some() {
            return Err("it is open already".to_string());
        }
        process::may_ask(self.user.peer).map_err(|refusal| refusal.to_string())?;
        let kernel = KernelCalls::open_for_writes().map_err(|error| error.to_string())?;
        self.kernel = Some(kernel);
        Ok(())
    }
}
