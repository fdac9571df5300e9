//! The second witness: runs a command and notes what the kernel's own accounting says of it.
//!
//! It runs inside whatever measures (weigh, strace, nothing), so that every figure is about the
//! command alone, got in the same way with and without a tool around it. Refuses a command that
//! fails: what did not do its work cannot be compared.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// What one run took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// From before it was started until it was waited for.
    pub wall: f64,
    /// User and system time, by `getrusage`.
    pub cpu: f64,
}

/// The CPU time of all children that this process has waited for, and of theirs.
pub fn cpu_of_children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(microseconds as f64 / 1e6)
}

/// Runs something that starts processes and waits for them; what they took.
pub fn timed<T>(run: impl FnOnce() -> Result<T>) -> Result<(Times, T)> {
    let (cpu, begin) = (cpu_of_children()?, Instant::now());
    let outcome = run()?;
    let wall = begin.elapsed().as_secs_f64();
    Ok((Times { wall, cpu: cpu_of_children()? - cpu }, outcome))
}

/// Runs the command so often, one run after the other, and leaves the times of all in a file.
pub fn witness(file: &Path, repeats: usize, command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no command")?;
    let (times, ()) = timed(|| {
        for _ in 0..repeats {
            let status = Command::new(program).args(arguments).status();
            let status = status.with_context(|| format!("running {program}"))?;
            ensure!(status.success(), "{program}: {status}");
        }
        Ok(())
    })?;
    std::fs::write(file, format!("{} {}", times.wall, times.cpu))
        .with_context(|| file.display().to_string())
}

/// The times that a witness left.
pub fn read_times(file: &Path) -> Result<Times> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let numbers: Vec<f64> =
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().context("times")?;
    let [wall, cpu] = numbers[..] else {
        bail!("{}: '{text}' is no pair of times", file.display())
    };
    Ok(Times { wall, cpu })
}

/// Computes, and nothing else: no system call, no memory.
pub fn spin(rounds: u64) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state);
}

/// Says how much CPU time this process has taken, where somebody wants to know.
pub fn tell_cpu() -> Result<()> {
    let Some(file) = std::env::var_os("TRUTH_FILE") else { return Ok(()) };
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("getrusage")?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    std::fs::write(file, format!("cpu_ns={}\n", microseconds * 1000)).context("the truth")
}

/// How many rounds of [`spin`] take that long here, when nothing is in the way.
pub fn rounds_in(wanted: Duration) -> u64 {
    const TRIAL: u64 = 50_000_000;
    let trial = |_| {
        let begin = Instant::now();
        spin(TRIAL);
        begin.elapsed()
    };
    let least = (0..8).map(trial).min().unwrap_or(wanted);
    (TRIAL as f64 * wanted.as_secs_f64() / least.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_tells_what_the_command_took() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("times");
        let words = ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1"];
        witness(&file, 2, &words.map(String::from)).unwrap();
        let times = read_times(&file).unwrap();
        assert!(times.wall >= 0.2 && times.wall < 10.0, "{times:?}");
        assert!(times.cpu > 0.001 && times.cpu < times.wall - 0.19, "{times:?}");
    }

    #[test]
    fn a_command_that_fails_is_no_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("times");
        assert!(witness(&file, 1, &["false".to_string()]).is_err());
        assert!(!file.exists());
    }
}
