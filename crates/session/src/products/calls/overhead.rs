//! The overhead of a call that a library marks, measured before the command starts.
//!
//! Makes a call that does next to nothing: here, and by this very program started again with a library and a file
//! of its own in it, served as the command's programs are going to be. Emits the differences; the calls are in
//! nobody's table. Refuses nothing: what cannot be tried, or was not marked as a command's calls are, is not known.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use weigh_agent::Server;
use weigh_collect::calls::shim::{CallSet, Shim};
use weigh_collect::calls::{ANYTHING, KernelCalls};
use weigh_schema::call::CallCost;

use crate::local_agent;

/// What says that this weigh is to make the calls.
const CALLER: &str = "--make-marked-calls-for-a-trial";

/// Of so many rounds the least is taken: those that met other load took longer than the calls have to.
const ROUNDS: usize = 41;
const CALLS: u32 = 128;

/// The kernel side takes a thread in some time after its program was taken in.
const SETTLED: Duration = Duration::from_millis(20);
/// A program is started in some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a call takes.
fn seconds_of_a_call() -> std::io::Result<f64> {
    let mut file = File::open("/dev/null")?;
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..CALLS {
            file.stream_position()?;
        }
        least = least.min(began.elapsed().as_secs_f64() / f64::from(CALLS));
    }
    Ok(least)
}

/// Whether this weigh is to make the calls.
pub fn is_caller(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> bool {
    arguments.into_iter().nth(1).is_some_and(|first| first == CALLER)
}

/// Makes them when it is told to, tells, and stays until nobody holds the other end of standard input: as long as
/// it is followed, others' calls are seen to be none of its own.
pub fn be_caller() -> ExitCode {
    // Whatever becomes of the process that has started it.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let wait = || std::io::stdin().read(&mut [0]);
    let took = wait().and_then(|_| seconds_of_a_call());
    match took {
        Ok(took) => {
            let _ = writeln!(std::io::stdout(), "{took:e}");
            let _ = wait();
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// Measures it with what is loaded. What is attached afterwards is what was before.
pub(super) fn measure(calls: &mut KernelCalls) -> Option<CallCost> {
    let without = seconds_of_a_call().ok()?;
    let shim = Shim::new().ok()?;
    let mut server = Server::new(&shim.socket(), local_agent::settings()).ok()?;
    let program = std::env::current_exe().ok()?;
    let mut child = Command::new(&program)
        .arg(CALLER)
        .envs(shim.variables(program.as_os_str()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let took = measure_marked(&mut child, &shim, &mut server, calls);
    drop(child.stdin.take());
    let until = Instant::now() + PATIENCE;
    // The kernel side forgets it before the command's programs come.
    while server.clients() > 0 && Instant::now() < until {
        serve(&mut server, calls, None)?;
    }
    let _ = child.kill();
    let _ = child.wait();
    drop(server);
    calls.attach_only(ANYTHING).ok()?;
    let (followed, others) = took?;
    // Other load may have met all rounds of one of them.
    let without = without.min(seconds_of_a_call().ok()?);
    (followed > without).then(|| CallCost {
        followed_seconds: followed - without,
        others_seconds: (others - without).max(0.0),
    })
}

/// What a marked call took, and what one of this process did meanwhile.
fn measure_marked(
    child: &mut Child,
    shim: &Shim,
    server: &mut Server,
    calls: &mut KernelCalls,
) -> Option<(f64, f64)> {
    let until = Instant::now() + PATIENCE;
    while server.clients() == 0 {
        serve(server, calls, None).filter(|()| Instant::now() < until)?;
    }
    let settled = Instant::now() + SETTLED;
    while Instant::now() < settled {
        serve(server, calls, None)?;
    }
    shim.mark(CallSet::all());
    child.stdin.as_mut()?.write_all(&[0]).ok()?;
    let output = child.stdout.take()?;
    while !is_ready(output.as_fd()) {
        serve(server, calls, Some(output.as_fd())).filter(|()| Instant::now() < until)?;
    }
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).ok()?;
    let others = seconds_of_a_call().ok()?;
    shim.mark(CallSet::none());
    let is_marked = shim.not_split() == 0;
    Some((line.trim().parse().ok()?, others)).filter(|_| is_marked)
}

fn is_ready(descriptor: BorrowedFd<'_>) -> bool {
    let mut ready = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

/// Serves for some milliseconds at most.
fn serve(server: &mut Server, calls: &mut KernelCalls, also: Option<BorrowedFd<'_>>) -> Option<()> {
    let own = server.descriptor();
    let mut ready: Vec<PollFd<'_>> = [Some(&own), also.as_ref()]
        .into_iter()
        .flatten()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    let _ = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 }));
    drop(ready);
    server.handle(calls).ok()
}
