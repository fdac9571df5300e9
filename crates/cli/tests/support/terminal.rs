//! A terminal for a session of its own: what a person types, and what they see.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;

use super::run::{Scratch, set_surroundings};

/// A program in a terminal.
pub struct Terminal {
    pub child: Child,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts a program as the leader of a session that has a terminal of that size.
    pub fn start(scratch: &Scratch, rows: u16, columns: u16, command: &[&str]) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudo-terminal");
        grantpt(&master).expect("grantpt");
        unlockpt(&master).expect("unlockpt");
        let name = ptsname(&master, Vec::new()).expect("its name").into_string().expect("a path");
        // O_NOCTTY: the test must not get it as its own.
        let open = || {
            let flags =
                rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
            let fd = rustix::fs::open(&name, flags, rustix::fs::Mode::empty());
            File::from(fd.expect("the terminal's other end"))
        };
        let keyboard = File::from(master);
        set_size(&keyboard, rows, columns);
        let mut leader = Command::new("setsid");
        leader.arg("-c").args(command);
        set_surroundings(&mut leader, scratch);
        leader.env("TERM", "dumb").stdin(open()).stdout(open()).stderr(open());
        let child = leader.spawn().expect("setsid");
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut source, sink) = (keyboard.try_clone().expect("dup"), Arc::clone(&screen));
        // Ends with an error when the last process has closed the terminal.
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = source.read(&mut buffer) {
                sink.lock().expect("no panic while held").extend_from_slice(&buffer[..n]);
            }
        });
        Terminal { child, keyboard, screen, reader }
    }

    /// Types.
    pub fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("the terminal takes what is typed");
    }

    /// What has been shown so far.
    pub fn shown(&self) -> String {
        let screen = self.screen.lock().expect("no panic while held");
        String::from_utf8_lossy(&screen).replace('\r', "")
    }

    /// How often a text has been shown so far.
    pub fn count(&self, part: &str) -> usize {
        self.shown().matches(part).count()
    }

    /// Waits until a text has been shown `times` times.
    #[track_caller]
    pub fn wait_for(&self, part: &str, times: usize) {
        let end = std::time::Instant::now() + super::patience(20.0);
        while self.count(part) < times {
            assert!(
                std::time::Instant::now() < end,
                "the terminal does not show '{part}' {times} times, but:\n{}",
                self.shown()
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Makes the window another size.
    pub fn resize(&self, rows: u16, columns: u16) {
        set_size(&self.keyboard, rows, columns);
    }

    /// Waits until the program has ended, and for what it has shown: others may have the terminal open still.
    #[track_caller]
    pub fn end(mut self) -> (std::process::ExitStatus, String) {
        let mut status = None;
        super::wait_until("the program in the terminal ends", 30.0, || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        let end = std::time::Instant::now() + super::patience(2.0);
        while !self.reader.is_finished() && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        (status.expect("waited for"), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set_size(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(terminal, size).expect("a terminal has a size");
}
