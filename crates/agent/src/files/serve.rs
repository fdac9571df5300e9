//! The side with the rights: has one job's reads and writes followed, for one user, in a process of its own, as long
//! as that user's weigh is there.
//!
//! Reads requests from a stream; emits answers, and what the kernel side tells as it tells it. Refuses processes that
//! the user could not look at.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{Timespec, epoll};
use weigh_collect::follow::{Attachment as _, FileEvents as _, RunningAttachment as _};
use weigh_collect::io::{KernelIo, RecordBatch, RecordKind, RowScope, Telling};
use weigh_wire::messages::{FileParts, FilesOpened, Records};
use weigh_wire::{Answer, FileRequest, WireError, receive_request, send};

use crate::follow::user::User;
use crate::process::{self, owner_of};

/// So much of a table is sent at once.
const AT_ONCE: usize = 1 << 20;

/// Serves until the user's weigh has gone.
pub fn serve(user: User) -> Result<(), WireError> {
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    Server { user, ready, kernel: None, is_begun: false }.serve()
}

struct Server {
    user: User,
    /// Readable when much waits to be taken in that did not wait before.
    ready: OwnedFd,
    kernel: Option<KernelIo>,
    /// Whether somebody is followed.
    is_begun: bool,
}

impl Server {
    fn serve(mut self) -> Result<(), WireError> {
        while let Some(is_asked) = self.wait()? {
            if !is_asked {
                continue;
            }
            let Some((request, mut with)) = receive_request(&self.user.stream)? else { break };
            let answered = self.answer(request, with.pop())?;
            self.user.notes.note(self.is_begun);
            if let Err(why) = answered {
                self.tell(&Answer::Refused(why))?;
            }
        }
        Ok(())
    }

    /// Whether there is a request; none when the user has gone.
    fn wait(&self) -> io::Result<Option<bool>> {
        let Some(ready) = self.user.wait(&[self.ready.as_fd()])? else { return Ok(None) };
        if ready[1] {
            // At the edge: what waits is left where it is, and is told of once.
            let mut events = Vec::with_capacity(4);
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let _ =
                epoll::wait(&self.ready, rustix::buffer::spare_capacity(&mut events), Some(&now));
            let _ = rustix::io::write(&self.user.wake, &1u64.to_ne_bytes());
        }
        Ok(Some(ready[0]))
    }

    /// Answers, or says why not.
    fn answer(
        &mut self,
        request: FileRequest,
        with: Option<OwnedFd>,
    ) -> io::Result<Result<(), String>> {
        let tell = |answer: &Answer| send(&self.user.stream, answer, &[]).map(Ok);
        if let FileRequest::Open(parts) = request {
            return self.open(parts);
        }
        let Some(kernel) = &mut self.kernel else { return Ok(Err("it is not open".to_string())) };
        match request {
            FileRequest::Open { .. } => Ok(Err("it is open already".to_string())),
            FileRequest::Arm | FileRequest::Join => {
                let Some(pidfd) = with.filter(|_| !self.is_begun) else {
                    return Ok(
                        Err("somebody is followed already, or nobody was named".to_string()),
                    );
                };
                self.is_begun = true;
                match self.begin(&request, &pidfd) {
                    Ok(()) => self.tell(&Answer::Done).map(Ok),
                    // Whatever was told meanwhile is nobody's business.
                    Err(why) => {
                        self.kernel = None;
                        Ok(Err(why))
                    }
                }
            }
            FileRequest::IsMember => {
                tell(&Answer::Is(with.is_some_and(|pidfd| kernel.is_member_by(pidfd.as_fd()))))
            }
            FileRequest::Records => {
                // Where CPUs are scarce each answer waits for one: fewer of them carry more.
                let mut batch = kernel.records();
                while batch.bytes().len() < AT_ONCE {
                    let more = kernel.records();
                    if more.is_empty() {
                        break;
                    }
                    batch.append(&more);
                }
                tell(&Answer::Tally(kernel.tally()))?.ok();
                tell(&Answer::Records(Records(batch.into_bytes())))
            }
            FileRequest::Uses => self.tell_kept(RecordKind::Uses),
            FileRequest::Devices => self.tell_kept(RecordKind::Devices),
            FileRequest::Processes => self.tell_kept(RecordKind::Processes),
            FileRequest::Requests => self.tell_kept(RecordKind::Requests),
            FileRequest::Rest => self.tell_kept(RecordKind::Rest),
            FileRequest::ForgetNames(files) => {
                kernel.forget_names(&files);
                tell(&Answer::Done)
            }
            FileRequest::Detach => {
                kernel.detach();
                tell(&Answer::Done)
            }
        }
    }

