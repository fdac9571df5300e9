//! Programs with libweigh in a command that weigh follows, where no agent serves them: there is none, or it serves the
//! node alone.
//!
//! Makes a place that nobody else is told of, and has the command's programs look there. Who serves
//! them there is either the weigh that follows each call anyway, or a helper, which is started when the
//! first program comes: loading what it needs takes a second or two, and few commands want it. Refuses,
//! with the reason, where the rights are missing; is not there where a job is followed without the
//! kernel all the same, for the helper would be taken for the job's.

pub mod abandoned;

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::event::PollFlags;
use rustix::net::{SocketAddrUnix, getsockname};
use rustix::pipe::{PipeFlags, pipe_with};
use weigh_agent::{Server, Settings, SlotQuota, listen_at, serves_programs, turn_all_away};
use weigh_collect::calls::{CallsRequest, Counters, Functions, KernelCalls, Telling};
use weigh_collect::daemonize::start_itself;
use weigh_collect::free_space;
use weigh_schema::Mechanism;
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::library::{Reason, SOCKET, SOCKET_VARIABLE};
use weigh_schema::subsystem::SUBSYSTEMS;

use crate::command::{Command, CpuNotice, Launcher, is_ready};
use crate::engine::Session;
use crate::error::SourceError;
use crate::source::Source;

/// What says that this weigh is the helper.
const HELPER: &str = "--serve-a-command-with-libweigh";

/// As many as the kernel side has room for: they are all of this command.
const PROGRAMS: usize = 4096;

/// Whom to serve, who is of one command.
pub fn settings() -> Settings {
    let places = SlotQuota { of_users: 2 * PROGRAMS, of_a_user: PROGRAMS, of_root: PROGRAMS };
    Settings { programs: places, copies: places, ..Settings::default() }
}

/// A place of one command's own; taken away when it is dropped, and by the next weigh when nobody holds it any more.
pub struct SocketFolder {
    folder: PathBuf,
    socket: PathBuf,
    /// The folder itself, locked.
    _held: OwnedFd,
}

/// How often a folder is made that somebody else takes for a dead one's before it is held.
const TRIES: usize = 3;

impl SocketFolder {
    /// None where the command's programs find somebody anyway, or there is no place for a socket.
    pub fn make() -> Option<(SocketFolder, OwnedFd)> {
        if std::env::var_os(SOCKET_VARIABLE).is_some() || serves_programs(Path::new(SOCKET)) {
            return None;
        }
        let parent = parent_folder();
        abandoned::sweep(&parent);
        let unguessable = || RandomState::new().build_hasher().finish();
        for _ in 0..TRIES {
            // A weigh that was killed may have left one of the same process's number.
            let folder = format!("weigh-{}-{:08x}", std::process::id(), unguessable() >> 32);
            let folder = parent.join(folder);
            // Programs of other users, too, which the command may start; who is not told does not find it.
            std::fs::DirBuilder::new().mode(0o711).create(&folder).ok()?;
            let Some(held) = abandoned::hold(&folder) else { continue };
            let socket = folder.join(format!("{:016x}", unguessable()));
            let place = SocketFolder { folder, socket, _held: held };
            let listener = listen_at(&place.socket).ok()?;
            return Some((place, listener));
        }
        None
    }

    /// What the command's environment must have.
    pub fn variable(&self) -> (OsString, OsString) {
        (SOCKET_VARIABLE.into(), self.socket.clone().into_os_string())
    }
}

/// Where folders are made: `TMPDIR`, unless a server that never answers could hold weigh there.
fn parent_folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    named.filter(|folder| free_space::always_answers(folder)).unwrap_or_else(|| "/tmp".into())
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// A place where a helper serves, from when the first program comes.
pub struct Helper {
    place: SocketFolder,
    /// Until a helper has it.
    listener: Option<OwnedFd>,
    /// The pipe by which the helper knows that weigh has ended: its end there, until it has it, and the
    /// one here. None where the rights are missing.
    theirs: Option<OwnedFd>,
    _ours: Option<OwnedFd>,
}

