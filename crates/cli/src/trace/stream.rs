//! A stream that runs: its probes, which can be changed meanwhile, and where its records go.
//!
//! What is changed of one probe touches no other. A filter that differs from the one before in its
//! constants alone is changed by stores into memory that the probe's program reads; for all else another
//! program takes its place, and the kernel hands each event to one of the two. Records of a probe that
//! was removed are still taken in: its number is given to no other.

mod into;
mod runs;
mod taking;

use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use weigh_collect::clock::Moment;
use weigh_collect::trace::{self, KernelTrace, Settings, TraceError};
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::{FollowedNote, Origin};
use weigh_session::products::trace::live_meaning;
use weigh_trace::generate::{self, Access, Maps, Slot};
use weigh_trace::into::Spread;
use weigh_trace::probe::Probe;
use weigh_trace::sink::{MAIN, Meaning, ProbeCounts};
use weigh_trace::state::{CONSTANTS, Count, State};
use weigh_trace::synthesis::Gaps;

use super::asked::Asked;
use super::control::{Answer, Ask, Done, Register, Registered};
use super::counters;
use super::held::Held;
use super::origin;
use super::places::{places, points, saved_bytes};
use super::way::{ROWS, Way};
use super::wishes::{Checker, Wish};
use crate::arguments::TraceArguments;

/// Probes that can come while it runs. Each has a place for good.
const ROOM: usize = 256;
/// The watermark of a stream that wants names of functions of processes, unless another is asked for: it has
/// to look at them while they live.
const WAKE_FOR_NAMES: u64 = 4096;

/// What a stream is for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Probes that can come while it runs.
    pub probes: usize,
    /// Another process reads the rings: the user's, of whom this is the side with the rights.
    pub is_hosted: bool,
}

impl Default for Room {
    fn default() -> Room {
        Room { probes: ROOM, is_hosted: false }
    }
}

/// An event that is followed, or was.
struct Traced {
    wish: Wish,
    slot: Slot,
    /// The bank of constants that is told to hold.
    holding: usize,
    is_removed: bool,
}

/// A stream that runs.
pub struct Stream {
    /// The kernel side.
    pub kernel: KernelTrace,
    checker: Checker,
    state: State,
    buffers: Vec<Held>,
    /// Whether buffers have one ring for all CPUs if nothing else is said.
    is_one: bool,
    /// The watermark of buffers, if nothing else is said and it is not more than they hold.
    usual_wake: u64,
    counters: Vec<String>,
    output: Option<String>,
    traced: Vec<Traced>,
    /// Of the CPU, that fields ask for.
    cpu_counters: counters::Open,
    origin: Origin,
    meaning: Meaning,
    /// What several events said together, when the buffer was removed whose events they were.
    found_last: Option<SynthesisReport>,
    failed: Option<anyhow::Error>,
}

impl Stream {
    /// Attaches what is wanted. Records are there from now on.
    pub fn open(
        arguments: &TraceArguments,
        checker: Checker,
        wishes: Vec<Wish>,
        asked: &[Asked],
        room: Room,
    ) -> anyhow::Result<Stream> {
        let is_of_all = arguments.command.is_empty() && arguments.pid.is_none();
        let state = State { probes: wishes.len() + room.probes, cpus: trace::cpus() };
        let kernel = KernelTrace::open(&Settings {
            state_bytes: state.bytes(),
            follows: !is_of_all && !arguments.system,
        })?;
        let wants_names = wishes.iter().any(|wish| wish.probe.has_user_stack());
        let buffers = into::asked(arguments, asked, wants_names)?;
        let probes: Vec<Probe> = wishes.iter().map(|wish| wish.probe.clone()).collect();
        let probes: Vec<&Probe> = probes.iter().collect();
        let mut stream = Stream {
            kernel,
            checker,
            state,
            buffers: Vec::new(),
            is_one: wants_names && !arguments.per_cpu,
            usual_wake: if wants_names { WAKE_FOR_NAMES } else { u64::MAX },
            counters: arguments.counters.clone(),
            output: arguments.output.as_ref().map(|path| path.display().to_string()),
            traced: Vec::new(),
            cpu_counters: counters::Open::default(),
            origin: origin::of(arguments),
            meaning: live_meaning(0, 0),
            found_last: None,
            failed: None,
        };
        for (name, into) in buffers {
            // A file that can not be made is said before the kernel is asked for anything more.
            let way = match name == MAIN {
                true => Some(match room.is_hosted {
                    true => Way::default(),
                    false => {
                        let has_rings = into.spread == Some(Spread::PerCpu);
                        Way::new(arguments, asked, &probes, has_rings)?
                    }
                }),
                false => None,
            };
            stream.make(name, into, &probes, way)?;
        }
        for wish in wishes {
            stream.load(wish)?;
        }
        for number in 0..stream.traced.len() {
            stream.kernel.attach(number)?;
        }
        stream.origin.began_ns = Moment::now().ns();
        let Origin { began_ns, epoch_ns, .. } = stream.origin;
        stream.meaning = live_meaning(began_ns, epoch_ns);
        Ok(stream)
    }

