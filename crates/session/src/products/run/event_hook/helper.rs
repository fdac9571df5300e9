//! The helper's side: runs the user's command for each thing it is told, until weigh has no more.
//!
//! Reads orders from its standard input, a JSON object a line; emits nothing but what the commands
//! write, to standard error, and a line there for each that failed. Commands run one at a time, in
//! the order of what they are told. One that takes too long is killed, and what does not fit the
//! queue meanwhile is counted and said.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{TrySendError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use weigh_collect::notice;

use super::order::{HELPER, Order};
use weigh_schema::byte_text;

/// What waits while a command runs.
const QUEUE: usize = 1000;

/// A command that takes longer is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command, if these arguments say that this weigh is the helper.
pub fn is_helper(arguments: impl IntoIterator<Item = OsString>) -> Option<OsString> {
    let mut arguments = arguments.into_iter().skip(1);
    arguments.next().filter(|first| first == HELPER).and_then(|_| arguments.next())
}

/// Does what it is told until there is no more.
pub fn be_helper(command: &OsString) -> ExitCode {
    let (queue, orders) = sync_channel::<Order>(QUEUE);
    let untold = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let untold = &untold;
        // The queue goes with it: when weigh has no more orders, it is closed.
        scope.spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                let Ok(order) = serde_json::from_str(&line) else { continue };
                if let Err(TrySendError::Full(_)) = queue.try_send(order) {
                    untold.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for order in orders {
            if let Err(error) = carry_out(command, &order) {
                let [(_, event), (_, name), ..] = order.variables.as_slice() else { continue };
                let name = byte_text::shown(name);
                notice!("the command of --on-event, for {event} {name}: {error}");
            }
        }
    });
    let untold = untold.into_inner();
    if untold > 0 {
        notice!("the command of --on-event was too slow: {untold} events were not told");
    }
    ExitCode::SUCCESS
}

/// Of a text in the form that keeps its bytes.
fn as_bytes(kept: &str) -> OsString {
    OsString::from_vec(byte_text::bytes(kept).into_owned())
}

fn carry_out(command: &OsString, order: &Order) -> io::Result<()> {
    run_command(Command::new("/bin/sh").arg("-c").arg(command), order)
}

/// Runs a command with what it is told, in a process group of its own, and waits for it. What it writes goes to standard
/// error.
pub fn run_command(command: &mut Command, order: &Order) -> io::Result<()> {
    let error_output = io::stderr().as_fd().try_clone_to_owned()?;
    let child = command
        .envs(order.variables.iter().map(|(name, value)| (name, as_bytes(value))))
        .stdin(input(&order.input)?)
        .stdout(error_output)
        .process_group(0)
        .spawn()?;
    let status = wait(child)?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(io::Error::other(format!("it ended with status {code}"))),
        (_, signal) => {
            Err(io::Error::other(format!("signal {} ended it", signal.unwrap_or_default())))
        }
    }
}

/// A file that holds the text: a pipe would have somebody wait who writes or reads.
fn input(text: &str) -> io::Result<Stdio> {
    let memory = rustix::fs::memfd_create("event", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

fn wait(mut child: Child) -> io::Result<ExitStatus> {
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= until {
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Err(io::Error::other(format!("it was killed after {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
