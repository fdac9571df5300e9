//! How much room file systems have: free bytes and inodes at the start, the least seen, and the last.
//!
//! Reads `/proc/self/mountinfo` once and statvfs(2) of mount points; emits a [`SpaceHistory`] for each file system. One
//! thread looks at all file systems that lie on devices here or in memory, whichever of them the job comes to write to.
//! Those of other machines and of programs (FUSE) are looked at only where a caller names them, by a thread each: asking
//! them may wait for ever, and nobody waits for these threads but for some milliseconds. Paths are placed by their
//! names: nothing is opened, and symbolic links are read only where they lie on file systems that always answer.

mod mounts;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::statvfs;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

use crate::procfs;
use mounts::FileSystems;
pub use mounts::SystemId;

/// From one look to the next: the least, the most, and the most with a limit.
const APART: (Duration, Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(250), Duration::from_millis(20));
/// The distance grows by one part in so many of the time since the start.
const PART_OF_AGE: u32 = 5;
/// Threads for file systems that may not answer.
const REMOTE_MOST: usize = 8;

/// What it is for, and what it takes.
pub const INFO: CollectorInfo =
    CollectorInfo::new("space", "free space and inodes of the file systems that the job uses", None)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "none",
    scope: "file systems",
    intrusiveness: Intrusiveness::None,
    cost: "one statvfs(2) of each file system, 4 times a second in the long run, with a limit 50 times",
});

/// The room of a file system at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Its size in bytes.
    pub total_bytes: u64,
    /// What ordinary users can have of it, in bytes.
    pub free_bytes: u64,
    /// Inodes that there can be, and that ordinary users can have; none where it makes them as they are needed.
    pub inodes: Option<(u64, u64)>,
}

impl Room {
    fn of(point: &Path) -> Result<Room, String> {
        let found = statvfs(point).map_err(|error| std::io::Error::from(error).to_string())?;
        let bytes = |blocks: u64| found.f_frsize.saturating_mul(blocks);
        Ok(Room {
            total_bytes: bytes(found.f_blocks),
            free_bytes: bytes(found.f_bavail),
            inodes: (found.f_files > 0).then_some((found.f_files, found.f_favail)),
        })
    }

    fn free_inodes(&self) -> Option<u64> {
        self.inodes.map(|(_, free)| free)
    }
}

/// A file system, and the room on it over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceHistory {
    /// A mount point of it.
    pub point: PathBuf,
    /// Its type.
    pub kind: String,
    /// Its device, major and minor.
    pub device: (u32, u32),
    /// The first look, and how long after the start of the watch it was.
    pub first: Option<(Room, Duration)>,
    /// The least free bytes of all looks.
    pub least_bytes: Option<u64>,
    /// The least free inodes.
    pub least_inodes: Option<u64>,
    /// The last look, and how long ago it was.
    pub last: Option<(Room, Duration)>,
    /// Looks that were answered.
    pub looks: u64,
    /// The longest time between two of them.
    pub apart: Duration,
    /// Why the last look failed, or that it has not been answered yet.
    pub trouble: Option<String>,
}

/// How often to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookRate {
    /// At growing distance.
    Relaxed,
    /// For a limit.
    Limited,
}

impl LookRate {
    fn distance(self, age: Duration) -> Duration {
        let (least, most, limited) = APART;
        let most = if self == LookRate::Limited { limited } else { most };
        (age / PART_OF_AGE).clamp(least, most)
    }
}

#[derive(Clone, Debug, Default)]
struct Watched {
    first: Option<(Room, Instant)>,
    least_bytes: Option<u64>,
    least_inodes: Option<u64>,
    last: Option<(Room, Instant)>,
    looks: u64,
    apart: Duration,
    error: Option<String>,
    /// A look that has not been answered.
    asked: Option<Instant>,
}

impl Watched {
    fn take(&mut self, found: Result<Room, String>, now: Instant) {
        self.asked = None;
        let room = match found {
            Ok(room) => room,
            Err(error) => return self.error = Some(error),
        };
        let least = |known: Option<u64>, seen| Some(known.map_or(seen, |known| known.min(seen)));
        self.least_bytes = least(self.least_bytes, room.free_bytes);
        if let Some(inodes) = room.free_inodes() {
            self.least_inodes = least(self.least_inodes, inodes);
        }
        if let Some((_, before)) = self.last {
            self.apart = self.apart.max(now.saturating_duration_since(before));
        }
        self.first.get_or_insert((room, now));
        self.last = Some((room, now));
        self.looks += 1;
        self.error = None;
    }

    /// Why nothing is known of now.
    fn trouble(&self) -> Option<String> {
        let waits = |asked: Instant| {
            format!("it has not answered for {:.1} s", asked.elapsed().as_secs_f64())
        };
        self.error.clone().or_else(|| self.asked.map(waits))
    }
}