impl Helper {
    /// None where there is no need of one, or no use for it.
    pub fn prepare(mechanism: Mechanism) -> Option<Helper> {
        let has_rights = weigh_collect::requirements::check().is_ok();
        if has_rights && mechanism != Mechanism::Bpf {
            return None;
        }
        let (place, listener) = SocketFolder::make()?;
        let pipe = has_rights.then(|| pipe_with(PipeFlags::CLOEXEC)).transpose().ok()?;
        let (ours, theirs) = pipe.unzip();
        Some(Helper { place, listener: Some(listener), theirs, _ours: ours })
    }

    /// What the command's environment must have.
    pub fn variable(&self) -> (OsString, OsString) {
        self.place.variable()
    }

    /// The folder that was made for it.
    pub fn folder(&self) -> &Path {
        &self.place.folder
    }

    /// Is readable when a program has come, and nobody serves it yet.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|listener| listener.as_fd())
    }

    /// Has the helper serve those who have come, if there are any; says why not if there can be none.
    pub fn serve_if_asked(&mut self) {
        let is_asked = self.wake_fd().is_some_and(|listener| is_ready(listener, PollFlags::IN));
        match (&self.listener, &self.theirs) {
            (Some(listener), None) if is_asked => turn_all_away(listener, Reason::NoRights),
            (Some(listener), Some(theirs)) if is_asked => {
                // If it cannot be, the socket is closed here, and the program knows at once.
                let _ = start_itself(&[HELPER.into()], listener, theirs);
                (self.listener, self.theirs) = (None, None);
            }
            _ => {}
        }
    }
}

/// Whether this weigh is the helper.
pub fn is_helper(arguments: impl IntoIterator<Item = OsString>) -> bool {
    arguments.into_iter().nth(1).is_some_and(|first| first == HELPER)
}

/// Serves at standard input until nobody holds the other end of standard output.
pub fn be_helper() -> ExitCode {
    let wanted = CallsRequest {
        subsystems: SUBSYSTEMS.iter().collect(),
        grouping: Grouping::Call,
        sharing: Sharing::default(),
        every_call: false,
        counters: Counters::all(),
    };
    let Ok(listener) = std::io::stdin().as_fd().try_clone_to_owned() else {
        return ExitCode::FAILURE;
    };
    // If weigh has been killed, nobody else takes it away.
    let _place = place_of(&listener);
    let service = match KernelCalls::load(&wanted, Telling::PLAIN, &Functions::default()) {
        Ok(calls) => match Server::at(listener, settings()) {
            Ok(server) => Service::Accounts(Box::new((server, calls))),
            Err(_) => return ExitCode::FAILURE,
        },
        Err(_) => Service::Refusal(listener),
    };
    let served = Launcher::prepare_with(true, CpuNotice::Not).and_then(|launcher| {
        Session::new(launcher.stay(), None)
            .run(&mut HelperSource { service, end: std::io::stdout() })
    });
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a helper has for programs.
enum Service {
    Accounts(Box<(Server, KernelCalls)>),
    Refusal(OwnedFd),
}

/// The programs that a helper serves, until nobody holds the other end of standard output.
struct HelperSource {
    service: Service,
    end: std::io::Stdout,
}

impl Source for HelperSource {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let socket = match &self.service {
            Service::Accounts(accounts) => accounts.0.descriptor(),
            Service::Refusal(listener) => listener.as_fd(),
        };
        vec![socket, self.end.as_fd()]
    }

    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        match &mut self.service {
            Service::Accounts(accounts) => {
                let (server, calls) = &mut **accounts;
                server.handle(calls)?;
            }
            Service::Refusal(listener) => turn_all_away(listener, Reason::NoRights),
        }
        Ok(())
    }

    fn is_over(&mut self, _: &Command) -> bool {
        is_ready(self.end.as_fd(), PollFlags::empty())
    }
}

fn place_of(listener: &OwnedFd) -> Option<SocketFolder> {
    let address = SocketAddrUnix::try_from(getsockname(listener).ok()?).ok()?;
    let socket = PathBuf::from(OsStr::from_bytes(address.path_bytes()?));
    let folder = socket.parent()?.to_owned();
    let held = abandoned::hold(&folder)?;
    Some(SocketFolder { folder, socket, _held: held })
}
