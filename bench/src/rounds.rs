//! The same work in several ways, one right after the other, again and again.
//!
//! A way that fails is left out from then on, with its reason. A round during which somebody else's
//! weigh runs is made again: nothing was bare in it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::machine;
use crate::runs::{Arm, Bench, Run};
use crate::spread::Spread;

/// How many rounds to make: as many as fit into the time, between these bounds.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Even if they take longer.
    pub least: usize,
    /// Even if there is time left.
    pub most: usize,
    /// The time for them.
    pub seconds: u64,
}

impl Length {
    /// Whether there is another round.
    fn goes_on(self, done: usize, elapsed: Duration) -> bool {
        done < self.least || (done < self.most && elapsed < Duration::from_secs(self.seconds))
    }
}

/// What came of them.
pub struct Rounds {
    /// By round, then by way.
    runs: Vec<Vec<Option<Run>>>,
    /// By way: why it was left out.
    pub failures: Vec<Option<String>>,
}

/// Runs a command so often in each way. Each round begins with another way; the first is the one
/// that the others are compared with, and may not fail.
pub fn alternate(
    bench: &Bench,
    arms: &[Arm],
    (command, repeats): (&[String], usize),
    length: Length,
) -> Result<Rounds> {
    let mut rounds = Rounds { runs: Vec::new(), failures: vec![None; arms.len()] };
    let (begin, mut disturbed) = (Instant::now(), 0);
    while length.goes_on(rounds.runs.len(), begin.elapsed()) {
        let mut runs = vec![None; arms.len()];
        let mut others = machine::weighs_running()?;
        for offset in 0..arms.len() {
            let which = (rounds.runs.len() + offset) % arms.len();
            if rounds.failures[which].is_some() {
                continue;
            }
            match bench.run(&arms[which], repeats, command) {
                Ok(run) => runs[which] = Some(run),
                Err(error) if which == 0 => return Err(error).context("the bare run"),
                Err(error) => {
                    eprintln!("left out from now on: {error:#}");
                    rounds.failures[which] = Some(bench.without_paths(&format!("{error:#}")));
                }
            }
            others += machine::weighs_running()?;
        }
        // A smoke test says nothing of times anyway.
        if others == 0 || bench.quick {
            rounds.runs.push(runs);
            continue;
        }
        disturbed += 1;
        eprintln!("another weigh ran: round made again");
        if disturbed > 2 * length.most.max(10) {
            bail!("another weigh runs on this machine all the time: no bare run can be made");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(rounds)
}

impl Rounds {
    fn of_pairs(&self, arm: usize, figure: impl Fn(&Run, &Run) -> f64) -> Option<Spread> {
        let pairs = self.runs.iter().filter_map(|runs| Some((runs[arm]?, runs[0]?)));
        let figures: Vec<f64> = pairs.map(|(run, bare)| figure(&run, &bare)).collect();
        (!figures.is_empty()).then(|| Spread::of(figures))
    }

    /// By how many percent one way takes longer than the first one of the same round.
    pub fn more(&self, arm: usize, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        self.of_pairs(arm, |run, bare| (figure(run) / figure(bare) - 1.0) * 100.0)
    }

    /// By how much, in the figure's own unit.
    pub fn added(&self, arm: usize, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        self.of_pairs(arm, |run, bare| figure(run) - figure(bare))
    }

    /// The figure itself.
    pub fn of_arm(&self, arm: usize, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        self.of_pairs(arm, |run, _| figure(run))
    }

    /// How many rounds there were.
    pub fn count(&self) -> usize {
        self.runs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Times;

    fn run(cpu: f64) -> Option<Run> {
        let times = Times { wall: cpu, cpu };
        Some(Run { command: times, all: times })
    }

    #[test]
    fn rounds_fit_into_their_time_between_their_bounds() {
        let length = Length { least: 3, most: 5, seconds: 10 };
        let long = Duration::from_secs(11);
        assert!(length.goes_on(2, long), "the least are made in any case");
        assert!(!length.goes_on(3, long));
        assert!(length.goes_on(4, Duration::from_secs(1)));
        assert!(!length.goes_on(5, Duration::from_secs(1)));
    }

    #[test]
    fn each_run_is_compared_with_the_bare_one_of_its_round() {
        let runs = vec![vec![run(1.0), run(1.5)], vec![run(2.0), run(2.2)], vec![run(3.0), None]];
        let rounds = Rounds { runs, failures: vec![None, Some("ended".into())] };
        let more = rounds.more(1, |run| run.command.cpu).unwrap();
        assert_eq!(more.count, 2);
        assert!((more.least - 10.0).abs() < 1e-9 && (more.greatest - 50.0).abs() < 1e-9);
        assert!((rounds.added(1, |run| run.all.wall).unwrap().median - 0.35).abs() < 1e-9);
    }
}