struct State {
    systems: Vec<Watched>,
    /// Threads look at once where this is greater than what they have done.
    round: u64,
    /// What each thread has done: that of local ones first.
    done: Vec<u64>,
    is_over: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    rate: LookRate,
    begun: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // It is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at these again and again, as a thread of its own.
    fn look_until_over(&self, thread: usize, targets: &[(SystemId, PathBuf)]) {
        loop {
            let round = self.lock().round;
            for (system, point) in targets {
                self.lock().systems[*system].asked = Some(Instant::now());
                let found = Room::of(point);
                self.lock().systems[*system].take(found, Instant::now());
            }
            self.lock().done[thread] = round;
            self.changed.notify_all();
            if !self.rest(round) {
                return;
            }
        }
    }

    /// Waits for the next look; whether there is one.
    fn rest(&self, round: u64) -> bool {
        let due = Instant::now() + self.rate.distance(self.begun.elapsed());
        let mut state = self.lock();
        while !state.is_over && state.round == round {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.is_over
    }
}

/// Whether what lies at an absolute path answers without asking another machine or a program, as far as the names of the
/// path tell: nothing is opened. False where mounts cannot be listed.
pub fn always_answers(path: &Path) -> bool {
    procfs::read("/proc/self/mountinfo").is_ok_and(|mounts| is_answering(&mounts, path))
}

fn is_answering(mounts: &[u8], path: &Path) -> bool {
    let systems = FileSystems::new(procfs::parse_mountinfo(mounts));
    systems.of_path(path).is_some_and(|id| systems.all()[id].is_local)
}

/// Watches the room on file systems until it is dropped.
pub struct SpaceWatch {
    shared: Arc<Shared>,
    systems: FileSystems,
    /// Those that have a thread of their own.
    remote: Vec<SystemId>,
}

impl SpaceWatch {
    /// Begins to look. Refuses where mounts cannot be listed or no thread can be made.
    pub fn start(rate: LookRate) -> Result<SpaceWatch, String> {
        let text = procfs::read("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        SpaceWatch::of_mounts(&text, rate)
    }

    fn of_mounts(text: &[u8], rate: LookRate) -> Result<SpaceWatch, String> {
        let systems = FileSystems::new(procfs::parse_mountinfo(text));
        let watched = vec![Watched::default(); systems.all().len()];
        let state = State { systems: watched, round: 1, done: vec![0], is_over: false };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            rate,
            begun: Instant::now(),
        };
        let watch = SpaceWatch { shared: Arc::new(shared), systems, remote: Vec::new() };
        let local = watch.systems.local();
        start_thread(&watch.shared, 0, local)?;
        Ok(watch)
    }

    /// How long it has been looking.
    pub fn age(&self) -> Duration {
        self.shared.begun.elapsed()
    }

    /// The file system that a path lies on, which has to be absolute.
    pub fn system_of(&self, path: &Path) -> Option<SystemId> {
        self.systems.of_path(&self.systems.resolved(path))
    }

    /// The file system of that device.
    pub fn system_of_device(&self, device: (u32, u32)) -> Option<SystemId> {
        self.systems.of_device(device)
    }

    /// Looks at this one from now on, if that is not done already.
    pub fn watch(&mut self, system: SystemId) {
        let Some(found) = self.systems.all().get(system) else { return };
        if found.is_local || self.remote.contains(&system) || self.remote.len() >= REMOTE_MOST {
            return;
        }
        let thread = {
            let mut state = self.shared.lock();
            state.done.push(0);
            state.done.len() - 1
        };
        self.remote.push(system);
        if let Err(error) = start_thread(&self.shared, thread, vec![(system, found.point.clone())])
        {
            let mut state = self.shared.lock();
            state.done[thread] = u64::MAX;
            state.systems[system].error = Some(error);
        }
    }

    /// Has all be looked at once more, and waits so long for that at most.
    pub fn look_now(&self, longest: Duration) {
        let asked = Instant::now();
        let mut state = self.shared.lock();
        state.round += 1;
        let round = state.round;
        self.shared.changed.notify_all();
        self.wait_for(state, round, asked, longest);
    }

    /// Waits for the first look, so long at most.
    pub fn wait_for_first(&self, longest: Duration) {
        self.wait_for(self.shared.lock(), 1, Instant::now(), longest);
    }

