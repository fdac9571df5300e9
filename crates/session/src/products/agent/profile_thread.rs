//! The thread that reads profiles of programs, so that a large one holds up neither programs nor readers of streams.
//!
//! It sleeps while no program shares one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context as _;
use weigh_agent::{ProfileServer, StreamDoor};
use weigh_collect::notice;

/// The thread; it ends when this is dropped, and has told the streams all it knows then.
pub struct ProfileThread {
    door: StreamDoor,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ProfileThread {
    /// Starts it. Errors: no threads are left.
    pub fn start(mut server: ProfileServer, door: StreamDoor) -> anyhow::Result<ProfileThread> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let is_over = is_ending.clone();
        let thread = std::thread::Builder::new().name("profiles".into()).spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                if let Err(error) = server.handle() {
                    notice!("profiles of programs are read no more: {error}");
                    break;
                }
            }
            server.finish();
        });
        let thread = Some(thread.context("cannot start a thread for profiles")?);
        Ok(ProfileThread { door, is_ending, thread })
    }
}

impl Drop for ProfileThread {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.door.wake_all();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
