//! Follows the calls of programs in the kernel: what each costs in each part of it.
//!
//! Loads the programs of `bpf/calls.bpf.c` that the wanted subsystems need, attaches them, and reads
//! the table that they keep and the calls that they send. Refuses to start where the programs that
//! hold threads and time together do not load; what else a kernel lacks is named with its reason.

mod join;
mod layout;
mod names;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel as _, Skel as _, SkelBuilder as _};
use libbpf_rs::{Link, MapCore as _, MapFlags, RingBuffer, RingBufferBuilder};
use weigh_schema::call::{Call, Cell, Grouping, Sharing, Tally};
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use crate::job::{JobError, bpf, forever};
use crate::optional::Offers;
use crate::{complaints, requirements};
use layout::skeleton;

pub use names::{STORES, name};

/// Always attached: without them the time of the others would be wrong.
const ALWAYS: [&str; 2] = ["sched", "irq"];

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The parts of the kernel.
    pub subsystems: Vec<&'static Subsystem>,
    /// What has a row of its own in the table.
    pub grouping: Grouping,
    /// How those who wrote to one page share what comes of it.
    pub sharing: Sharing,
    /// Whether system calls themselves are followed: without, only intervals that programs mark.
    pub every_call: bool,
}

/// A part of the kernel as it can be seen here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The part.
    pub subsystem: &'static str,
    /// How many probes are attached for it.
    pub probes: usize,
    /// What could not be attached, and why.
    pub missing: Vec<String>,
}

/// The calls of a job, followed by the kernel itself.
pub struct KernelCalls {
    skeleton: skeleton::CallsSkel<'static>,
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    told: Rc<RefCell<Vec<Call>>>,
    attached: Vec<Attached>,
}

impl KernelCalls {
    /// Loads what is wanted, and attaches it.
    pub fn open(wanted: &Wanted) -> Result<KernelCalls, JobError> {
        requirements::check()?;
        complaints::collect();
        let offers = Offers::of_this_kernel();
        let mut open =
            skeleton::CallsSkelBuilder::default().open(forever()).map_err(bpf("open"))?;
        let mut chosen = Chosen::of(wanted);
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            let load = chosen.decide(&name, &section, &offers);
            program.set_autoload(load);
        }
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.chosen = chosen.bits();
            constants.grouping = layout::grouping(wanted.grouping);
            constants.sharing = layout::sharing(wanted.sharing);
            names::fill(&mut constants.kinds);
        }
        let mut skeleton = open.load().map_err(bpf("load"))?;
        let mut links = Vec::new();
        for program in skeleton.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if !program.autoload() || name == JOIN {
                continue;
            }
            match program.attach() {
                Ok(link) => links.push(link),
                Err(error) if chosen.is_needed(&name) => {
                    return Err(bpf("attach")(error));
                }
                Err(error) => chosen.lacks(&name, error.to_string()),
            }
        }
        let told = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&told);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skeleton.maps.told_calls, move |data| {
                sink.borrow_mut().extend(layout::call(data));
                0
            })
            .map_err(bpf("ring buffer"))?;
        let ring = builder.build().map_err(bpf("ring buffer"))?;
        Ok(KernelCalls { skeleton, links, ring, told, attached: chosen.attached() })
    }

    /// What is attached for each part of the kernel that was asked for.
    pub fn attached(&self) -> &[Attached] {
        &self.attached
    }

    /// The calls of this process, which waits for its exec, are followed from then on.
    pub fn arm(&mut self, pidfd: BorrowedFd<'_>) -> Result<(), JobError> {
        let window = layout::armed();
        self.skeleton
            .maps
            .windows
            .update(&pidfd.as_raw_fd().to_ne_bytes(), &window, MapFlags::ANY)
            .map_err(bpf("arming the command"))
    }

    /// The calls of all threads of a process that runs are followed from now on, and of those that
    /// it makes.
    pub fn join(&mut self, pid: u32) -> Result<(), JobError> {
        join::process(&self.skeleton.progs.member__join, pid)
            .map_err(|error| bpf("joining a process")(error.into()))
    }

    /// Calls that take at least so long are told one by one.
    pub fn tell_from(&mut self, nanoseconds: u64) {
        if let Some(variables) = self.skeleton.maps.data_data.as_deref_mut() {
            variables.told_from_ns = nanoseconds;
        }
    }

    /// The calls that were told since the last time.
    pub fn told(&mut self) -> Vec<Call> {
        let _ = self.ring.consume();
        std::mem::take(&mut *self.told.borrow_mut())
    }

    /// How much was seen, and lost.
    pub fn tally(&self) -> Tally {
        let variables = self.skeleton.maps.bss_data.as_deref();
        variables.map(|variables| layout::tally(&variables.tally)).unwrap_or_default()
    }

    /// The table as it stands.
    pub fn cells(&self) -> Vec<Cell> {
        let maps = &self.skeleton.maps;
        let mut times: HashMap<u32, BTreeMap<u32, u64>> = HashMap::new();
        for key in maps.buckets.keys() {
            let Some((cell, bucket)) = layout::bucket_key(&key) else { continue };
            if let Ok(Some(count)) = maps.buckets.lookup(&key, MapFlags::ANY) {
                let count = count.try_into().map(u64::from_ne_bytes).unwrap_or_default();
                times.entry(cell).or_default().insert(bucket, count);
            }
        }
        (0..layout::cells_taken(self.tally()))
            .filter_map(|number| {
                let value = maps.cells.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??;
                layout::cell(&value, times.remove(&number).unwrap_or_default())
            })
            .filter(|cell| cell.account.calls() > 0)
            .collect()
    }

    /// Stops following: what is in the table stays readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }
}

