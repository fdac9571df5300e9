//! Regions that the job's programs name: their profiles are taken at a socket, and read from memory that they share.
//!
//! Listens at an abstract address that `WEIGH_REGIONS` tells the job; reads at each tick the profiles that were published
//! since, and each one when its process has ended, or at the end; now and then also as it is. Emits rows of regions and
//! phases, and series of counters.
//! Hands requests of `weigh control` on to programs. Refuses a peer that does not have the number of the variable, and another user's process. Nothing that a peer does or leaves
//! undone holds anything up.

mod budget;
mod control;
mod hello;
mod listener;
mod otlp;
mod so_far;
mod woken;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weigh_account::regions::{
    ProfileContext, RegionTotals, TickScale, counter_series, phase_rows, process_rows,
};
use weigh_collect::clock::monotonic_ns;
use weigh_collect::host::image_of;
use weigh_collect::profile::{SharedProfile, clock_pair};
use weigh_schema::availability::CollectorInfo;
use weigh_schema::profile::ProfileClock;
use weigh_schema::region::snapshot::{ClockPair, ProfileSnapshot};
use weigh_schema::region::{RegionRow, RegionsFound};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};
use weigh_schema::update::Update;
use weigh_wire::Peer;

use super::recorder::Recorder;
use budget::RowBudget;
use control::{ControlServer, JobIdentity};
use hello::{Received, WaitingPeer};
use listener::Listener;
use otlp::OtlpServer;
use so_far::{Look, RegionsSoFar};
use woken::woken;

/// What it is for.
pub(super) const INFO: CollectorInfo = CollectorInfo::new(
    "regions",
    "what programs call their parts, by libweigh, by annotations of others (`--regions`) and by spans of OpenTelemetry",
    None,
)
.asks(SourceTraits {
    mode: SourceMode::Notification,
    rights: "none",
    scope: "processes that name regions",
    intrusiveness: Intrusiveness::Medium,
    cost: "two reads of the clock and about 11 ns for a region's begin and end, in memory that weigh reads",
});

/// So many processes share profiles at one time.
const PROCESSES: usize = 256;
/// So many peers may be connected that have said nothing.
const SILENT: usize = 64;
/// For so long.
const SILENCE: Duration = Duration::from_secs(2);
/// So many connections are taken in one turn of the loop.
const ACCEPTS: usize = 64;
/// At the end so many turns are made at most: as many connections as may wait.
const LAST_TURNS: usize = 4 * listener::BACKLOG as usize / ACCEPTS;
/// When weigh has no descriptors left, the next try is made after so long.
const PAUSE: Duration = Duration::from_secs(1);
/// So many series of counters are kept of each process.
const SERIES: usize = 256;

/// What woke: the socket, a peer that said nothing yet, or the end of a process.
const SOCKET: u64 = 0;
/// The socket for `weigh control`.
const CONTROL: u64 = 1;
/// The one for spans.
const SPANS: u64 = 2;

/// A process that shares its profile.
struct RegionProcess {
    pid: u32,
    /// Readable when it has ended; none if it is not known when.
    _end: Option<OwnedFd>,
    /// Where its program was put, to know when it executes another.
    image: Option<[u64; 2]>,
    profile: SharedProfile,
}

impl RegionProcess {
    /// Whether it has another program now. Of a process that has ended nobody knows.
    fn has_executed(&self) -> bool {
        let now = image_of(self.pid);
        self.image.is_some() && now.is_some() && now != self.image
    }
}

/// Takes the profiles of a job.
pub(super) struct Regions {
    epoll: OwnedFd,
    listener: Listener,
    /// The socket is not listened to until then.
    paused_until: Option<Instant>,
    /// Where requests for programs come in; none where there is no socket to be had.
    control: Option<ControlServer>,
    /// Where spans of OpenTelemetry come in; none where they are not heard.
    otlp: Option<OtlpServer>,
    silent: BTreeMap<u64, WaitingPeer>,
    processes: BTreeMap<u64, RegionProcess>,
    /// Processes whose last profile an exec has ended.
    executed: BTreeSet<u32>,
    /// When processes that share a profile last executed a program: nanoseconds since the Unix epoch.
    execs: BTreeMap<u32, i64>,
    /// Processes that have ended without their program's end: an exec of theirs may still be told.
    cut_short: Vec<RegionProcess>,
    next_key: u64,
    /// When this was made, by each clock.
    begun: [(ProfileClock, ClockPair); 2],
    totals: RegionTotals,
    budget: RowBudget,
    so_far: RegionsSoFar,
}

