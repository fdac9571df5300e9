//! The calls of a job, followed by the kernel itself.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel as _, Skel as _};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};
use weigh_schema::call::{
    Call, CallCost, Cell, CounterState, FunctionProbes, Grouping, LateCost, Named, ProbeCost,
    Tally, TimeHistogram,
};
use weigh_schema::custom_subsystem::CustomParts;
use weigh_schema::subsystem::{ON_REQUEST_BY_PART, PartCounts};

use super::change::Changing;
use super::counting::{Counting, CpuEvents};
use super::functions::{self, Functions, OnRequest};
use super::layout::{self, skeleton};
use super::link::Link;
use super::links::{Links, Plan};
use super::names;
use super::overhead;
use super::packet_demand::Standby;
use super::page_registration::Placing;
use super::program_names;
use super::request::{Attached, CallsRequest, Telling};
use super::selection::Chosen;
use crate::core_types::{self, follow_types};
use crate::job::{JobError, bpf};
use crate::loading::Large;
use crate::offers::Offers;
use crate::requirements::Missing;
use crate::table::{READING, entries};
use crate::{libbpf_log, loading, map_sizing, membership, requirements};

/// What tells, since 6.16, when a call hands bytes to TCP.
const SENDING: &str = "tcp_sendmsg_locked";

/// The calls of a job, followed by the kernel itself.
pub struct KernelCalls {
    /// Before the programs that it attaches: fields go in this order.
    pub(super) changing: Changing,
    pub(super) skeleton: skeleton::CallsSkel<'static>,
    /// The parts that are attached, as bits; and those that were before the change that is under way.
    pub(super) attached_now: u64,
    pub(super) attached_before: u64,
    /// What was attached last, if all of it was.
    pub(super) settled: Option<Plan>,
    /// What came of a change that somebody has begun.
    pub(super) ended: Option<Result<(), JobError>>,
    pub(super) standby: Standby,
    pub(super) counting: Counting,
    /// Of functions, for as long as anything is attached.
    pub(super) functions: Vec<Link>,
    pub(super) function_probes: Option<FunctionProbes>,
    /// Whether there are some that come and go with those who ask, and how long that takes at most.
    pub(super) has_functions_on_request: bool,
    functions_take: Duration,
    functions_cost: Option<ProbeCost>,
    /// The parts whose borders they are, by the numbers of their recipes.
    of_borders: Vec<Option<String>>,
    /// The parts that stay attached, whatever clients ask for.
    pub(super) held: u64,
    ring: RingBuffer<'static>,
    pub(super) told: Rc<RefCell<Vec<Call>>>,
    pub(super) later: Rc<RefCell<Vec<LateCost>>>,
    names: Rc<RefCell<Vec<Named>>>,
    pub(super) attached: Vec<Attached>,
    pub(super) own: Option<CustomParts>,
    tells_all: bool,
    pub(super) cost: Option<CallCost>,
    pub(super) last_serial: u32,
    /// When a process that ran already was taken in.
    pub(super) joined_ns: Option<u64>,
    pub(super) placing: Placing,
}

impl KernelCalls {
    /// Loads what is wanted, and attaches it.
    pub fn open(wanted: &CallsRequest) -> Result<KernelCalls, JobError> {
        KernelCalls::open_with(wanted, Telling::PLAIN, &Functions::default())
    }

    /// The same, where it matters how single calls are told, and with probes of functions where this
    /// kernel has them.
    pub fn open_with(
        wanted: &CallsRequest,
        telling: Telling,
        functions: &Functions,
    ) -> Result<KernelCalls, JobError> {
        let chosen = Chosen::of(wanted, telling, functions);
        KernelCalls::load_chosen(chosen, wanted, telling, functions)?.attach_all(functions)
    }

    pub(super) fn attach_all(mut self, functions: &Functions) -> Result<KernelCalls, JobError> {
        let until_attached = self.find_packet_counts();
        // While nothing else is attached.
        let tried = match functions.is_empty() {
            true => Err(String::new()),
            false => functions.try_out(&mut self.skeleton),
        };
        let trial = self.follows_calls().then(overhead::Trial::begin);
        self.hold(u64::MAX);
        self.attach_only(0)?;
        drop(until_attached);
        let own = functions.attach_all(&self.skeleton, tried, &mut self.functions)?;
        self.attached = joined(std::mem::take(&mut self.attached), own.parts);
        self.function_probes = own.functions;
        self.took_functions();
        if self.tells_all {
            self.tell_from(0);
        }
        self.cost = trial.and_then(|trial| trial.cost(&self.skeleton));
        self.tell_from(u64::MAX);
        Ok(self)
    }

