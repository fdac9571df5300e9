//! `crates/mount` without a mount: its files as they are, and a kernel that is a socket.

// The tests of these files are those of crates/mount.
#![cfg(not(test))]
#![allow(dead_code, missing_docs, unused_imports, clippy::all, clippy::unwrap_used)]

#[path = "../../../crates/mount/src/accounts/mod.rs"]
mod accounts;
#[path = "../../../crates/mount/src/caller.rs"]
mod caller;
#[path = "../../../crates/mount/src/error.rs"]
mod error;
#[path = "../../../crates/mount/src/forgetting.rs"]
mod forgetting;
#[path = "../../../crates/mount/src/inodes.rs"]
mod inodes;
#[path = "../../../crates/mount/src/mounted.rs"]
mod mounted;
#[path = "../../../crates/mount/src/mountpoint.rs"]
mod mountpoint;
#[path = "../../../crates/mount/src/serve/mod.rs"]
mod serve;
#[rustfmt::skip]
#[path = "../../../crates/mount/src/table.rs"]
mod table;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use fuser::{Config, Session, SessionACL};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use weigh_schema::io::Event;

use accounts::{Accounts, Detail};
use mounted::MountRequest;

const NOBODY: u32 = 65_534;
/// No file becomes greater.
const MOST_BYTES: u64 = 1 << 20;

/// To be called once, before anything is served.
pub fn prepare() {
    let least = Rlimit { current: Some(MOST_BYTES), maximum: Some(MOST_BYTES) };
    rustix::process::setrlimit(Resource::Fsize, least).expect("less is always allowed");
}

/// Serves a folder to the peer of a socket that keeps messages apart, until it is gone; what was counted.
/// It is done as nobody: what comes may ask for devices, and for other users' files.
pub fn serve(folder: OwnedFd, kernel: OwnedFd, exact: bool) -> Vec<Event> {
    let thread = std::thread::spawn(move || {
        nix::sys::signal::SigSet::all().thread_block().expect("always");
        if rustix::process::geteuid().is_root() {
            let (uid, gid) =
                (rustix::process::Uid::from_raw(NOBODY), rustix::process::Gid::from_raw(NOBODY));
            set_thread_groups(&[]).expect("root may");
            set_thread_res_gid(gid, gid, gid).expect("root may");
            set_thread_res_uid(uid, uid, uid).expect("root may");
        }
        let detail = Detail { each_call: true, by_thread: exact };
        let control = |_: rustix::fd::BorrowedFd<'_>, number: u32, _: &mut [u8; 32]| match number {
            0x8008_6601 => Ok(8),
            _ => Err(std::io::ErrorKind::Unsupported.into()),
        };
        let wish = MountRequest { exact, may_pass: false, detail, control };
        let accounts = Arc::new(Accounts::new(detail));
        let Ok((inodes, _crowd)) = table::Inodes::new(folder) else { return accounts };
        let inodes = Arc::new(inodes);
        inodes.fit(16);
        let state = Arc::default();
        let served = serve::Served::new(inodes, wish, Arc::clone(&accounts), state);
        let config = Config::default();
        if let Ok(session) = Session::from_fd(served, kernel, SessionACL::All, config) {
            // Its end is an error: there is no such socket any more.
            let _ = session.run();
        }
        accounts
    });
    let accounts = thread.join().expect("it does not panic");
    let so_far = accounts.so_far();
    accounts.stop();
    let mut events = accounts.events();
    events.extend(so_far);
    events
}
