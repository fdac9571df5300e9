//! The side of the stream: never waits for anybody, and goes on without a socket if there can be none.
//!
//! Reads requests; emits answers. Turns away who is neither root nor the stream's own user, who says too
//! much, and who takes too long.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::{Answer, Ask, folder, name};

/// At once.
const MOST_CLIENTS: usize = 16;
/// Of a request.
const MOST_BYTES: usize = 64 * 1024;
/// For a request to come whole, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a stream is asked.
pub struct Control {
    listener: Option<(UnixListener, PathBuf)>,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    since: Instant,
    asked: Vec<u8>,
    /// What is left to say, once it has been asked.
    answer: Option<Vec<u8>>,
}

impl Control {
    /// Listens, if there is a place for that.
    pub fn open() -> Control {
        let listener = folder().and_then(|folder| listen(folder).ok());
        Control { listener, clients: Vec::new() }
    }

    /// What becomes ready when somebody asks.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = self.listener.iter().map(|(listener, _)| listener.as_fd());
        listener.chain(self.clients.iter().map(|client| client.stream.as_fd()))
    }

    /// Answers all who have asked.
    pub fn attend(&mut self, answer: &mut dyn FnMut(Ask) -> Answer) {
        if let Some((listener, _)) = &self.listener {
            while let Ok((stream, _)) = listener.accept() {
                if self.clients.len() < MOST_CLIENTS && may_ask(&stream) {
                    self.clients.push(Client::new(stream));
                }
            }
        }
        self.clients.retain_mut(|client| client.attend(answer).unwrap_or(false));
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.listener {
            let _ = fs::remove_file(path);
        }
    }
}

fn listen(folder: PathBuf) -> io::Result<(UnixListener, PathBuf)> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder)?;
    let path = folder.join(name(std::process::id()));
    // Of one with the same number that was killed.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

fn may_ask(stream: &UnixStream) -> bool {
    let is_known =
        socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid());
    is_known && stream.set_nonblocking(true).is_ok()
}

impl Client {
    fn new(stream: UnixStream) -> Client {
        Client { stream, since: Instant::now(), asked: Vec::new(), answer: None }
    }

    /// Goes on as far as it can without waiting; whether there is more to do.
    fn attend(&mut self, answer: &mut dyn FnMut(Ask) -> Answer) -> io::Result<bool> {
        if self.answer.is_none() && self.has_asked()? {
            let said = match serde_json::from_slice(&self.asked) {
                Ok(ask) => answer(ask),
                Err(error) => Answer::Refused(format!("the request is not understood: {error}")),
            };
            let mut said = serde_json::to_vec(&said)?;
            said.push(b'\n');
            self.answer = Some(said);
        }
        let is_late = self.since.elapsed() > PATIENCE;
        Ok(!self.has_said_all()? && !is_late)
    }

    fn has_asked(&mut self) -> io::Result<bool> {
        let mut part = [0; 4096];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.asked.extend(&part[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.asked.ends_with(b"\n") {
                return Ok(true);
            }
            if self.asked.len() > MOST_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    fn has_said_all(&mut self) -> io::Result<bool> {
        let Some(answer) = &mut self.answer else { return Ok(false) };
        while !answer.is_empty() {
            match self.stream.write(answer) {
                Ok(length) => drop(answer.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