    /// Loads what is wanted, and attaches nothing yet.
    pub fn load(
        wanted: &CallsRequest,
        telling: Telling,
        functions: &Functions,
    ) -> Result<KernelCalls, JobError> {
        let chosen = Chosen::of(wanted, telling, functions);
        let calls = KernelCalls::load_chosen(chosen, wanted, telling, functions)?;
        drop(calls.find_packet_counts());
        Ok(calls)
    }

    /// The same; the functions come and go with those who want their parts, too. What this kernel does not
    /// allow of them is known then.
    pub fn load_on_request(
        wanted: &CallsRequest,
        telling: Telling,
        functions: &Functions,
    ) -> Result<KernelCalls, JobError> {
        let mut calls = KernelCalls::load(wanted, telling, functions)?;
        if !functions.is_empty() {
            let (parts, on_request) = OnRequest::try_out(functions, &mut calls.skeleton)?;
            calls.attached = joined(std::mem::take(&mut calls.attached), parts);
            calls.has_functions_on_request = on_request.is_some();
            calls.functions_take = on_request.as_ref().map(OnRequest::takes).unwrap_or_default();
            calls.functions_cost = on_request.as_ref().and_then(OnRequest::cost);
            if let Some(links) = calls.changing.links() {
                links.on_request = on_request;
            }
        }
        Ok(calls)
    }

