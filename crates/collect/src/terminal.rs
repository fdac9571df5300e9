//! What a job does to the terminal that it shares with weigh.
//!
//! Reads the terminal's settings and foreground group, and of each process its descriptors and `/proc/PID/task/*/syscall`.

use std::io::Stderr;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::termios::{Termios, tcgetattr, tcgetpgrp};

use crate::io::name;

/// The most processes whose descriptors are looked at: of more nobody knows what they do to the terminal.
const PROCESSES: usize = 64;

/// `/dev/tty`: the terminal that a process has, whichever it is.
const OWN_TERMINAL: (u32, u32) = (5, 0);

/// The terminal behind standard error, as it was before the command began.
pub struct JobTerminal {
    stderr: Stderr,
    device: (u32, u32),
    settings: Termios,
}

impl JobTerminal {
    /// None where standard error is no terminal.
    pub fn of_stderr() -> Option<JobTerminal> {
        let stderr = std::io::stderr();
        let settings = tcgetattr(&stderr).ok()?;
        let device = device(Path::new("/proc/self/fd/2"))??;
        Some(JobTerminal { stderr, device, settings })
    }

    /// Whether nobody of the job writes to it, reads from it, or has changed its settings, and weigh is in its
    /// foreground. What cannot be found out counts as no.
    pub fn is_left_alone(&self, living: &dyn Fn() -> Vec<u32>) -> bool {
        let is_foreground =
            tcgetpgrp(&self.stderr).is_ok_and(|group| group == rustix::process::getpgrp());
        let is_as_before =
            || tcgetattr(&self.stderr).is_ok_and(|now| modes(&now) == modes(&self.settings));
        let living = living();
        is_foreground
            && is_as_before()
            && living.len() <= PROCESSES
            && living.iter().all(|pid| self.is_left_alone_by(*pid) == Some(true))
    }

    fn is_left_alone_by(&self, pid: u32) -> Option<bool> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let is_it = |number: u32| {
            let device = device(&folder.join(format!("fd/{number}")))?;
            Some(device.is_some_and(|device| [self.device, OWN_TERMINAL].contains(&device)))
        };
        let is_output = is_it(1)? || is_it(2)?;
        Some(!(is_output || is_it(0)? && waits_for_input(&folder)?))
    }
}

/// The device behind a descriptor of a process; none if it is closed or no device of characters, nothing if that
/// cannot be known.
fn device(descriptor: &Path) -> Option<Option<(u32, u32)>> {
    const TYPE: u32 = 0o170_000;
    const CHARACTERS: u32 = 0o020_000;
    match std::fs::metadata(descriptor) {
        Ok(about) if about.st_mode() & TYPE == CHARACTERS => {
            let device = about.st_rdev();
            Some(Some((rustix::fs::major(device), rustix::fs::minor(device))))
        }
        Ok(_) => Some(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Closed, or what it was is gone; or the process has ended meanwhile.
            Some(None)
        }
        Err(_) => None,
    }
}

/// Whether a thread of the process is in a call that reads, or waits for something to read.
fn waits_for_input(folder: &Path) -> Option<bool> {
    let threads = std::fs::read_dir(folder.join("task")).ok()?;
    for thread in threads.filter_map(Result::ok) {
        let text = std::fs::read_to_string(thread.path().join("syscall")).ok()?;
        let number = text.split(' ').next().and_then(|number| number.parse().ok());
        // "running", or a number below 0: in no call.
        let Some(number) = number else { continue };
        let call = name(number);
        if ["read", "poll", "select", "epoll"].iter().any(|word| call.contains(word)) {
            return Some(true);
        }
    }
    Some(false)
}

fn modes(settings: &Termios) -> [u32; 4] {
    [
        settings.input_modes.bits(),
        settings.output_modes.bits(),
        settings.control_modes.bits(),
        settings.local_modes.bits(),
    ]
}
