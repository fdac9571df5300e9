//! Follows one job in the kernel: loads the BPF programs, arms the command, reads what they keep.
//!
//! Reads the maps and the ring buffer of `bpf/job.bpf.c`; emits [`JobReading`]s and [`Event`]s.
//! Refuses to start where the programs that hold the process tree together do not load or attach,
//! and says which capability or kernel feature is missing; what is optional is given up one by
//! one, each with its reason in its statuses.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Instant;

use libbpf_rs::{Iter, Link, MapCore as _, MapFlags, RingBuffer, RingBufferBuilder};
use weigh_parse::job::whole;
use weigh_schema::event::{
    CollectorState, CollectorStatus, Event, FileKey, JobReading, MemoryParts, MemoryReading, Note,
    Population, ProcessEnd,
};
use weigh_schema::summary::Sender;
use weigh_schema::{CounterValues, Mechanism};

use crate::clock;
use crate::core_types::{self, follow_types};
use crate::cpu_waits::WaitPrograms;
use crate::features::Parts;
use crate::follow::{
    self, Attachment, CpuWaits, Enforcement, JobDetail, JobMechanism, JobReader, MechanismError,
    Members, MemoryBound, OpenCounts, PROCESSES, RunningAttachment, RunningOffer, ZombieReader,
};
pub use crate::job_error::JobError;
pub(crate) use crate::job_error::{bpf, not_joined};
use crate::join;
use crate::layout::functions::FunctionsSkel;
use crate::layout::{self, skeleton};
use crate::libbpf_log;
use crate::loading;
use crate::membership;
use crate::offers::Offers;
use crate::requirements;
use skeleton::types;

/// A job that is followed by the kernel itself.
pub struct KernelJob {
    pub(crate) skeleton: skeleton::JobSkel<'static>,
    functions: Option<FunctionsSkel<'static>>,
    pub(crate) links: Vec<Link>,
    tick: Link,
    /// Whether processes of the job have the numbers by which weigh sees them, and a tick is about no others.
    ticks_by_process: bool,
    ring: RingBuffer<'static>,
    arrived: Arrived,
    parts: Parts,
    waits: WaitPrograms,
    pub(crate) control: types::control,
    pub(crate) holds_forks: bool,
    pub(crate) checks_calls: bool,
}

/// Which limits stop or end the job. What is in the way of all calls of the machine is there for these only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Enforced {
    /// Any: then forks can be kept from beginning.
    pub any: bool,
    /// Such as are checked at the end of each system call.
    pub of_calls: bool,
}

/// To go through the threads of one process takes as long as through some dozens of the machine's.
const FEW_PROCESSES: usize = 16;

pub(crate) const SLOT: [u8; 4] = 0u32.to_ne_bytes();

type Arrived = Rc<RefCell<VecDeque<Vec<u8>>>>;

fn read_events(
    skeleton: &skeleton::JobSkel<'static>,
) -> Result<(RingBuffer<'static>, Arrived), JobError> {
    let arrived = Arrived::default();
    let sink = Rc::clone(&arrived);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&skeleton.maps.events, move |data| {
            sink.borrow_mut().push_back(data.to_vec());
            0
        })
        .map_err(bpf("ring buffer"))?;
    Ok((builder.build().map_err(bpf("ring buffer"))?, arrived))
}

/// Lets the kernel side find out where each CPU's share of a counter lies.
fn find_cpu_offsets(skeleton: &mut skeleton::JobSkel<'static>) -> Result<(), JobError> {
    let id = skeleton.maps.scratches.info().map_err(bpf("map info"))?.info.id;
    if let Some(variables) = skeleton.maps.bss_data.as_deref_mut() {
        variables.map_id_to_find = id;
    }
    let link = skeleton.progs.find_cpu_offsets.attach().map_err(bpf("map iterator"))?;
    run_iterator(&link)
}

fn run_iterator(link: &Link) -> Result<(), JobError> {
    let mut iterator = Iter::new(link).map_err(bpf("iterator"))?;
    let _ = std::io::Read::read(&mut iterator, &mut [0u8; 64]);
    Ok(())
}