    pub(super) fn load_chosen(
        mut chosen: Chosen,
        wanted: &CallsRequest,
        telling: Telling,
        functions: &Functions,
    ) -> Result<KernelCalls, JobError> {
        requirements::check().map_err(Missing::into_missing_for_calls)?;
        libbpf_log::collect();
        let counting = Counting::try_out(&wanted.counters);
        let kernel = core_types::of_this_kernel();
        let offers = Offers::new(&kernel);
        let builder = skeleton::CallsSkelBuilder::default();
        let (_types, mut open) =
            loading::open(builder, &skeleton::DATA, &offers).map_err(bpf("open"))?;
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            let load = chosen.decide(&name, &section, &offers);
            program.set_autoload(load);
        }
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            follow_types!(
                constants,
                offers,
                [
                    task_struct,
                    inode,
                    address_space,
                    folio,
                    tcphdr,
                    tcp_sock,
                    tcp_skb_cb,
                    softnet_data
                ]
            );
            let by_part = if wanted.by_part { ON_REQUEST_BY_PART } else { 0 };
            constants.chosen = chosen.bits() | functions.bits() | counting.available() | by_part;
            constants.tells_by_part = wanted.by_part;
            // Those of a whole interval are read by the program that has opened it.
            let counts = wanted.every_call || wanted.by_part;
            constants.counts = if counts { counting.available() } else { 0 };
            constants.at_borders = if chosen.functions { functions.at_borders() } else { 0 };
            constants.follows_calls = u32::from(wanted.every_call);
            constants.grouping = layout::grouping(wanted.grouping);
            constants.sharing = layout::sharing(wanted.sharing);
            let none = BTreeMap::new();
            let own_parts = if chosen.functions { functions.own_parts() } else { &none };
            names::fill(&mut constants.kinds, own_parts);
            constants.tells_of_sending = offers.tracepoint(SENDING);
            constants.f2fs_tells = chosen.has(program_names::F2FS);
            constants.xfs_tells = chosen.has(program_names::XFS);
            constants.told_mark = u64::from(telling.room) / 8;
            constants.names_rivals = telling.rivals;
            constants.tells_later = telling.later;
        }
        if wanted.grouping == Grouping::Call {
            open.maps.cells.set_max_entries(KINDS_OF_CALLS).map_err(bpf("table"))?;
        }
        if wanted.by_part && wanted.every_call {
            let cells = open.maps.cells.max_entries();
            open.maps.cell_parts.set_max_entries(cells).map_err(bpf("table of parts"))?;
        }
        open.maps.told_calls.set_max_entries(telling.room).map_err(bpf("ring buffer"))?;
        // What is made beforehand takes memory where nobody looks, too.
        let entries =
            if chosen.follows("pagecache") { map_sizing::fit(&open.maps.chunks) } else { 1 };
        let dirty = Large { name: "chunks", entries };
        if !chosen.follows("tcp") {
            open.maps.senders.set_max_entries(1).map_err(bpf("table of senders"))?;
        }
        let mut skeleton = loading::load_with(open, &offers, Some(&dirty)).map_err(bpf("load"))?;
        let changing = CpuEvents::of(&counting, skeleton.object())
            .and_then(|cpus| Changing::new(Links::of(skeleton.object_mut(), cpus)))
            .map_err(|error| bpf("links")(error.into()))?;
        let (told, later, names) = (Rc::default(), Rc::default(), Rc::default());
        let ring = read_rings(&skeleton, &told, &later, &names)?;
        let placing = Placing::new(
            MapHandle::try_from(&skeleton.maps.clients).map_err(bpf("table of programs"))?,
        );
        let standby = Standby::new(&skeleton)?;
        Ok(KernelCalls {
            skeleton,
            changing,
            attached_now: 0,
            attached_before: 0,
            settled: None,
            ended: None,
            standby,
            counting,
            functions: Vec::new(),
            function_probes: None,
            has_functions_on_request: false,
            functions_take: Duration::ZERO,
            functions_cost: None,
            of_borders: functions.of_borders(),
            held: 0,
            ring,
            told,
            later,
            names,
            attached: chosen.attached(),
            own: functions.own().cloned(),
            tells_all: telling.later,
            cost: None,
            last_serial: 0,
            joined_ns: None,
            placing,
        })
    }

    /// What is attached for each part of the kernel that was asked for.
    pub fn attached(&self) -> &[Attached] {
        &self.attached
    }

    /// The parts that a configuration defines, if one does.
    pub fn own(&self) -> Option<&CustomParts> {
        self.own.as_ref()
    }

    /// How long a program waits at most for the functions of a part that it wants.
    pub fn functions_take(&self) -> Duration {
        self.functions_take
    }

    /// What a probe of a function costs, of those that come and go, if it could be tried out.
    pub fn functions_cost(&self) -> Option<ProbeCost> {
        self.functions_cost
    }

    /// The counters of the CPU that were asked for, and why there are none.
    pub fn counters(&self) -> &[CounterState] {
        self.counting.states()
    }

    /// What each call costs beyond what it does, where it could be tried out.
    pub fn cost(&self) -> Option<CallCost> {
        self.cost
    }

    /// How functions at borders are probed, if they are.
    pub fn functions(&self) -> Option<&FunctionProbes> {
        self.function_probes.as_ref()
    }

    /// Reads how often functions at borders were entered by those who are followed.
    pub fn count_hits(&mut self) {
        let mut hits: HashMap<&str, u64> = HashMap::new();
        for (number, part) in (0u32..).zip(&self.of_borders) {
            let Some(part) = part else { continue };
            let recipe = self.skeleton.maps.recipes.lookup(&number.to_ne_bytes(), MapFlags::ANY);
            let entered = recipe.ok().flatten().map_or(0, |recipe| functions::hits(&recipe));
            *hits.entry(part).or_default() += entered;
        }
        for part in &mut self.attached {
            if let Some(functions) = &mut part.functions {
                functions.hits_total = hits.get(part.subsystem.as_str()).copied().unwrap_or(0);
            }
        }
    }

    /// The calls of this process, which waits for its exec, are followed from then on.
    pub fn arm(&mut self, pidfd: BorrowedFd<'_>) -> Result<(), JobError> {
        membership::arm(&self.skeleton.maps.members, pidfd, &layout::armed())
    }

    /// The calls of all threads of a process that runs are followed from now on, and of those that
    /// it makes.
    pub fn join(&mut self, pid: u32) -> Result<(), JobError> {
        self.joined_ns = Some(crate::clock::kernel_monotonic_ns());
        let program = &self.skeleton.progs.member__join;
        membership::take_in(program, pid, || self.tally().threads)
    }

    /// Whether a process is one whose calls are followed.
    pub fn is_member(&self, pid: u32) -> bool {
        let window = membership::entry_of(&self.skeleton.maps.members, pid);
        window.is_some_and(|window| layout::is_member(&window))
    }

    /// Calls that take at least so long are told one by one.
    pub fn tell_from(&mut self, nanoseconds: u64) {
        if let Some(variables) = self.skeleton.maps.data_data.as_deref_mut() {
            variables.told_from_ns = nanoseconds;
        }
    }

    /// The calls that were told since the last time, but no more than a batch of them; their names
    /// were told before.
    pub fn told(&mut self) -> Vec<Call> {
        self.take_in();
        let mut told = std::mem::take(&mut *self.told.borrow_mut());
        if let Some(own) = &self.own {
            for call in &mut told {
                call.account = std::mem::take(&mut call.account).with_own(own);
            }
        }
        told
    }

    /// The names of files and sockets that were told since the last time.
    pub fn names(&mut self) -> Vec<Named> {
        self.take_in();
        std::mem::take(&mut *self.names.borrow_mut())
    }

    /// What came later of calls, of what was taken in together with them, where every call is told: after the
    /// calls, or before them, while they lasted.
    pub fn later(&mut self) -> Vec<LateCost> {
        std::mem::take(&mut *self.later.borrow_mut())
    }

    fn take_in(&mut self) {
        let waiting = self.told.borrow().len().max(self.later.borrow().len());
        let room = BATCH.saturating_sub(waiting);
        if room > 0 {
            // It fails where a callback does, and these do not.
            let _ = self.ring.consume_raw_n(room);
        }
    }

    /// Is readable when many calls wait to be taken in.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.told_calls.as_fd()
    }

    /// Programs that no library spoke for, and how often each was executed; none are counted where
    /// every call is followed.
    pub fn unheard(&self) -> Result<BTreeMap<String, u64>, JobError> {
        let unheard = entries(&self.skeleton.maps.unheard).map_err(bpf(READING))?;
        let of = |(key, count): (Vec<u8>, Vec<u8>)| {
            let end = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
            let name = String::from_utf8_lossy(&key[..end]).into_owned();
            Some((name, count.try_into().map(u64::from_ne_bytes).ok()?))
        };
        Ok(unheard.into_iter().filter_map(of).collect())
    }

    /// How much was seen, and lost.
    pub fn tally(&self) -> Tally {
        let variables = self.skeleton.maps.bss_data.as_deref();
        variables.map(|variables| layout::tally(&variables.tally)).unwrap_or_default()
    }

    /// Returns of functions that the kernel missed: the time after them went to where they are.
    pub fn missed_returns(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |variables| variables.missed_returns)
    }

    /// Times that threads came back to a CPU unseen: a little of what followed is in the wait.
    pub fn missed_arrivals(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |variables| variables.missed_arrivals)
    }

    /// Numbers of each part, if calls have them.
    fn parts_of_cell(&self, number: u32) -> Option<PartCounts> {
        if !self.tells_by_part() || !self.follows_calls() {
            return None;
        }
        let map = &self.skeleton.maps.cell_parts;
        PartCounts::from_bytes(&map.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??)
    }

    /// The table as it stands.
    pub fn cells(&self) -> Result<Vec<Cell>, JobError> {
        let maps = &self.skeleton.maps;
        let mut times: HashMap<u32, TimeHistogram> = HashMap::new();
        for (key, count) in entries(&maps.buckets).map_err(bpf(READING))? {
            let Some((cell, bucket)) = layout::bucket_key(&key) else { continue };
            let count = count.try_into().map(u64::from_ne_bytes).unwrap_or_default();
            times.entry(cell).or_default().add_to(bucket, count);
        }
        let cells = (0..layout::cells_taken(self.tally()))
            .filter_map(|number| {
                let value = maps.cells.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??;
                let cell = layout::cell(&value, times.remove(&number).unwrap_or_default())?;
                Some(Cell { by_part: self.parts_of_cell(number), ..cell })
            })
            .map(|cell| match &self.own {
                Some(own) => Cell { account: cell.account.with_own(own), ..cell },
                None => cell,
            })
            .filter(|cell| {
                let account = &cell.account;
                account.calls() > 0 || account.later().iter().any(|number| *number > 0)
            })
            .filter(|cell| !overhead::is_trial(cell.number));
        Ok(cells.collect())
    }
}

