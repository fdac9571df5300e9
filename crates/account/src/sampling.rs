//! When the job is sampled: often while it is young, and never so often that it costs much.

use std::time::Duration;

/// The shortest interval, with which a job begins, and after the time of how many samples it doubles.
const OF_COUNTERS: (Duration, u32) = (Duration::from_millis(10), 64);
/// The same where each sample is a look at `/proc`.
const OF_LOOKS: (Duration, u32) = (Duration::from_millis(100), 16);

/// The longest interval, and the window of `cpu_cores_peak`.
const LONGEST: Duration = Duration::from_secs(1);

/// Samples cost one part in so many of a CPU's time, in the long run.
const PART_OF_CPU: u32 = 400;
/// Beyond that they may cost so much at once: a short job is sampled often.
const CREDIT: Duration = Duration::from_millis(2);

/// While a job is young, samples are not further apart than this, whatever they cost …
const YOUNG: Duration = Duration::from_secs(2);
const APART_WHILE_YOUNG: Duration = Duration::from_millis(80);
/// … up to one part in so many of a CPU's time.
const PART_WHILE_YOUNG: u32 = 50;

/// Between two samples while somebody watches.
const WATCHED: Duration = Duration::from_millis(100);
/// The same as a multiple of what the last sample cost, at least.
const WATCHED_PER_COST: u32 = 100;

/// What is due at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// A sample.
    Sample,
    /// A sample that ends a window of `cpu_cores_peak` as well.
    Window,
}

/// The moments at which the job is sampled, counted from its start.
#[derive(Clone, Debug)]
pub struct SamplingSchedule {
    /// The interval, but for what samples cost.
    step: Duration,
    shortest: Duration,
    samples_per_step: u32,
    /// What samples have cost, less what they may in the time since.
    spent: Duration,
    /// When the last sample was taken.
    last: Duration,
    window: Duration,
    next_sample: Duration,
    next_window: Duration,
}

impl SamplingSchedule {
    /// An interval of 10 ms that doubles after the time of each 64 samples, up to 1 s.
    pub fn of_counters() -> SamplingSchedule {
        SamplingSchedule::new(OF_COUNTERS, LONGEST)
    }

    /// An interval of 100 ms that doubles after the time of each 16 samples, up to 1 s.
    pub fn of_looks() -> SamplingSchedule {
        SamplingSchedule::new(OF_LOOKS, LONGEST)
    }

    /// Always the same interval.
    pub fn fixed(interval: Duration) -> SamplingSchedule {
        SamplingSchedule::new((interval, 1), interval)
    }

    fn new((shortest, samples_per_step): (Duration, u32), window: Duration) -> SamplingSchedule {
        SamplingSchedule {
            step: shortest,
            shortest,
            samples_per_step,
            spent: Duration::ZERO,
            last: Duration::ZERO,
            window,
            next_sample: shortest,
            next_window: window,
        }
    }

    /// When the next sample is due.
    pub fn next(&self) -> Duration {
        self.next_sample.min(self.next_window)
    }

    /// What is due by now.
    pub fn due(&self, now: Duration) -> Option<Tick> {
        match () {
            () if now >= self.next_window => Some(Tick::Window),
            () if now >= self.next_sample => Some(Tick::Sample),
            () => None,
        }
    }

    /// What was due by now is done, and cost so much.
    pub fn sampled(&mut self, now: Duration, cost: Duration) {
        while self.step < self.window
            && now >= (self.step * 2 - self.shortest) * self.samples_per_step
        {
            self.step = (self.step * 2).min(self.window);
        }
        self.next_sample = now + self.rest(now, cost).max(self.step).min(self.window);
        if now >= self.next_window {
            self.next_window += self.window;
            if self.next_window < now {
                self.next_window = now + self.window;
            }
        }
    }
}

impl SamplingSchedule {
    /// How long samples have to rest for what they have cost by now.
    fn rest(&mut self, now: Duration, cost: Duration) -> Duration {
        let earned = now.saturating_sub(std::mem::replace(&mut self.last, now)) / PART_OF_CPU;
        // What one has cost is not made up for over many.
        let most = CREDIT + self.window / PART_OF_CPU;
        self.spent = (self.spent.saturating_sub(earned) + cost).min(most);
        let rest = self.spent.saturating_sub(CREDIT) * PART_OF_CPU;
        match now < YOUNG {
            true => rest.min(APART_WHILE_YOUNG.max(cost * PART_WHILE_YOUNG)),
            false => rest,
        }
    }