/// Run on request, not attached.
const JOIN: &str = "member__join";

/// Which programs are to be loaded, and what became of them.
struct Chosen {
    parts: Vec<Attached>,
    every_call: bool,
}

impl Chosen {
    fn of(wanted: &Wanted) -> Chosen {
        let is_wanted =
            |s: &&Subsystem| ALWAYS.contains(&s.name) || wanted.subsystems.iter().any(|w| w == s);
        let part = |subsystem: &Subsystem| Attached {
            subsystem: subsystem.name,
            probes: 0,
            missing: Vec::new(),
        };
        let parts = SUBSYSTEMS.iter().skip(1).filter(is_wanted).map(part).collect();
        Chosen { parts, every_call: wanted.every_call }
    }

    fn part(&mut self, program: &str) -> Option<&mut Attached> {
        let (subsystem, _) = program.split_once("__")?;
        self.parts.iter_mut().find(|part| part.subsystem == subsystem)
    }

    fn is_needed(&self, program: &str) -> bool {
        let first = program.split("__").next().unwrap_or_default();
        matches!(first, "member" | "call") || ALWAYS.contains(&first)
    }

    /// Whether a program is to be loaded; one whose tracepoint this kernel lacks is noted.
    fn decide(&mut self, program: &str, section: &str, offers: &Offers) -> bool {
        if program.starts_with("member__") {
            return true;
        }
        if program.starts_with("call__") {
            return self.every_call;
        }
        let Some(part) = self.part(program) else { return false };
        let tracepoint = section.rsplit('/').next().unwrap_or_default();
        if offers.tracepoint(tracepoint) {
            part.probes += 1;
            return true;
        }
        // Of the programs for different kernels one is enough.
        if !program.contains("_before_") && !program.contains("_since_") {
            part.missing.push(format!("this kernel has no tracepoint {tracepoint}"));
        }
        false
    }

    fn lacks(&mut self, program: &str, reason: String) {
        let reason = format!("{program}: {reason}");
        if let Some(part) = self.part(program) {
            part.probes -= 1;
            part.missing.push(reason);
        }
    }

    fn bits(&self) -> u64 {
        let known = |part: &Attached| Subsystem::named(part.subsystem).map_or(0, Subsystem::bit);
        self.parts.iter().map(known).sum::<u64>() | SUBSYSTEMS[0].bit()
    }

    fn attached(self) -> Vec<Attached> {
        self.parts
    }
}