/// As many kinds of calls as there can be: by the numbers of native and of 32-bit programs.
const KINDS_OF_CALLS: u32 = 2048;

/// So many calls are taken in at once: a program may make them as fast as they are read.
const BATCH: usize = 8 * 1024;

/// Names come first: a call that is read must not be told of before its file.
fn read_rings(
    skeleton: &skeleton::CallsSkel<'static>,
    told: &Rc<RefCell<Vec<Call>>>,
    later: &Rc<RefCell<Vec<LateCost>>>,
    names: &Rc<RefCell<Vec<Named>>>,
) -> Result<RingBuffer<'static>, JobError> {
    let (calls, later, named) = (Rc::clone(told), Rc::clone(later), Rc::clone(names));
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&skeleton.maps.told_names, move |data| {
            named.borrow_mut().extend(layout::named(data));
            0
        })
        .map_err(bpf("ring buffer"))?;
    builder
        .add(&skeleton.maps.told_calls, move |data| {
            match layout::told_of(data) {
                Some(layout::CallRecord::Call(call)) if overhead::is_trial(call.number) => {}
                Some(layout::CallRecord::Call(call)) => calls.borrow_mut().push(*call),
                Some(layout::CallRecord::LateCost(more)) => later.borrow_mut().push(*more),
                None => {}
            }
            0
        })
        .map_err(bpf("ring buffer"))?;
    builder.build().map_err(bpf("ring buffer"))
}

/// What is attached for a part by tracepoints and by functions is one.
fn joined(mut parts: Vec<Attached>, by_functions: Vec<Attached>) -> Vec<Attached> {
    for more in by_functions {
        match parts.iter_mut().find(|part| part.subsystem == more.subsystem) {
            Some(part) => {
                part.probes += more.probes;
                part.functions = more.functions.or(part.functions);
                part.missing.extend(more.missing);
            }
            None => parts.push(more),
        }
    }
    parts
}