    fn wait_for(
        &self,
        mut state: MutexGuard<'_, State>,
        round: u64,
        asked: Instant,
        longest: Duration,
    ) {
        while state.done.iter().any(|done| *done < round) {
            let left = longest.saturating_sub(asked.elapsed());
            if left.is_zero() {
                return;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The least free bytes and inodes so far on any of these, and which one it is.
    pub fn least(&self, systems: &[SystemId]) -> [Option<(u64, SystemId)>; 2] {
        let state = self.shared.lock();
        let watched =
            || systems.iter().filter_map(|system| Some((state.systems.get(*system)?, *system)));
        let bytes = watched().filter_map(|(w, system)| Some((w.least_bytes?, system))).min();
        let inodes = watched().filter_map(|(w, system)| Some((w.least_inodes?, system))).min();
        [bytes, inodes]
    }

    /// The least free bytes at the last look on any of these.
    pub fn free_bytes(&self, systems: &[SystemId]) -> Option<u64> {
        let state = self.shared.lock();
        let last = systems.iter().filter_map(|system| state.systems.get(*system)?.last);
        last.map(|(room, _)| room.free_bytes).min()
    }

    /// The longest time between two looks at any of these.
    pub fn apart(&self, systems: &[SystemId]) -> Duration {
        let state = self.shared.lock();
        let apart = systems.iter().filter_map(|system| Some(state.systems.get(*system)?.apart));
        apart.max().unwrap_or_default()
    }

    /// What is known of a file system.
    pub fn history(&self, system: SystemId) -> Option<SpaceHistory> {
        let found = self.systems.all().get(system)?;
        let watched = self.shared.lock().systems.get(system)?.clone();
        let trouble = watched.trouble();
        Some(SpaceHistory {
            point: found.point.clone(),
            kind: found.kind.clone(),
            device: found.device,
            first: watched
                .first
                .map(|(room, at)| (room, at.saturating_duration_since(self.shared.begun))),
            least_bytes: watched.least_bytes,
            least_inodes: watched.least_inodes,
            last: watched.last.map(|(room, at)| (room, at.elapsed())),
            looks: watched.looks,
            apart: watched.apart,
            trouble,
        })
    }
}

impl Drop for SpaceWatch {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

fn start_thread(
    shared: &Arc<Shared>,
    thread: usize,
    targets: Vec<(SystemId, PathBuf)>,
) -> Result<(), String> {
    let shared = Arc::clone(shared);
    let builder = std::thread::Builder::new().name("weigh-space".to_owned());
    let started =
        builder.stack_size(128 * 1024).spawn(move || shared.look_until_over(thread, &targets));
    started.map(drop).map_err(|error| format!("cannot start the thread that looks: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(free_bytes: u64, free_inodes: u64) -> Room {
        Room { total_bytes: 1000, free_bytes, inodes: Some((90, free_inodes)) }
    }

    #[test]
    fn the_least_of_all_looks_is_kept() {
        let (mut watched, now) = (Watched::default(), Instant::now());
        for (at, bytes, inodes) in [(0, 701, 13), (40, 303, 17), (50, 509, 11)] {
            watched.take(Ok(room(bytes, inodes)), now + Duration::from_millis(at));
        }
        assert_eq!((watched.least_bytes, watched.least_inodes), (Some(303), Some(11)));
        assert_eq!(watched.first.map(|(room, _)| room.free_bytes), Some(701));
        assert_eq!(watched.last.map(|(room, _)| room.free_bytes), Some(509));
        assert_eq!((watched.looks, watched.apart), (3, Duration::from_millis(40)));
        watched.take(Err("gone".to_string()), now);
        assert_eq!((watched.looks, watched.trouble()), (3, Some("gone".to_string())));
    }

    #[test]
    fn one_that_does_not_answer_says_so() {
        let watched = Watched { asked: Some(Instant::now()), ..Watched::default() };
        assert!(watched.trouble().is_some_and(|text| text.contains("not answered")));
    }

    #[test]
    fn looks_are_closer_for_a_limit() {
        let age = Duration::from_secs(60);
        assert_eq!(LookRate::Relaxed.distance(age), Duration::from_millis(250));
        assert_eq!(LookRate::Limited.distance(age), Duration::from_millis(20));
        assert_eq!(LookRate::Relaxed.distance(Duration::ZERO), Duration::from_millis(5));
    }

    /// What statvfs(2) says to the test, before and after, holds it from both sides where others write meanwhile.
    #[test]
    fn the_room_is_the_kernels() {
        let watch = SpaceWatch::start(LookRate::Relaxed).unwrap();
        watch.wait_for_first(Duration::from_secs(10));
        let root = watch.system_of(Path::new("/")).unwrap();
        let history = watch.history(root).unwrap();
        let (first, _) = history.first.unwrap();
        let wanted = Room::of(Path::new("/")).unwrap();
        assert_eq!(first.total_bytes, wanted.total_bytes);
        assert_eq!(first.inodes.map(|(all, _)| all), wanted.inodes.map(|(all, _)| all));
        assert_eq!(history.trouble, None);
        let looks = history.looks;
        watch.look_now(Duration::from_secs(10));
        assert!(watch.history(root).unwrap().looks > looks);
        let [least, _] = watch.least(&[root]);
        assert!(least.is_some_and(|(bytes, system)| bytes <= first.free_bytes && system == root));
    }

    /// One that hangs is waited for no longer than was said, and the others are known.
    #[test]
    fn nobody_waits_for_a_thread_that_hangs() {
        let mut watch = SpaceWatch::start(LookRate::Relaxed).unwrap();
        watch.wait_for_first(Duration::from_secs(10));
        watch.shared.lock().done.push(0);
        let asked = Instant::now();
        watch.look_now(Duration::from_millis(30));
        assert!(asked.elapsed() >= Duration::from_millis(30));
        assert!(asked.elapsed() < Duration::from_secs(5));
        let root = watch.system_of(Path::new("/")).unwrap();
        watch.watch(root);
        assert!(watch.remote.is_empty() && watch.history(root).unwrap().looks >= 1);
    }
}