    /// The same while somebody watches: the next sample comes soon, as far as samples do not cost too much.
    pub fn sampled_while_watched(&mut self, now: Duration, cost: Duration) {
        self.sampled(now, cost);
        self.next_sample = self.next_sample.min(now + WATCHED.max(cost * WATCHED_PER_COST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples of a job of so many milliseconds, each at this cost, beside the last one.
    fn ticks(mut schedule: SamplingSchedule, job_ms: u64, cost: Duration) -> Vec<(Duration, Tick)> {
        let mut ticks = Vec::new();
        while schedule.next() < Duration::from_millis(job_ms) {
            let now = schedule.next();
            ticks.push((now, schedule.due(now).expect("it is due")));
            schedule.sampled(now, cost);
        }
        ticks
    }

    #[test]
    fn a_short_job_has_many_samples_and_a_long_one_hardly_more_than_one_a_second() {
        let samples = |schedule, job_ms| ticks(schedule, job_ms, Duration::ZERO).len();
        assert_eq!(samples(SamplingSchedule::of_counters(), 1300), 96);
        let more = samples(SamplingSchedule::of_counters(), 3_600_000) - 3599;
        assert!((350..450).contains(&more), "{more} more");
        assert_eq!(samples(SamplingSchedule::fixed(LONGEST), 3_600_000), 3599);
    }

    #[test]
    fn windows_end_at_each_second_whatever_samples_cost() {
        for cost_ms in [0, 1, 7, 2000] {
            let ticks =
                ticks(SamplingSchedule::of_counters(), 100_500, Duration::from_millis(cost_ms));
            let ends = ticks.iter().filter(|(_, tick)| *tick == Tick::Window).map(|(at, _)| *at);
            assert!(ends.eq((1..=100).map(Duration::from_secs)), "{cost_ms} ms");
        }
    }

    #[test]
    fn what_samples_cost_holds_them_apart() {
        let samples = |job_ms, cost_us| {
            ticks(SamplingSchedule::of_counters(), job_ms, Duration::from_micros(cost_us)).len()
        };
        assert_eq!(samples(100, 250), 9, "a short job is sampled often");
        assert_eq!(samples(1000, 1600), 14, "1 s has a series whatever a sample costs");
        let young = |cost_us| samples(2000, cost_us) as u32;
        for (job_ms, cost_us, wanted) in [(1300, 250, 25), (1300, 5000, 6), (60_000, 250, 298)] {
            let cost = Duration::from_micros(cost_us);
            let taken = samples(job_ms, cost_us);
            let most = cost * young(cost_us) + CREDIT + Duration::from_millis(job_ms) / PART_OF_CPU;
            let windows = job_ms.div_ceil(1000) as u32;
            assert!(taken.abs_diff(wanted) <= 1, "{taken} at {cost_us} us");
            assert!(cost * (taken as u32 - windows) <= most);
        }
        assert_eq!(samples(1300, 10_000_000), 2);
    }

    #[test]
    fn while_somebody_watches_samples_are_close_and_windows_stay() {
        let mut schedule = SamplingSchedule::fixed(LONGEST);
        let ms = Duration::from_millis;
        schedule.sampled_while_watched(ms(1000), Duration::ZERO);
        assert_eq!((schedule.next(), schedule.due(ms(1100))), (ms(1100), Some(Tick::Sample)));
        schedule.sampled_while_watched(ms(1100), ms(5));
        assert_eq!(schedule.next(), ms(1600));
        schedule.sampled(ms(1600), Duration::ZERO);
        assert_eq!((schedule.next(), schedule.due(ms(2000))), (ms(2000), Some(Tick::Window)));
    }

    #[test]
    fn what_a_sample_cost_too_much_is_waited_for_once() {
        let mut schedule = SamplingSchedule::of_counters();
        let ms = Duration::from_millis;
        schedule.sampled(ms(10), CREDIT);
        assert_eq!(schedule.next(), ms(20));
        schedule.sampled(ms(20), Duration::from_micros(525));
        assert_eq!(schedule.next(), ms(100), "500 us too much, while it is young");
        let mut schedule = SamplingSchedule::of_counters();
        schedule.sampled(ms(2000), CREDIT);
        schedule.sampled(ms(2040), Duration::from_micros(600));
        assert_eq!(schedule.next(), ms(2240), "500 us too much");
    }

    #[test]
    fn a_fixed_interval_stays_whatever_samples_cost() {
        let ticks = ticks(
            SamplingSchedule::fixed(Duration::from_millis(10)),
            1005,
            Duration::from_millis(5),
        );
        assert_eq!(ticks.len(), 100);
        assert!(ticks.iter().all(|(_, tick)| *tick == Tick::Window));
    }

    #[test]
    fn what_comes_late_makes_no_two_samples_at_once() {
        let mut schedule = SamplingSchedule::of_counters();
        let late = Duration::from_millis(3700);
        schedule.sampled(late, Duration::ZERO);
        assert_eq!(schedule.due(late), None);
    }
}
