//! The side with the rights: has one job's reads and writes followed, for one user, in a process of its own, as long
//! as that user's weigh is there.
//!
//! Reads requests from a stream; emits answers, and what the kernel side tells as it tells it. Refuses processes that
//! the user could not look at.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use weigh_collect::io::{KernelIo, RecordBatch, RecordKind, RowScope, Telling};

use super::wire::{self, Ask, MOST_ASKED, Tell};
use crate::follow::user::User;
use crate::process;

/// So much of a table is sent at once.
const AT_ONCE: usize = 1 << 20;

/// Serves until the user's weigh has gone.
pub fn serve(user: User) -> io::Result<()> {
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
    fn serve(mut self) -> io::Result<()> {
        while let Some(is_asked) = self.wait()? {
            if !is_asked {
                continue;
            }
            let Some((ask, with)) = wire::receive(&self.user.stream, MOST_ASKED)? else { break };
            let answered = self.answer(ask, with)?;
            self.user.notes.note(self.is_begun);
            if let Err(why) = answered {
                wire::send(&self.user.stream, &Tell::Refused(why), None)?;
            }
        }
        Ok(())
    }

    /// Whether there is a request; none when the user has gone.
    fn wait(&self) -> io::Result<Option<bool>> {
        let user = &self.user;
        let mut fds =
            [&user.process, &self.ready].map(|fd| PollFd::new(fd, PollFlags::IN)).to_vec();
        fds.push(PollFd::new(&user.stream, PollFlags::IN));
        loop {
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => break,
            }
        }
        if !fds[1].revents().is_empty() {
            // At the edge: what waits is left where it is, and is told of once.
            let mut events = Vec::with_capacity(4);
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let _ =
                epoll::wait(&self.ready, rustix::buffer::spare_capacity(&mut events), Some(&now));
            let _ = rustix::io::write(&user.wake, &1u64.to_ne_bytes());
        }
        Ok(fds[0].revents().is_empty().then(|| !fds[2].revents().is_empty()))
    }

    /// Answers, or says why not.
    fn answer(&mut self, ask: Ask, with: Option<OwnedFd>) -> io::Result<Result<(), String>> {
        let tell = |tell: &Tell| wire::send(&self.user.stream, tell, None).map(Ok);
        if let Ask::Open { layout, each, threads } = ask {
            return self.open(layout, each, threads);
        }
        let Some(kernel) = &mut self.kernel else { return Ok(Err("it is not open".to_string())) };
        match ask {
            Ask::Open { .. } => Ok(Err("it is open already".to_string())),
            Ask::Arm | Ask::Join => {
                let Some(pidfd) = with.filter(|_| !self.is_begun) else {
                    return Ok(
                        Err("somebody is followed already, or nobody was named".to_string()),
                    );
                };
                self.is_begun = true;
                match self.begin(&ask, &pidfd) {
                    Ok(()) => wire::send(&self.user.stream, &Tell::Done, None).map(Ok),
                    // Whatever was told meanwhile is nobody's business.
                    Err(why) => {
                        self.kernel = None;
                        Ok(Err(why))
                    }
                }
            }
            Ask::IsMember => {
                tell(&Tell::Is(with.is_some_and(|pidfd| kernel.is_member_by(pidfd.as_fd()))))
            }
            Ask::Records => {
                // Where CPUs are scarce each answer waits for one: fewer of them carry more.
                let mut told = kernel.records();
                while told.bytes().len() < AT_ONCE {
                    let more = kernel.records();
                    if more.is_empty() {
                        break;
                    }
                    told.append(&more);
                }
                tell(&Tell::Records(kernel.tally(), told.bytes().len()))?.ok();
                wire::send_bytes(&self.user.stream, &told).map(Ok)
            }
            Ask::Uses => self.tell_kept(RecordKind::Uses),
            Ask::Devices => self.tell_kept(RecordKind::Devices),
            Ask::Processes => self.tell_kept(RecordKind::Processes),
            Ask::Requests => self.tell_kept(RecordKind::Requests),
            Ask::Rest => self.tell_kept(RecordKind::Rest),
            Ask::ForgetNames(files) => {
                kernel.forget_names(&files);
                tell(&Tell::Done)
            }
            Ask::Detach => {
                kernel.detach();
                tell(&Tell::Done)
            }
        }
    }

    fn open(&mut self, layout: u64, each: bool, threads: bool) -> io::Result<Result<(), String>> {
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
        let kernel = match KernelIo::open_as(telling, apart, peer.owner()) {
            Ok(kernel) => kernel,
            Err(error) => return Ok(Err(error.to_string())),
        };
        for ring in kernel.wake_fds() {
            let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&self.ready, ring, epoll::EventData::new_u64(0), edge)?;
        }
        let opened = Tell::Opened {
            began_ns: kernel.began_ns(),
            elapsed_ns: kernel.elapsed_ns(),
            missing: kernel.missing().to_vec(),
        };
        wire::send(&self.user.stream, &opened, Some(self.user.wake.as_fd()))?;
        self.kernel = Some(kernel);
        Ok(Ok(()))
    }

    /// Follows somebody from now on. A process that runs may become another's while it is looked at: it is
    /// looked at again when it is followed, and what the kernel side finds itself comes on top.
    fn begin(&mut self, ask: &Ask, pidfd: &OwnedFd) -> Result<(), String> {
        let peer = self.user.peer;
        let Some(kernel) = &mut self.kernel else { return Err("it is not open".to_string()) };
        let why = |refusal: process::Refusal| refusal.to_string();
        if *ask == Ask::Arm {
            process::command_of(peer, pidfd.as_fd()).map_err(why)?;
            return kernel.arm(pidfd.as_fd()).map_err(|error| error.to_string());
        }
        let pid = process::running_of(peer, pidfd.as_fd()).map_err(why)?;
        kernel.join(pid).map_err(|error| error.to_string())?;
        process::running_of(peer, pidfd.as_fd()).map_err(why).map(drop)
    }

    /// A piece after the other.
    fn tell_kept(&self, what: RecordKind) -> io::Result<Result<(), String>> {
        let Some(kernel) = &self.kernel else { return Ok(Err("it is not open".to_string())) };
        let stream = &self.user.stream;
        let send = |piece: &RecordBatch| {
            wire::send(stream, &Tell::Kept(piece.bytes().len()), None)?;
            wire::send_bytes(stream, piece)
        };
        let mut piece = RecordBatch::default();
        let mut sent = Ok(());
        let read = kernel.each_kept(what, &mut |key, value| {
            piece.push(key, value);
            if piece.bytes().len() >= AT_ONCE && sent.is_ok() {
                sent = send(&std::mem::take(&mut piece));
            }
        });
        sent?;
        if let Err(error) = read {
            return Ok(Err(error.to_string()));
        }
        if !piece.is_empty() {
            send(&piece)?;
        }
        wire::send(stream, &Tell::Kept(0), None).map(Ok)
    }
}