    /// Has the kernel check a probe's program. It is not attached yet.
    fn load(&mut self, wish: Wish) -> anyhow::Result<usize> {
        let number = self.traced.len();
        let slot = Slot { number: number as u32, gate: 0, flip: 0, site: 0 };
        self.put_constants(&wish.probe, number, 0);
        let points = points(&wish.probe);
        self.check(&wish.probe, slot, |kernel, codes| {
            let parts: Vec<_> = points.iter().cloned().zip(codes).collect();
            kernel.load(&wish.probe.name, &parts).map(drop)
        })?;
        self.traced.push(Traced { wish, slot, holding: 0, is_removed: false });
        Ok(number)
    }

    /// Gives the kernel the programs of a probe, one for each of its places: first such that read structures
    /// directly, then, if the kernel does not like that, such that have its helpers read them.
    fn check(
        &mut self,
        probe: &Probe,
        slot: Slot,
        mut give: impl FnMut(&mut KernelTrace, Vec<Vec<u64>>) -> Result<(), TraceError>,
    ) -> anyhow::Result<()> {
        self.cpu_counters.open(&mut self.kernel, probe)?;
        let given = self.kernel.descriptors();
        let number = slot.number as usize;
        let calls = saved_bytes(probe).map(|bytes| self.kernel.calls_under_way(number, bytes));
        let takers = self.buffers.iter().filter(|held| held.takes(&probe.name));
        let maps = Maps {
            state: given.state,
            buffers: takers.filter_map(Held::for_programs).collect(),
            members: given.members,
            calls: calls.transpose()?,
            counters: self.cpu_counters.all(),
        };
        let codes = |access| {
            let sites = (0..places(probe)).map(|site| Slot { site, ..slot });
            let codes =
                sites.map(|slot| generate::program(probe, slot, &self.state, &maps, access));
            codes.collect::<Result<Vec<_>, _>>().with_context(|| probe.name.clone())
        };
        let (direct, by_helpers) = (codes(Access::Direct)?, codes(Access::Helpers)?);
        if give(&mut self.kernel, direct).is_err() {
            give(&mut self.kernel, by_helpers)?;
        }
        Ok(())
    }

    /// Writes the constants of a probe's filter into one of its banks.
    fn put_constants(&self, probe: &Probe, number: usize, bank: usize) {
        let constants = probe.test.as_ref().map(|test| test.constants()).unwrap_or_default();
        for (place, constant) in constants.iter().take(CONSTANTS).enumerate() {
            self.kernel.set_word(self.state.constant(number, bank, place), *constant);
        }
    }

    /// Whether names of functions are wanted of processes, who may soon be gone.
    fn wants_names(&self) -> bool {
        self.traced.iter().any(|traced| !traced.is_removed && traced.wish.probe.has_user_stack())
    }

    /// What several events say together until now.
    fn found(&self, rows: usize, now: (u64, f64)) -> Option<SynthesisReport> {
        let main = self.buffers.iter().find(|held| held.name == MAIN)?;
        let lost = self.lost_in(main);
        let sampled = |traced: &Traced| {
            let Probe { name, sampling, .. } = &traced.wish.probe;
            sampling.map(|rule| format!("{name} {rule}"))
        };
        let sampling: Vec<_> = self.traced.iter().map(sampled).collect();
        main.way.as_ref()?.report(rows, now, &Gaps { lost: &lost, sampling: &sampling })
    }

    /// Draws that on the terminal, when it is time.
    fn draw(&mut self) {
        if self.live().is_none() {
            return;
        }
        let now = Moment::now().ns();
        let seconds = now.saturating_sub(self.meaning.began_ns) as f64 / 1e9;
        if let (Some(found), Some(live)) = (self.found(ROWS, (now, seconds)), self.live()) {
            live.draw(|screen| {
                weigh_show::synthesis::render(&found, ROWS, screen.columns, screen.color)
            });
        }
    }

