//! A sentry: a thread of weigh's that sees limits on memory, processes and threads crossed sooner
//! than the looks at everything do, where the kernel does not follow the job.
//!
//! Reads as little as will do, every millisecond or so ([`members`]); stops the whole job when a
//! limit is passed, and tells of a [`Crossing`]. When the job is told to end it goes on, and kills
//! all of it if it takes much more. Refuses limits that it has no cheap look at: those are left to
//! the looks. It takes a fifth of a CPU at most, and goes before the job where the kernel lets it
//! ([`priority`]).

mod members;
mod priority;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use weigh_schema::event::Crossing;
use weigh_schema::metric_name;

use crate::clock::Moment;
use crate::poll::poller::JobPoller;
use members::{Members, Sums};
use weigh_schema::limit::OnLimit;

/// Time between looks: shorter than any memory can be filled in that matters, and long enough to
/// see a job early that begins to grow.
const PACE: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(4));

/// The same, where births count: nobody can say from how few there were how many there will be.
const BIRTHS: Duration = Duration::from_millis(1);

/// Looks take a fifth of a CPU, at most.
const WAIT_PER_LOOK: u32 = 4;

/// Processes or threads that a job may have beyond those it had when it was told to end.
const LAST_WISH: u64 = 16;

/// Memory that a job may take beyond what it held when it was told to end: a part of the limit, and
/// at least so much.
const LAST_BYTES: (u64, u64) = (16, 4 << 20);

type Value = fn(&Sums) -> u64;

/// What it can have an eye on, and whether that is memory.
const SEEN: [(&str, Value, bool); 5] = [
    (metric_name::memory_peak_bytes, |sums| sums.floor, true),
    (metric_name::memory_peak_rss_sum_bytes, |sums| sums.rss_sum, true),
    (metric_name::memory_peak_process_rss_bytes, |sums| sums.largest, true),
    (metric_name::processes_peak, |sums| sums.processes, false),
    (metric_name::threads_peak, |sums| sums.threads, false),
];

/// A limit that it has an eye on.
#[derive(Clone, Debug)]
struct Line {
    metric: &'static str,
    value: Value,
    is_memory: bool,
    limit: u64,
    /// With more than that something has to be done.
    most: u64,
    last: Option<(u64, Instant)>,
}

/// The limits that a sentry can have an eye on, if anybody is to be held at all.
fn lines(limits: &[(&str, f64, f64)], on_limit: OnLimit) -> Vec<Line> {
    let of = |(name, limit, _): &(&str, f64, f64)| {
        let (metric, value, is_memory) = SEEN.into_iter().find(|(metric, ..)| metric == name)?;
        let limit = *limit as u64;
        Some(Line { metric, value, is_memory, limit, most: limit, last: None })
    };
    limits.iter().filter(|_| on_limit != OnLimit::Warn).filter_map(of).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A process that passes a limit stops the job.
    Watching,
    /// The job is told to end.
    Ending,
    /// There is nothing to see any more.
    Resting,
    /// The thread is to end.
    Over,
}

struct Orders {
    phase: Phase,
    is_resting: bool,
    crossings: Vec<Crossing>,
}

struct Shared {
    /// Held while the job is stopped: nobody lets it go on meanwhile.
    orders: Mutex<Orders>,
    changed: Condvar,
    wake: OwnedFd,
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits of a job, and the sentry that has an eye on them once the job is there.
#[derive(Default)]
pub struct LimitWatchdog {
    lines: Vec<Line>,
    sentry: Option<Sentry>,
}

impl LimitWatchdog {
    /// Takes the limits that it has a cheap look at. The job is not there yet.
    pub fn set_limits(&mut self, limits: &[(&str, f64, f64)], on_limit: OnLimit) {
        self.lines = lines(limits, on_limit);
    }

    /// Has an eye on the job that `poller` follows, if there is a limit.
    pub fn start(&mut self, poller: &JobPoller, begun: Moment) {
        self.sentry = Sentry::start(poller, std::mem::take(&mut self.lines), begun);
    }