/// A user without rights, for whom a job is followed: as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl KernelJob {
    /// Whether it attaches to processes that run already.
    pub const RUNNING: RunningOffer = Ok(());

    /// Loads and attaches the programs. Nothing is followed until it is armed.
    pub fn open(detail: JobDetail, enforced: Enforced) -> Result<KernelJob, JobError> {
        KernelJob::open_for(detail, enforced, None)
    }

    /// The same for a user without privileges, if one is named: no limit stops or kills a process that
    /// the user may not signal, and of programs that have gained privileges it is told what they
    /// use, not their arguments, stacks and files. Nothing is put into the way of all calls of
    /// the machine for it.
    pub fn open_for(
        detail: JobDetail,
        enforced: Enforced,
        owner: Option<Owner>,
    ) -> Result<KernelJob, JobError> {
        requirements::check().map_err(|missing| match detail.joins {
            true => missing.into_missing_to_join(),
            false => missing,
        })?;
        let may_end = enforced.any && owner.is_none();
        libbpf_log::collect();
        let kernel = core_types::of_this_kernel();
        let offers = Offers::new(&kernel);
        let mut parts = Parts::new(detail);
        let builder = skeleton::JobSkelBuilder::default();
        let (_types, mut open) =
            loading::open(builder, &skeleton::DATA, &offers).map_err(bpf("open"))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.page_bytes = rustix::param::page_size() as u32;
            constants.cpus = requirements::possible_cpus();
            follow_types!(constants, offers, [task_struct]);
            constants.can_signal_task = offers.function("bpf_send_signal_task");
            constants.has_owner = owner.is_some().into();
            constants.owner = owner.map_or(0, |owner| owner.uid);
            constants.owner_group = owner.map_or(0, |owner| owner.gid);
        }
        let needs_call = !offers.function("bpf_send_signal_task");
        open.progs.on_call.set_autoload(may_end && needs_call && offers.tracepoint("sys_enter"));
        let checks_calls = may_end && enforced.of_calls && offers.tracepoint("sys_exit");
        open.progs.on_call_end.set_autoload(checks_calls);
        open.progs.on_signal.set_autoload(offers.tracepoint("signal_generate"));
        open.progs.member__join.set_autoload(detail.joins);
        parts.choose(&mut open.progs, &offers);
        let mut waits = WaitPrograms::choose(detail.cpu_waits, &mut open, &offers);
        let mut skeleton = loading::load(open, &offers).map_err(bpf("load"))?;
        find_cpu_offsets(&mut skeleton)?;
        let mut links = Vec::new();
        let programs = &skeleton.progs;
        for (name, program) in [
            ("sched_process_fork", &programs.member__fork),
            ("sched_process_exec", &programs.member__exec),
            ("sched_process_exit", &programs.member__exit),
            ("sched_process_free", &programs.on_free),
            ("rss_stat", &programs.on_rss_stat),
        ] {
            links.push(program.attach().map_err(bpf(name))?);
        }
        let tick = programs.on_tick.attach().map_err(bpf("task iterator"))?;
        if programs.on_signal.autoload() {
            // Without it nobody is told who sent a signal, and nothing else is missing.
            links.extend(programs.on_signal.attach());
        }
        parts.attach(&skeleton.progs, &mut links);
        waits.attach(&skeleton.progs, &mut links);
        let functions = parts.open_functions(&skeleton, &offers, &mut links);
        let (ring, arrived) = read_events(&skeleton)?;
        let control = types::control::default();
        let holds_forks = false;
        Ok(KernelJob {
            skeleton,
            functions,
            links,
            tick,
            ticks_by_process: owner.is_none() && !detail.joins && !detail.cpu_waits,
            ring,
            arrived,
            parts,
            waits,
            control,
            holds_forks,
            checks_calls: false,
        })
    }

    /// Settles all threads of the job: those of its processes, if they are few, or all of the machine are looked at.
    fn settle(&self) -> Result<(), JobError> {
        let tick = |pid: &u32| join::process(&self.skeleton.progs.on_tick, *pid).is_ok();
        match self.few_processes() {
            Some(pids) if pids.iter().all(tick) => Ok(()),
            _ => run_iterator(&self.tick),
        }
    }

    /// The numbers of all processes that are kept, if they are few.
    fn few_processes(&self) -> Option<Vec<u32>> {
        let (job, processes) = (self.raw_job(), &self.skeleton.maps.processes);
        if !self.ticks_by_process || job.lost_processes > 0 || job.processes > FEW_PROCESSES as u64
        {
            return None;
        }
        let keys: Vec<Vec<u8>> = processes.keys().take(FEW_PROCESSES + 1).collect();
        let number = |key: &Vec<u8>| {
            let process = processes.lookup(key, MapFlags::ANY).ok().flatten()?;
            Some(weigh_parse::job::process(&process, job.started)?.pid)
        };
        (keys.len() <= FEW_PROCESSES).then(|| keys.iter().filter_map(number).collect())
    }

    /// The processes that are still kept: living ones, and ended ones not yet reaped.
    fn kept(&self) -> Vec<ProcessEnd> {
        let started = self.raw_job().started;
        let maps = &self.skeleton.maps;
        // Where one goes meanwhile, the kernel begins with the first again.
        let keys: BTreeSet<Vec<u8>> = maps.processes.keys().collect();
        keys.iter().filter_map(|key| self.process(key, started)).collect()
    }

    /// A process as it is now.
    fn process(&self, key: &[u8], started: u64) -> Option<ProcessEnd> {
        let maps = &self.skeleton.maps;
        let value = maps.processes.lookup(key, MapFlags::ANY).ok().flatten()?;
        let mut process = weigh_parse::job::process(&value, started)?;
        let (mm, id) = weigh_parse::job::address_space(&value)?;
        let memory = maps.memories.lookup(&mm.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let memory: Option<types::memory> = memory.and_then(|value| layout::from_bytes(&value));
        if let Some(memory) = memory.filter(|m| m.id == id && process.ended_ns.is_none()) {
            layout::set_peaks(&mut process, key, &memory);
        }
        Some(process)
    }

    pub(crate) fn raw_job(&self) -> types::job {
        self.skeleton
            .maps
            .jobs
            .lookup(&SLOT, MapFlags::ANY)
            .ok()
            .flatten()
            .and_then(|value| layout::from_bytes(&value))
            .unwrap_or_default()
    }
}