    fn counted(&self, number: usize) -> ProbeCounts {
        let sum = |count| -> u64 {
            let of = |cpu| self.kernel.word(self.state.count(cpu, number, count));
            (0..self.state.cpus).map(of).sum()
        };
        let probe = &self.traced[number].wish.probe;
        ProbeCounts {
            event: probe.name.clone(),
            sent: sum(Count::Sent),
            lost: sum(Count::Lost),
            missed: self.kernel.missed(number),
            matched: probe.sampling.map(|_| sum(Count::Matched)),
        }
    }

    /// The same of what a buffer has of it.
    fn counted_in(&self, held: &Held, number: usize) -> ProbeCounts {
        held.counted_of((&self.kernel, &self.state), number, self.counted(number))
    }

    /// Of each event, what a buffer lacks.
    fn lost_in(&self, held: &Held) -> Vec<u64> {
        let counted = (0..self.traced.len()).map(|number| self.counted_in(held, number));
        counted.map(|counted| counted.lost + counted.missed).collect()
    }

    /// What a recording says of a probe.
    fn followed(&self, number: usize, counted: ProbeCounts) -> FollowedNote {
        let wish = &self.traced[number].wish;
        let sampling = wish.probe.sampling.map(|rule| rule.to_string());
        counted.note(wish.event.text.clone(), wish.filter(), sampling)
    }

    /// What a buffer's recording says of each.
    fn followed_in(&self, held: &Held) -> Vec<FollowedNote> {
        let numbers = 0..self.traced.len();
        numbers.map(|number| self.followed(number, self.counted_in(held, number))).collect()
    }

    /// Does what somebody asks for.
    fn answer(&mut self, ask: Ask) -> Answer {
        let (began, mut what) = (Instant::now(), None);
        let mut of_buffer = |done: anyhow::Result<String>| {
            done.map(|said| {
                what = Some(said);
                Vec::new()
            })
        };
        let done = match ask {
            Ask::List => return Answer::Register(Box::new(self.register())),
            Ask::Add { event } => self.add(&event),
            Ask::Remove { id } => self.remove(id),
            Ask::Filter { id, filter } => self.filter(id, filter.as_deref()),
            Ask::Sample { id, rule } => self.sample(id, rule.as_deref()),
            Ask::Attach(_) | Ask::Where | Ask::Describe => {
                Err(anyhow!("nobody can read along here"))
            }
            Ask::Wake { bytes } => self.wake_at(bytes),
            Ask::AddBuffer { buffer } => of_buffer(self.add_buffer(&buffer)),
            Ask::SetBuffer { name, clauses } => of_buffer(self.set_buffer(&name, &clauses)),
            Ask::RemoveBuffer { name } => of_buffer(self.remove_buffer(&name)),
        };
        match done {
            Ok(ids) => {
                Answer::Done(Done { ids, what, took_us: began.elapsed().as_micros() as u64 })
            }
            Err(error) => Answer::Refused(format!("{error:#}")),
        }
    }

    fn add(&mut self, event: &str) -> anyhow::Result<Vec<usize>> {
        let mut wishes = self.checker.check(event)?.wishes;
        for way in self.buffers.iter().filter_map(|held| held.way.as_ref()) {
            wishes.iter_mut().try_for_each(|wish| way.complete(&self.checker, wish))?;
        }
        if self.traced.len() + wishes.len() > self.state.probes {
            bail!(
                "this stream has room for {} probes, removed ones among them, and it is full",
                self.state.probes
            );
        }
        let first = self.traced.len();
        let added = self.add_all(wishes);
        let ids = first..self.traced.len();
        if let Err(error) = added {
            for id in ids {
                self.kernel.remove(id);
                self.traced[id].is_removed = true;
            }
            return Err(error);
        }
        Ok(ids.collect())
    }

    fn add_all(&mut self, wishes: Vec<Wish>) -> anyhow::Result<()> {
        let first = self.traced.len();
        for wish in wishes {
            let id = self.load(wish)?;
            let Stream { buffers, traced, .. } = self;
            let probes: Vec<_> = traced.iter().map(|traced| &traced.wish.probe).collect();
            let takers = buffers.iter_mut().filter(|held| held.takes(&probes[id].name));
            for way in takers.filter_map(|held| held.way.as_mut()) {
                way.add(&probes)?;
            }
        }
        (first..self.traced.len()).try_for_each(|id| Ok(self.kernel.attach(id)?))
    }