    /// Becomes readable when a limit was passed.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.sentry.as_ref().map(Sentry::wake_fd)
    }

    /// The limits that were passed since this was asked last; the job is stopped.
    pub fn crossings(&self) -> Vec<Crossing> {
        self.sentry.as_ref().map(Sentry::crossings).unwrap_or_default()
    }

    /// As long as this is kept it stops and kills nobody.
    pub fn wait_for_turn(&self) -> impl Sized + '_ {
        self.sentry.as_ref().map(Sentry::wait_for_turn)
    }

    /// From now on it kills who takes much more.
    pub fn set_ending(&self) {
        self.sentry.iter().for_each(Sentry::set_ending);
    }

    /// Looks at nothing any more, from when this returns.
    pub fn rest(&self) {
        self.sentry.iter().for_each(Sentry::rest);
    }
}

/// One job's sentry.
struct Sentry {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sentry {
    /// Has an eye on the job that `poller` follows. None if there is nothing to see, or no thread.
    fn start(poller: &JobPoller, lines: Vec<Line>, begun: Moment) -> Option<Sentry> {
        if lines.is_empty() {
            return None;
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let orders = Orders { phase: Phase::Watching, is_resting: false, crossings: Vec::new() };
        let shared = Arc::new(Shared { orders: Mutex::new(orders), changed: Condvar::new(), wake });
        let members = Members::new(poller, lines.iter().any(|line| line.is_memory));
        let mut watch =
            Watch { shared: Arc::clone(&shared), members, lines, begun, is_wish_granted: false };
        let thread = std::thread::Builder::new()
            .name("weigh-sentry".into())
            .spawn(move || watch.run())
            .ok()?;
        Some(Sentry { shared, thread: Some(thread) })
    }

    /// Becomes readable when a limit was passed.
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// The limits that were passed since this was asked last; the job is stopped.
    fn crossings(&self) -> Vec<Crossing> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
        std::mem::take(&mut self.shared.orders().crossings)
    }

    /// As long as this is kept it stops and kills nobody.
    fn wait_for_turn(&self) -> impl Sized + '_ {
        self.shared.orders()
    }

    /// From now on it kills who takes much more.
    fn set_ending(&self) {
        self.enter(Phase::Ending);
    }