impl JobReader for KernelJob {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Bpf
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the ring buffer, which `self` owns.
        Some(unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) })
    }

    fn next_look(&self) -> Option<Instant> {
        None
    }

    fn events(&mut self) -> Vec<Event> {
        let _ = self.ring.consume();
        let started = self.raw_job().started;
        let arrived = std::mem::take(&mut *self.arrived.borrow_mut());
        arrived.iter().filter_map(|record| weigh_parse::job::event(record, started)).collect()
    }

    fn read(&mut self) -> Result<JobReading, MechanismError> {
        self.settle()?;
        Ok(self.glance())
    }

    fn glance(&self) -> JobReading {
        reading(&self.raw_job(), clock::kernel_boottime_ns())
    }

    fn statuses(&self) -> Vec<CollectorStatus> {
        let job = self.raw_job();
        let lost = job.lost_threads + job.lost_processes + job.lost_mms + job.lost_events;
        let processes = CollectorStatus {
            lost,
            ..CollectorStatus::new(PROCESSES.name, Mechanism::Bpf, CollectorState::Active, None)
        };
        let mut statuses = vec![processes];
        statuses.extend(self.parts.statuses(job.lost_files, job.lost_calls));
        statuses
    }

    fn notes(&mut self) -> Vec<Note> {
        self.parts.notes(&self.raw_job(), self.checks_calls)
    }
}

impl Attachment for KernelJob {
    fn arm(&mut self, _pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        let first = types::thread { stage: types::stage::STAGE_ARMED, ..types::thread::default() };
        membership::arm(&self.skeleton.maps.members, pidfd, layout::bytes_of(&first))?;
        // The tick takes note of what the process has used so far, which is not the job's.
        Ok(run_iterator(&self.tick)?)
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Ok(self)
    }
}

impl RunningAttachment for KernelJob {
    fn join(&mut self, pid: u32) -> Result<(), MechanismError> {
        // Twice: a thread that another one makes meanwhile may be passed over by the first.
        for _ in 0..2 {
            join::process(&self.skeleton.progs.member__join, pid)
                .map_err(|error| bpf("joining a process")(error.into()))?;
        }
        match self.raw_job().threads > 0 {
            true => Ok(()),
            false => Err(not_joined(pid).into()),
        }
    }
}

impl Members for KernelJob {
    fn living(&self) -> Vec<ProcessEnd> {
        let mut processes = self.kept();
        processes.retain(|process| process.ended_ns.is_none());
        processes
    }

    fn processes(&mut self) -> Vec<ProcessEnd> {
        self.kept()
    }

    fn unsettled(&self) -> u64 {
        self.raw_job().unsettled
    }

    fn ended_ns(&self) -> Option<u64> {
        let job = self.raw_job();
        (job.processes == 0 && job.ended != 0).then(|| job.ended.saturating_sub(job.started))
    }

    fn signal(&mut self, to: Option<u32>, signals: &[i32]) -> usize {
        follow::signal_members(|| self.living(), to, signals)
    }

    fn sender(&self, pid: u32) -> Option<(i32, Sender)> {
        let senders = &self.skeleton.maps.senders;
        let value = senders.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok()??;
        layout::sender(&layout::from_bytes(&value)?)
    }
}

impl ZombieReader for KernelJob {
    fn read_zombie(&mut self) -> Result<(), MechanismError> {
        follow::read_until_settled(self)
    }
}