    fn tell(&self, answer: &Answer) -> io::Result<()> {
        send(&self.user.stream, answer, &[])
    }

    fn open(&mut self, parts: FileParts) -> io::Result<Result<(), String>> {
        let FileParts { layout, each, threads } = parts;
        if self.kernel.is_some() || self.is_begun {
            return Ok(Err("it is open already".to_string()));
        }
        if layout != RecordBatch::layout() {
            return Ok(Err("the agent is of another version of weigh".to_string()));
        }
        let peer = self.user.peer;
        let may = process::may_ask(peer).and_then(|()| process::has_no_rights(peer));
        if let Err(refusal) = may {
            return Ok(Err(refusal.to_string()));
        }
        let telling = if each { Telling::Each } else { Telling::Sums };
        let apart = if threads { RowScope::Threads } else { RowScope::Processes };
        let kernel = match KernelIo::open_as(telling, apart, owner_of(peer)) {
            Ok(kernel) => kernel,
            Err(error) => return Ok(Err(error.to_string())),
        };
        for ring in kernel.wake_fds() {
            let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&self.ready, ring, epoll::EventData::new_u64(0), edge)?;
        }
        let opened = Answer::FilesOpened(FilesOpened {
            began_ns: kernel.began_ns(),
            elapsed_ns: kernel.elapsed_ns(),
            missing: kernel.missing().to_vec(),
        });
        send(&self.user.stream, &opened, &[self.user.wake.as_fd()])?;
        self.kernel = Some(kernel);
        Ok(Ok(()))
    }

    /// Follows somebody from now on. A process that runs may become another's while it is looked at: it is
    /// looked at again when it is followed, and what the kernel side finds itself comes on top.
    fn begin(&mut self, request: &FileRequest, pidfd: &OwnedFd) -> Result<(), String> {
        let peer = self.user.peer;
        let Some(kernel) = &mut self.kernel else { return Err("it is not open".to_string()) };
        let why = |refusal: process::Refusal| refusal.to_string();
        if *request == FileRequest::Arm {
            process::command_of(peer, pidfd.as_fd()).map_err(why)?;
            return kernel.arm(0, pidfd.as_fd()).map_err(|error| error.to_string());
        }
        let pid = process::running_of(peer, pidfd.as_fd()).map_err(why)?;
        kernel.join(pid).map_err(|error| error.to_string())?;
        process::running_of(peer, pidfd.as_fd()).map_err(why).map(drop)
    }

    /// A piece after the other.
    fn tell_kept(&self, what: RecordKind) -> io::Result<Result<(), String>> {
        let Some(kernel) = &self.kernel else { return Ok(Err("it is not open".to_string())) };
        let send = |piece: RecordBatch| self.tell(&Answer::Records(Records(piece.into_bytes())));
        let mut piece = RecordBatch::default();
        let mut sent = Ok(());
        let read = kernel.each_kept(what, &mut |key, value| {
            piece.push(key, value);
            if piece.bytes().len() >= AT_ONCE && sent.is_ok() {
                sent = send(std::mem::take(&mut piece));
            }
        });
        sent?;
        if let Err(error) = read {
            return Ok(Err(error.to_string()));
        }
        if !piece.is_empty() {
            send(piece)?;
        }
        self.tell(&Answer::Records(Records::default())).map(Ok)
    }
}