    fn living(&self, id: usize) -> anyhow::Result<&Traced> {
        match self.traced.get(id) {
            Some(traced) if !traced.is_removed => Ok(traced),
            Some(_) => Err(anyhow!("probe {id} was removed")),
            None => Err(anyhow!("there is no probe {id}; `weigh trace ctl list` names them")),
        }
    }

    fn remove(&mut self, id: usize) -> anyhow::Result<Vec<usize>> {
        self.living(id)?;
        self.kernel.remove(id);
        let now = Moment::now().ns();
        for way in self.buffers.iter_mut().filter_map(|held| held.way.as_mut()) {
            way.remove(id, now);
        }
        self.traced[id].is_removed = true;
        let living = self.traced.iter().filter(|traced| !traced.is_removed);
        self.cpu_counters.keep(&mut self.kernel, living.map(|traced| &traced.wish.probe));
        Ok(vec![id])
    }

    fn filter(&mut self, id: usize, text: Option<&str>) -> anyhow::Result<Vec<usize>> {
        let traced = self.living(id)?;
        let wish = self.checker.with_filter(&traced.wish, text)?;
        let is_same_form = match (&traced.wish.probe.test, &wish.probe.test) {
            (Some(old), Some(new)) => new.has_form_of(old) && new.constants().len() <= CONSTANTS,
            _ => false,
        };
        match is_same_form {
            true => self.change_constants(id, wish),
            false => self.replace(id, wish, traced.slot.gate)?,
        }
        Ok(vec![id])
    }

    /// The new constants go where the program does not look; then it looks there.
    fn change_constants(&mut self, id: usize, wish: Wish) {
        let Traced { slot, holding, .. } = self.traced[id];
        let holding = 1 - holding;
        self.put_constants(&wish.probe, id, holding ^ slot.flip);
        self.kernel.set_word(self.state.holding(id), State::bank_word(holding));
        self.traced[id].holding = holding;
        self.traced[id].wish = wish;
    }

    fn sample(&mut self, id: usize, rule: Option<&str>) -> anyhow::Result<Vec<usize>> {
        let traced = self.living(id)?;
        let wish = self.checker.with_sampling(&traced.wish, rule)?;
        let gate = 1 - traced.slot.gate;
        self.kernel.set_word(self.state.gate(id, gate), 0);
        self.replace(id, wish, gate)?;
        Ok(vec![id])
    }

    /// Another program takes the place of a probe's. It finds its filter's constants in the bank that the
    /// old one does not use.
    fn replace(&mut self, id: usize, wish: Wish, gate: usize) -> anyhow::Result<()> {
        let Traced { slot, holding, .. } = self.traced[id];
        let slot = Slot { gate, flip: 1 - slot.flip, ..slot };
        self.put_constants(&wish.probe, id, holding ^ slot.flip);
        self.check(&wish.probe, slot, |kernel, codes| kernel.replace(id, &codes))?;
        self.traced[id].slot = slot;
        self.traced[id].wish = wish;
        Ok(())
    }

    /// The first buffer's watermark.
    fn wake_at(&mut self, bytes: u64) -> anyhow::Result<Vec<usize>> {
        let name =
            self.buffers.iter().find(|held| held.rings.is_some()).map(|held| held.name.clone());
        let name = name.context("the stream has no buffer")?;
        self.set_buffer(&name, &format!("deliver {bytes}")).map(|_| Vec::new())
    }

    fn register(&self) -> Register {
        let first = self.buffers.iter().find_map(|held| Some((held, held.rings.as_ref()?)));
        let layout = first.map(|(_, rings)| rings.reader.layout());
        let probes = self.traced.iter().enumerate().map(|(id, traced)| Registered {
            id,
            event: traced.wish.probe.name.clone(),
            fields: traced.wish.probe.fields.iter().map(|field| field.name.clone()).collect(),
            filter: traced.wish.filter(),
            sampling: traced.wish.probe.sampling.map(|rule| rule.to_string()),
            record_bytes: traced.wish.probe.record_bytes,
            is_removed: traced.is_removed,
            counted: self.counted(id),
        });
        Register {
            pid: std::process::id(),
            seconds: Moment::now().ns().saturating_sub(self.meaning.began_ns) as f64 / 1e9,
            output: self.output.clone(),
            rings: layout.map_or(0, |layout| layout.rings),
            ring_bytes: layout.map_or(0, |layout| layout.bytes),
            wake_bytes: first.map_or(0, |(held, _)| held.wake(self.usual_wake)),
            taken: self.taken(),
            lost_threads: self.kernel.lost_threads(),
            probes: probes.collect(),
            buffers: self.registered_buffers(),
            clients: Vec::new(),
        }
    }
}