    /// Looks at nothing any more, from when this returns.
    fn rest(&self) {
        self.enter(Phase::Resting);
        let mut orders = self.shared.orders();
        while !orders.is_resting && orders.phase == Phase::Resting {
            orders = self.shared.changed.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn enter(&self, phase: Phase) {
        let mut orders = self.shared.orders();
        if phase == Phase::Over || orders.phase != Phase::Resting {
            orders.phase = phase;
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Sentry {
    fn drop(&mut self) {
        self.enter(Phase::Over);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Watch {
    shared: Arc<Shared>,
    members: Members,
    lines: Vec<Line>,
    begun: Moment,
    is_wish_granted: bool,
}

impl Watch {
    fn run(&mut self) {
        priority::go_before_others();
        let shared = Arc::clone(&self.shared);
        let mut orders = shared.orders();
        while orders.phase != Phase::Over {
            if orders.phase == Phase::Resting {
                orders.is_resting = true;
                shared.changed.notify_all();
                orders = shared.changed.wait(orders).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(orders);
            let pause = self.look();
            orders = shared.orders();
            if matches!(orders.phase, Phase::Watching | Phase::Ending) {
                let waited = shared.changed.wait_timeout(orders, pause);
                orders = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Looks once, does what has to be done, and says when to look again.
    fn look(&mut self) -> Duration {
        let began = Instant::now();
        let most = |name| self.lines.iter().filter(|l| l.metric == name).map(|l| l.most).min();
        let is_past = |sums: &Sums| {
            self.lines.iter().any(|line| line.is_memory && (line.value)(sums) > line.most)
        };
        let sums = self.members.look(
            most(metric_name::processes_peak),
            most(metric_name::threads_peak),
            is_past,
        );
        if self.lines.iter().any(|line| (line.value)(&sums) > line.most) {
            self.act(&sums);
        }
        let pause = self.lines.iter_mut().map(|line| line.pause(&sums, began)).min();
        pause.unwrap_or(PACE.1).max(began.elapsed() * WAIT_PER_LOOK)
    }

    /// A limit was passed.
    fn act(&mut self, sums: &Sums) {
        let shared = Arc::clone(&self.shared);
        let mut orders = shared.orders();
        match orders.phase {
            Phase::Watching => {
                self.members.crowd().signal_all(&[libc::SIGSTOP]);
                let after = self.members.look_at_all();
                self.tell(sums, &after, &mut orders);
            }
            // Something else ends the job.
            Phase::Ending if !self.is_wish_granted => self.grant_wish(sums),
            Phase::Ending => {
                self.members.crowd().signal_all(&[libc::SIGKILL]);
            }
            Phase::Resting | Phase::Over => {}
        }
    }

    /// Tells of the limits that were passed, with what the job had when it had come to a stop.
    fn tell(&mut self, before: &Sums, after: &Sums, orders: &mut Orders) {
        let at_ns = self.begun.elapsed_ns();
        for line in &self.lines {
            let observed = (line.value)(before).max((line.value)(after));
            if observed > line.most {
                orders.crossings.push(Crossing {
                    metric: line.metric.to_owned(),
                    at_ns,
                    observed: observed as f64,
                    pid: None,
                    tid: 0,
                    held: true,
                    stack: Vec::new(),
                });
            }
        }
        self.grant_wish(after);
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
    }

    /// To end, a job may take a little more than it has.
    fn grant_wish(&mut self, now: &Sums) {
        for line in &mut self.lines {
            line.most = line.most.max((line.value)(now)) + line.last_wish();
        }
        self.is_wish_granted = true;
    }
}

impl Line {
    fn last_wish(&self) -> u64 {
        match self.is_memory {
            true => (self.limit / LAST_BYTES.0).max(LAST_BYTES.1),
            false => LAST_WISH,
        }
    }

    /// Until the next look: half the time that the limit takes to be reached as fast as it came
    /// nearer since the last one.
    fn pause(&mut self, sums: &Sums, now: Instant) -> Duration {
        if !self.is_memory {
            return BIRTHS;
        }
        let value = (self.value)(sums);
        let last = self.last.replace((value, now));
        let Some((before, at)) = last else { return PACE.0 };
        let rate = value.saturating_sub(before) as f64 / (now - at).as_secs_f64().max(1e-6);
        let seconds = self.most.saturating_sub(value) as f64 / rate.max(1.0) / 2.0;
        Duration::try_from_secs_f64(seconds).unwrap_or(PACE.1).clamp(PACE.0, PACE.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(limit: f64) -> Line {
        lines(&[("memory_peak_bytes", limit, 0.0)], OnLimit::Kill).remove(0)
    }

    fn holding(floor: u64) -> Sums {
        Sums { floor, ..Sums::default() }
    }

    #[test]
    fn it_has_an_eye_on_what_it_can_see_cheaply() {
        let limits = [("processes_peak", 5.0, 4.0), ("wall_seconds", 1.0, 0.8)];
        let seen = lines(&limits, OnLimit::Stop);
        assert_eq!(seen.iter().map(|line| line.metric).collect::<Vec<_>>(), ["processes_peak"]);
        assert!(lines(&limits, OnLimit::Warn).is_empty());
    }

    #[test]
    fn it_looks_more_often_the_sooner_a_limit_will_be_reached() {
        let (mut line, begun) = (line(100e6), Instant::now());
        line.pause(&holding(0), begun);
        let later = begun + Duration::from_millis(10);
        assert_eq!(line.pause(&holding(1_000), later), PACE.1);
        // 10 MB in 10 ms, 4 MB to go: half of 4 ms.
        let mut line = self::line(14e6);
        line.pause(&holding(0), begun);
        let pause = line.pause(&holding(10_000_000), later);
        assert!((pause.as_secs_f64() - 0.002).abs() < 1e-6, "{pause:?}");
        assert_eq!(line.pause(&holding(14_000_000), later + PACE.1), PACE.0);
    }
}