impl OpenCounts for KernelJob {
    fn take_opens(&mut self, key: &FileKey) -> Option<u64> {
        let opened = &self.functions.as_ref()?.maps.opened;
        let times = opened.lookup_and_delete(&layout::file_key(key)).ok()??;
        Some(u64::from_ne_bytes(times.try_into().ok()?))
    }
}

impl JobMechanism for KernelJob {
    fn enforcement(&mut self) -> Option<&mut dyn Enforcement> {
        Some(self)
    }

    fn memory_bound(&mut self) -> Option<&mut dyn MemoryBound> {
        Some(self)
    }

    fn zombie_reader(&mut self) -> Option<&mut dyn ZombieReader> {
        Some(self)
    }

    fn open_counts(&mut self) -> Result<&mut dyn OpenCounts, String> {
        match self.parts.files.is_working() {
            true => Ok(self),
            false => Err(self.parts.files.status(0).reason.unwrap_or_default()),
        }
    }

    fn cpu_waits(&self) -> Result<CpuWaits, String> {
        self.waits.is_attached()?;
        Ok(layout::cpu_waits(&self.raw_job()))
    }

    /// Probes of functions take the kernel a grace period each to be rid of: where there are any,
    /// a child of weigh waits for that, so that nobody else has to.
    fn close(mut self: Box<Self>) {
        if self.functions.is_some() {
            crate::spawn::leave_descriptors_to_child();
        }
        self.links.clear();
    }
}

/// The job as a reading.
fn reading(job: &types::job, now: u64) -> JobReading {
    JobReading {
        at_ns: now.saturating_sub(job.started),
        counters: CounterValues(job.counters),
        population: Population {
            processes: job.processes,
            processes_peak: job.processes_peak,
            processes_total: job.processes_total,
            threads: job.threads,
            threads_peak: job.threads_peak,
        },
        memory: MemoryReading {
            spaces: whole(job.spaces),
            rss_sum: whole(job.rss),
            rss_sum_peak: whole(job.rss_peak),
            rss_sum_peak_at_ns: job.rss_peak_at.saturating_sub(job.started),
            spaces_at_peak: whole(job.spaces_at_peak),
            parts_at_peak: Some(parts(job)),
            floor: whole(job.floor + job.common),
            floor_peak: whole(job.floor_peak),
            likely_peak: whole(job.held_peak),
            process_peak: whole(job.process_peak),
            swap: whole(job.swap),
            swap_peak: whole(job.swap_peak),
            virtual_size: whole(job.virtual_size),
            virtual_peak: whole(job.virtual_peak),
            hugetlb_peak: whole(job.hugetlb_peak),
            certain: None,
        },
    }
}

/// Of what the greatest sum was made. The sums of several CPUs are read one after the other: what is left is files'.
fn parts(job: &types::job) -> MemoryParts {
    let (anonymous, shared) = (whole(job.anonymous_at_peak), whole(job.shared_at_peak));
    let file = whole(job.rss_peak).saturating_sub(anonymous + shared);
    MemoryParts { anonymous, unshared: whole(job.unshared_at_peak).min(anonymous), shared, file }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::WaitOptions;
    use weigh_schema::Counter;

    use super::*;
    use crate::spawn::{SignalMask, spawn};

    #[test]
    fn what_a_command_has_used_is_final_before_it_is_reaped() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut job = KernelJob::open(JobDetail::default(), Enforced::default()).expect("it opens");
        let mask = SignalMask::block(&[]).expect("a mask");
        let words = ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; true"];
        let waiting = spawn(&words.map(Into::into), &mask).expect("it is made");
        let number = waiting.pid.as_raw_nonzero().get().cast_unsigned();
        job.arm(number, waiting.pidfd()).expect("it is armed");
        let (pid, pidfd) = waiting.go().expect("it begins");
        let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
        while poll(&mut ended, None) != Ok(1) {}
        // Nobody has waited for it, so that the kernel does not free it: a look does.
        let until = Instant::now() + Duration::from_secs(30);
        while job.unsettled() > 0 && Instant::now() < until {
            job.read_zombie().expect("a look");
        }
        assert_eq!(job.unsettled(), 0);
        let is_its_end =
            |event: &Event| matches!(event, Event::ProcessEnd(end) if end.pid == number);
        assert_eq!(job.events().iter().filter(|event| is_its_end(event)).count(), 1);
        let before = job.glance();
        assert!(before.counters.get(Counter::Runtime) > 0);
        rustix::process::waitpid(Some(pid), WaitOptions::empty()).expect("it is reaped");
        // By then the kernel has freed it, and may have taken down more.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(job.glance().counters, before.counters);
        assert_eq!(job.unsettled(), 0);
        assert!(!job.events().iter().any(is_its_end));
    }
}