impl Regions {
    /// Listens, for a job.
    pub fn prepare(id: &str, directory: &Path) -> std::io::Result<Regions> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let listener = Listener::new()?;
        epoll::add(&epoll, listener.socket(), EventData::new_u64(SOCKET), EventFlags::IN)?;
        let control = ControlServer::new(JobIdentity::new(id, directory)).ok();
        if let Some(control) = &control {
            epoll::add(&epoll, control.wake_fd(), EventData::new_u64(CONTROL), EventFlags::IN)?;
        }
        Ok(Regions {
            epoll,
            control,
            otlp: None,
            listener,
            paused_until: None,
            silent: BTreeMap::new(),
            processes: BTreeMap::new(),
            executed: BTreeSet::new(),
            execs: BTreeMap::new(),
            cut_short: Vec::new(),
            next_key: SPANS,
            begun: [ProfileClock::Monotonic, ProfileClock::Counter]
                .map(|clock| (clock, clock_pair(clock))),
            totals: RegionTotals::default(),
            budget: RowBudget::default(),
            so_far: RegionsSoFar::new(),
        })
    }

    /// What the job's programs find it by.
    pub fn variable(&self) -> (OsString, OsString) {
        self.listener.variable()
    }

    /// Listens for spans of OpenTelemetry from now on: the variables by which programs know.
    pub fn listen_for_spans(&mut self) -> std::io::Result<[(OsString, OsString); 3]> {
        let otlp = OtlpServer::new()?;
        let variables = otlp.variables()?;
        epoll::add(&self.epoll, otlp.wake_fd(), EventData::new_u64(SPANS), EventFlags::IN)?;
        self.otlp = Some(otlp);
        Ok(variables)
    }

    /// Readable when there is something to attend to.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// When it has to be attended to in any case.
    pub fn next(&self) -> Option<Instant> {
        let silent = self.silent.values().map(|peer| peer.since + SILENCE);
        let cut_short = (!self.cut_short.is_empty()).then(Instant::now);
        silent.chain(self.paused_until).chain(cut_short).min()
    }

    /// Takes in who has connected, what they say, and who has ended. Whether there was something. `members` are the
    /// processes of the job.
    pub fn attend(&mut self, recorder: &mut Recorder<'_>, members: &dyn Fn() -> Vec<u32>) -> bool {
        self.resume();
        self.conclude_cut_short(recorder);
        let woken = woken(&self.epoll, ACCEPTS);
        for key in woken.iter().copied() {
            if key == SOCKET {
                self.accept(recorder);
            } else if self.silent.contains_key(&key) {
                self.hear(key, recorder);
            } else if let Some(process) = self.processes.remove(&key) {
                self.end(process, recorder);
            }
        }
        // After programs that have just connected.
        if woken.contains(&CONTROL) {
            self.attend_control();
        }
        if let Some(otlp) = self.otlp.as_mut().filter(|_| woken.contains(&SPANS)) {
            otlp.attend(members);
        }
        self.silent.retain(|_, peer| peer.since.elapsed() < SILENCE);
        !woken.is_empty()
    }

    fn attend_control(&mut self) {
        let processes = self.processes.values_mut().map(|p| (p.pid, &mut p.profile)).collect();
        if let Some(control) = &mut self.control {
            control.attend(processes);
        }
    }

    fn resume(&mut self) {
        if self.paused_until.is_some_and(|until| Instant::now() >= until) {
            self.paused_until = None;
            let socket = self.listener.socket();
            let _ = epoll::add(&self.epoll, socket, EventData::new_u64(SOCKET), EventFlags::IN);
        }
    }

    fn accept(&mut self, recorder: &mut Recorder<'_>) {
        for _ in 0..ACCEPTS {
            match self.listener.accept() {
                Ok(peer) => self.take_in(peer, recorder),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // Without descriptors it would wake again and again.
                    let _ = epoll::delete(&self.epoll, self.listener.socket());
                    self.paused_until = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    /// What it says is there already, mostly.
    fn take_in(&mut self, peer: WaitingPeer, recorder: &mut Recorder<'_>) {
        if self.silent.len() >= SILENT {
            self.silent.pop_first();
        }
        let key = self.new_key();
        let data = EventData::new_u64(key);
        if epoll::add(&self.epoll, peer.connection(), data, EventFlags::IN).is_ok() {
            self.silent.insert(key, peer);
            self.hear(key, recorder);
        }
    }

    fn new_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn hear(&mut self, key: u64, recorder: &mut Recorder<'_>) {
        let Some(waiting) = self.silent.get(&key) else { return };
        let received = match waiting.receive(self.listener.token()) {
            Received::Nothing => return,
            Received::Profile(file, peer) => {
                SharedProfile::map(file).map(|profile| (profile, peer)).map_err(|e| e.to_string())
            }
            Received::Refused(why) => Err(why.to_string()),
        };
        self.silent.remove(&key);
        match received {
            Ok((profile, peer)) => self.begin(profile, peer, recorder),
            Err(why) => self.totals.refused(&why),
        }
    }

    /// A process shares its profile from now on. After exec it shares another one, and the one before is complete.
    fn begin(&mut self, profile: SharedProfile, peer: Peer, recorder: &mut Recorder<'_>) {
        let before = self.processes.iter().find(|(_, p)| p.pid == peer.pid && peer.pid != 0);
        if let Some(process) = before.map(|(key, _)| *key).and_then(|k| self.processes.remove(&k)) {
            // Two copies of the library in one program share one each.
            match process.profile.is_mapped_by(process.pid) {
                Some(true) => self.conclude(process, recorder),
                _ => self.conclude_executed(process, recorder),
            }
        }
        if self.processes.len() >= PROCESSES {
            return self.totals.refused("too many processes at one time");
        }
        let pid = if peer.pid == 0 { profile.pid() } else { peer.pid };
        let end = i32::try_from(peer.pid).ok().and_then(Pid::from_raw);
        let end = end.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let has_ended = matches!(end, Some(Err(Errno::SRCH)));
        let key = self.new_key();
        let end = end.and_then(Result::ok);
        if let Some(end) = &end {
            let _ = epoll::add(&self.epoll, end, EventData::new_u64(key), EventFlags::IN);
        }
        self.executed.remove(&pid);
        let process = RegionProcess { pid, _end: end, image: image_of(pid), profile };
        // It may have executed a program before it was heard.
        match has_ended {
            true => self.end(process, recorder),
            false if process.profile.is_mapped_by(pid) == Some(false) => {
                self.conclude_executed(process, recorder);
            }
            false => drop(self.processes.insert(key, process)),
        }
    }

    /// Reads, at a tick, what was published since the last one; and how regions stand, where that is due.
    pub fn record(&mut self, recorder: &mut Recorder<'_>) {
        self.conclude_all_executed(recorder);
        let mut processes = std::mem::take(&mut self.processes);
        let mut so_far = std::mem::replace(&mut self.so_far, RegionsSoFar::new());
        let mut look = so_far.is_due(recorder.sink.is_watched()).then(|| so_far.begin());
        for process in processes.values_mut() {
            if let Some(snapshot) = process.profile.read_published() {
                self.totals.publishes_read(1);
                self.tell_counters(process.pid, &snapshot, recorder);
            }
            self.record_news(process, look.as_mut(), recorder);
        }
        drop(look);
        (self.processes, self.so_far) = (processes, so_far);
    }

    /// Phases and events of one process since the last tick, and its regions as they are where there is a look at them.
    fn record_news(
        &mut self,
        process: &mut RegionProcess,
        look: Option<&mut Look<'_>>,
        recorder: &mut Recorder<'_>,
    ) {
        let snapshot = match look.is_some() {
            true => Some(process.profile.read_now()),
            false => process.profile.read_rings(),
        };
        let Some(snapshot) = snapshot else { return };
        self.totals.lost_at_read(&snapshot.lost);
        let Some(context) = self.context(process.pid, &snapshot) else { return };
        self.tell_rings(&snapshot, &context, recorder);
        let Some(look) = look else { return };
        let rows = process_rows(&snapshot, &context).rows;
        for row in rows.into_iter().filter(|row| look.takes(row)) {
            recorder.sink.emit(&Update::RegionSoFar(Box::new(row)));
        }
    }

    fn context(&self, process: u32, snapshot: &ProfileSnapshot) -> Option<ProfileContext> {
        let now = clock_pair(snapshot.clock);
        let (_, begun) = self.begun.iter().find(|(clock, _)| *clock == snapshot.clock)?;
        let scale = TickScale::between(snapshot.clock, *begun, now)?;
        let until = if snapshot.has_ended { snapshot.last.ticks } else { now.ticks };
        Some(ProfileContext { process, scale, until })
    }

    /// The profiles of processes that have executed a program since, which shares none.
    fn conclude_all_executed(&mut self, recorder: &mut Recorder<'_>) {
        let executed = self.processes.iter().filter(|(_, process)| process.has_executed());
        for key in executed.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(process) = self.processes.remove(&key) {
                self.conclude_executed(process, recorder);
            }
        }
    }

    /// A process executes a program: the mechanism tells. It may have ended since.
    pub fn executes(&mut self, pid: u32, at_ns: i64) {
        let mut known = self.processes.values().chain(&self.cut_short);
        if known.any(|process| process.pid == pid) {
            self.execs.insert(pid, at_ns);
        }
    }

    /// A process has ended.
    fn end(&mut self, process: RegionProcess, recorder: &mut Recorder<'_>) {
        match process.profile.has_ended() {
            true => self.conclude(process, recorder),
            false => self.cut_short.push(process),
        }
    }

    /// Those whose execs have been told since they ended.
    fn conclude_cut_short(&mut self, recorder: &mut Recorder<'_>) {
        for process in std::mem::take(&mut self.cut_short) {
            let epoch_ns = recorder.now().saturating_sub_unsigned(monotonic_ns());
            let begun_ns = epoch_ns.saturating_add_unsigned(process.profile.first().ns);
            match self.execs.remove(&process.pid).is_some_and(|at_ns| at_ns > begun_ns) {
                true => self.conclude_executed(process, recorder),
                false => self.conclude(process, recorder),
            }
        }
    }

    /// A profile as it is in the end.
    fn conclude(&mut self, process: RegionProcess, recorder: &mut Recorder<'_>) {
        self.conclude_by(process, recorder, RegionTotals::process);
    }

    /// A profile that an exec has ended.
    fn conclude_executed(&mut self, process: RegionProcess, recorder: &mut Recorder<'_>) {
        self.executed.insert(process.pid);
        self.conclude_by(process, recorder, RegionTotals::executed);
    }

    fn conclude_by(
        &mut self,
        mut process: RegionProcess,
        recorder: &mut Recorder<'_>,
        count: fn(&mut RegionTotals, &ProfileSnapshot),
    ) {
        let snapshot = process.profile.read_end();
        let Some(context) = self.context(process.pid, &snapshot) else { return };
        count(&mut self.totals, &snapshot);
        self.tell_counters(process.pid, &snapshot, recorder);
        self.tell_rings(&snapshot, &context, recorder);
        let made = process_rows(&snapshot, &context);
        self.totals.lose("rows", made.left_out);
        for row in made.rows {
            self.tell_row(row, recorder);
        }
    }

    fn conclude_spans(&mut self, otlp: OtlpServer, recorder: &mut Recorder<'_>) {
        let (made, refused) = otlp.finish();
        self.totals.spans(made.processes, made.threads);
        self.totals.lose("places", made.lost_places);
        self.totals.lose("names", made.lost_names);
        self.totals.lose("rows", made.left_out);
        for (why, count) in refused {
            (0..count).for_each(|_| self.totals.refused(why));
        }
        for row in made.rows {
            self.tell_row(row, recorder);
        }
    }

    fn tell_row(&mut self, row: RegionRow, recorder: &mut Recorder<'_>) {
        self.totals.row(&row);
        if self.budget.takes_row() {
            recorder.sink.emit(&Update::Region(Box::new(row)));
        }
    }

    /// A sample of each counter and gauge.
    fn tell_counters(&mut self, pid: u32, snapshot: &ProfileSnapshot, recorder: &mut Recorder<'_>) {
        let series = counter_series(snapshot, SERIES);
        if self.budget.takes_samples(series.len() as u64) {
            recorder.process_samples(pid, None, series);
        }
    }

    /// Phases that have ended and events since the last read.
    fn tell_rings(
        &mut self,
        snapshot: &ProfileSnapshot,
        context: &ProfileContext,
        recorder: &mut Recorder<'_>,
    ) {
        let epoch_ns = recorder.now().saturating_sub_unsigned(monotonic_ns());
        for row in phase_rows(snapshot, context, epoch_ns) {
            if self.budget.takes_phase() {
                recorder.sink.emit(&Update::Phase(Box::new(row)));
            }
        }
        for event in snapshot.events.iter().filter(|event| event.value.is_finite()) {
            if self.budget.takes_samples(1) {
                let name = snapshot.names.get(event.name).map_or("", String::as_str);
                let name = format!("region:{}", weigh_schema::byte_text::shown(name));
                let at = epoch_ns.saturating_add(context.scale.monotonic_ns(event.at));
                recorder.process_samples(context.process, Some(at), [(name, event.value)].into());
            }
        }
    }

    /// The job is over: what all of its profiles hold. None where no program used them.
    pub fn finish(mut self, recorder: &mut Recorder<'_>) -> Option<RegionsFound> {
        // Who connected last may have ended since.
        let _ = (0..LAST_TURNS).any(|_| !self.attend(recorder, &Vec::new));
        self.conclude_cut_short(recorder);
        while let Some((_, process)) = self.processes.pop_first() {
            self.conclude(process, recorder);
        }
        self.totals.without_another(self.executed.len() as u64);
        if let Some(otlp) = self.otlp.take() {
            self.conclude_spans(otlp, recorder);
        }
        for (what, count) in self.budget.left_out() {
            self.totals.lose(what, count);
        }
        (!self.totals.is_empty()).then(|| self.totals.finish())
    }
}
