//! A stream that runs: its probes, which can be changed meanwhile, and where its records go.
//!
//! What is changed of one probe touches no other. A filter that differs from the one before in its
//! constants alone is changed by stores into memory that the probe's program reads; for all else another
//! program takes its place, and the kernel hands each event to one of the two. Records of a probe that
//! was removed are still taken in: its number is given to no other.

mod buffers;
mod event_stream;
mod intake;
mod standby;
mod state;

use std::iter;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use weigh_collect::clock::Moment;
use weigh_collect::trace::{self, KernelTrace, Settings, TraceError};
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::{FollowedNote, Origin};
use weigh_trace::buffer_spec::Spread;
use weigh_trace::generate::{self, Access, Maps, Slot};
use weigh_trace::probe::Probe;
use weigh_trace::sink::{MAIN, ProbeCounts};
use weigh_trace::state::{BUFFERS, CONSTANTS, InBuffer, State};
use weigh_trace::synthesis::Gaps;

use super::adaptation_plan::PlannedAdaptation;
use super::attach_points::{places, points, saved_bytes};
use super::buffer::StreamBuffer;
use super::control::{Answer, Ask, Change, ProbeEntry, Register};
use super::counters;
use super::live_names::live_meaning;
use super::origin;
use super::outputs::RecordOutputs;
use super::page_places::page_places;
use super::pipeline::Pipeline;
use super::resolve::{ResolvedEvent, Resolver};
use super::settings::TraceSettings;
use super::synthesis_spec::SynthesisSpec;
pub use state::LocalStream;
use state::TracedProbe;

/// Probes that can come while it runs. Each has a place for good.
const ROOM: usize = 256;
/// The watermark of a stream that wants names of functions of processes, unless another is asked for: it has
/// to look at them while they live.
const WAKE_FOR_NAMES: u64 = 4096;

/// What a stream has room for.
pub struct Room {
    /// Probes that can come while it runs.
    pub probes: usize,
    /// Where records go; none: another process reads the rings, the user's, of whom this is the side with the rights.
    pub outputs: Option<Rc<dyn RecordOutputs>>,
}

impl Room {
    /// Of a stream whose records go to these.
    pub fn for_outputs(outputs: Rc<dyn RecordOutputs>) -> Room {
        Room { probes: ROOM, outputs: Some(outputs) }
    }
}

impl LocalStream {
    /// Attaches what is wanted. Records are there from now on.
    pub fn open(
        settings: &TraceSettings,
        resolver: Resolver,
        events: Vec<ResolvedEvent>,
        (specs, adaptations): (&[SynthesisSpec], &[PlannedAdaptation]),
        room: Room,
    ) -> anyhow::Result<LocalStream> {
        let state = State { probes: events.len() + room.probes, cpus: trace::cpus() };
        let kernel = KernelTrace::open(&Settings {
            state_bytes: state.bytes(),
            follows: settings.follows_some(),
        })?;
        let wants_names = events.iter().any(|event| event.probe.has_user_stack());
        let buffers = buffers::requested(settings, specs, wants_names)?;
        let probes: Vec<Probe> = events.iter().map(|event| event.probe.clone()).collect();
        let probes: Vec<&Probe> = probes.iter().collect();
        let mut stream = LocalStream {
            kernel,
            resolver,
            state,
            buffers: Vec::new(),
            is_one: wants_names && !settings.per_cpu,
            usual_wake: if wants_names { WAKE_FOR_NAMES } else { u64::MAX },
            outputs: room.outputs,
            output: settings.output.as_ref().map(|path| path.display().to_string()),
            traced: Vec::new(),
            standbys: Vec::new(),
            rules: Vec::new(),
            cpu_counters: counters::OpenCounters::default(),
            origin: origin::of(settings),
            meaning: live_meaning(0, 0),
            found_last: None,
            failed: None,
        };
        for (name, into) in buffers {
            // A file that cannot be made is said before the kernel is asked for anything more.
            let pipeline = match (name == MAIN, stream.outputs.as_deref()) {
                (true, None) => Some(Pipeline::default()),
                (true, Some(outputs)) => {
                    let has_rings = into.spread == Some(Spread::PerCpu);
                    Some(Pipeline::new(settings, specs, &probes, has_rings, outputs)?)
                }
                (false, _) => None,
            };
            stream.make(name, into, &probes, pipeline)?;
        }
        for event in events {
            stream.load(event)?;
        }
        stream.prepare_standbys(adaptations)?;
        let is_followed = |number: &usize| !adaptations.iter().any(|planned| planned.adds(*number));
        for number in (0..stream.traced.len()).filter(is_followed) {
            stream.kernel.attach(number)?;
            stream.traced[number].is_paused = false;
        }
        stream.origin.began_ns = Moment::now().ns();
        let Origin { began_ns, epoch_ns, .. } = stream.origin;
        stream.meaning = live_meaning(began_ns, epoch_ns);
        Ok(stream)
    }

    /// Has the kernel check a probe's program. It is not attached yet.
    fn load(&mut self, resolved: ResolvedEvent) -> anyhow::Result<usize> {
        let number = self.traced.len();
        let slot = Slot { number: number as u32, gate: 0, flip: 0, site: 0 };
        self.put_constants(&resolved.probe, number, 0);
        let points = points(&resolved.probe);
        self.check(&resolved.probe, slot, |kernel, codes| {
            let parts: Vec<_> = points.iter().cloned().zip(codes).collect();
            kernel.load(&resolved.probe.name, &parts).map(drop)
        })?;
        self.traced.push(TracedProbe::new(resolved, slot));
        Ok(number)
    }

    /// Gives the kernel the programs of a probe, one for each of its places: first such that read structures
    /// directly, and packets by its own function; then, if the kernel does not like that, such that find a packet's pages
    /// themselves; then such that keep its first part; then such that have its helpers read structures.
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
            buffers: takers.filter_map(StreamBuffer::for_programs).collect(),
            members: given.members,
            calls: calls.transpose()?,
            name_at: probe.has_thread_name().then(|| self.resolver.task_name()).flatten(),
            pages: None,
            counters: self.cpu_counters.all(),
        };
        let codes = |access, maps: &Maps<'_>| {
            let sites = (0..places(probe)).map(|site| Slot { site, ..slot });
            let codes = sites.map(|slot| generate::program(probe, slot, &self.state, maps, access));
            codes.collect::<Result<Vec<_>, _>>().with_context(|| probe.name.clone())
        };
        let has_packet = probe.has_packet();
        let whole = (!has_packet || probe.has_packet_reader()).then_some((Access::Direct, None));
        // Only where it is needed: the kernel's symbols and types are many.
        let kernel = Arc::clone(self.resolver.kernel_types());
        let pages = || has_packet.then(|| page_places(&kernel)).flatten();
        let pages = iter::once_with(pages).flatten();
        let walked = pages.map(|pages| (Access::Loads, Some(pages)));
        let first_part = has_packet.then_some((Access::Loads, None));
        for (access, pages) in whole.into_iter().chain(walked).chain(first_part) {
            let maps = Maps { pages, ..maps.clone() };
            if give(&mut self.kernel, codes(access, &maps)?).is_ok() {
                return Ok(());
            }
        }
        Ok(give(&mut self.kernel, codes(Access::Helpers, &maps)?)?)
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
        self.traced
            .iter()
            .any(|traced| !traced.is_removed && traced.resolved.probe.has_user_stack())
    }

    /// What several events say together until now.
    fn found(&self, rows: usize, now: (u64, f64)) -> Option<SynthesisReport> {
        let main = self.buffers.iter().find(|held| held.name == MAIN)?;
        let lost = self.lost_in(main);
        let sampled = |traced: &TracedProbe| {
            let name = &traced.resolved.probe.name;
            traced.sampling_text().map(|rule| format!("{name} {rule}"))
        };
        let sampling: Vec<_> = self.traced.iter().map(sampled).collect();
        main.pipeline.as_ref()?.report(rows, now, &Gaps { lost: &lost, sampling: &sampling })
    }

    /// Shows that, when it is time.
    fn draw(&mut self) {
        let rows = self.main_pipeline().and_then(|pipeline| pipeline.due_rows());
        let Some(rows) = rows else { return };
        let now = Moment::now().ns();
        let seconds = now.saturating_sub(self.meaning.began_ns) as f64 / 1e9;
        let found = self.found(rows, (now, seconds));
        if let (Some(found), Some(pipeline)) = (found, self.main_pipeline()) {
            pipeline.show(&found);
        }
    }

    fn counted(&self, number: usize) -> ProbeCounts {
        let sum = |of: &dyn Fn(usize) -> usize| -> u64 {
            (0..self.state.cpus).map(|cpu| self.kernel.word(of(cpu))).sum()
        };
        let in_all = |count| -> u64 {
            let of = |buffer| sum(&|cpu| self.state.count_in(cpu, number, buffer, count));
            (0..BUFFERS).map(of).sum()
        };
        let probe = &self.traced[number].resolved.probe;
        ProbeCounts {
            event: probe.name.clone(),
            sent: in_all(InBuffer::Sent),
            lost: in_all(InBuffer::Lost),
            unread: self.buffers.iter().map(|held| held.unread_of(number)).sum(),
            missed: self.kernel.missed(number),
            matched: probe.sampling.map(|_| sum(&|cpu| self.state.matched(cpu, number))),
        }
    }

    /// The same of what a buffer has of it.
    fn counted_in(&self, held: &StreamBuffer, number: usize) -> ProbeCounts {
        held.counted_of((&self.kernel, &self.state), number, self.counted(number))
    }

    /// Of each event, what a buffer lacks.
    fn lost_in(&self, held: &StreamBuffer) -> Vec<u64> {
        (0..self.traced.len()).map(|number| self.counted_in(held, number).gone()).collect()
    }

    /// What a recording says of a probe.
    fn followed(&self, number: usize, counted: ProbeCounts) -> FollowedNote {
        let resolved = &self.traced[number].resolved;
        let sampling = self.traced[number].sampling_text();
        counted.note(resolved.event.text.clone(), resolved.filter(), sampling)
    }

    /// What a buffer's recording says of each.
    fn followed_in(&self, held: &StreamBuffer) -> Vec<FollowedNote> {
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
            Ask::Follow { id, is_on } => self.switch_event(id, is_on).map(|()| vec![id]),
            Ask::Filter { id, filter } => self.filter(id, filter.as_deref()),
            Ask::Sample { id, rule } => self.sample(id, rule.as_deref()),
            Ask::Attach(_) | Ask::Where | Ask::Describe | Ask::Reports { .. } => {
                Err(anyhow!("nobody can read along here"))
            }
            Ask::Wake { bytes } => self.wake_at(bytes),
            Ask::AddBuffer { buffer } => of_buffer(self.add_buffer(&buffer)),
            Ask::SetBuffer { name, clauses } => of_buffer(self.set_buffer(&name, &clauses)),
            Ask::RemoveBuffer { name } => of_buffer(self.remove_buffer(&name)),
        };
        match done {
            Ok(ids) => {
                Answer::Done(Change { ids, what, took_us: began.elapsed().as_micros() as u64 })
            }
            Err(error) => Answer::Refused(format!("{error:#}")),
        }
    }

    fn add(&mut self, event: &str) -> anyhow::Result<Vec<usize>> {
        let mut events = self.resolver.check(event)?.events;
        for pipeline in self.buffers.iter().filter_map(|held| held.pipeline.as_ref()) {
            events.iter_mut().try_for_each(|event| pipeline.complete(&self.resolver, event))?;
        }
        if self.traced.len() + events.len() > self.state.probes {
            bail!(
                "this stream has room for {} probes, removed ones among them, and it is full",
                self.state.probes
            );
        }
        let first = self.traced.len();
        let added = self.add_all(events);
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

    fn add_all(&mut self, events: Vec<ResolvedEvent>) -> anyhow::Result<()> {
        let first = self.traced.len();
        for event in events {
            let id = self.load(event)?;
            let LocalStream { buffers, traced, .. } = self;
            let probes: Vec<_> = traced.iter().map(|traced| &traced.resolved.probe).collect();
            let takers = buffers.iter_mut().filter(|held| held.takes(&probes[id].name));
            for pipeline in takers.filter_map(|held| held.pipeline.as_mut()) {
                pipeline.add(&probes)?;
            }
        }
        (first..self.traced.len()).try_for_each(|id| self.switch_event(id, true))
    }

    fn living(&self, id: usize) -> anyhow::Result<&TracedProbe> {
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
        for pipeline in self.buffers.iter_mut().filter_map(|held| held.pipeline.as_mut()) {
            pipeline.remove(id, now);
        }
        self.traced[id].is_removed = true;
        let living = self.traced.iter().filter(|traced| !traced.is_removed);
        self.cpu_counters.keep(&mut self.kernel, living.map(|traced| &traced.resolved.probe));
        Ok(vec![id])
    }

    fn filter(&mut self, id: usize, text: Option<&str>) -> anyhow::Result<Vec<usize>> {
        let traced = self.living(id)?;
        let resolved = self.resolver.with_filter(&traced.resolved, text)?;
        let is_same_form = match (&traced.resolved.probe.test, &resolved.probe.test) {
            (Some(old), Some(new)) => new.has_form_of(old) && new.constants().len() <= CONSTANTS,
            _ => false,
        };
        match is_same_form {
            true => self.change_constants(id, resolved),
            false => self.replace(id, resolved, traced.slot.gate)?,
        }
        Ok(vec![id])
    }

    /// The new constants go where the program does not look; then it looks there.
    fn change_constants(&mut self, id: usize, resolved: ResolvedEvent) {
        let TracedProbe { slot, holding, .. } = self.traced[id];
        let holding = 1 - holding;
        self.put_constants(&resolved.probe, id, holding ^ slot.flip);
        self.kernel.set_word(self.state.holding(id), State::bank_word(holding));
        self.traced[id].holding = holding;
        self.traced[id].generation += 1;
        self.traced[id].resolved = resolved;
    }

    fn sample(&mut self, id: usize, rule: Option<&str>) -> anyhow::Result<Vec<usize>> {
        let traced = self.living(id)?;
        let resolved = self.resolver.with_sampling(&traced.resolved, rule)?;
        let gate = 1 - traced.slot.gate;
        self.kernel.set_word(self.state.gate(id, gate), 0);
        self.replace(id, resolved, gate)?;
        Ok(vec![id])
    }

    /// Another program takes the place of a probe's. It finds its filter's constants in the bank that the
    /// old one does not use.
    fn replace(&mut self, id: usize, resolved: ResolvedEvent, gate: usize) -> anyhow::Result<()> {
        let TracedProbe { slot, holding, .. } = self.traced[id];
        let slot = Slot { gate, flip: 1 - slot.flip, ..slot };
        self.put_constants(&resolved.probe, id, holding ^ slot.flip);
        self.check(&resolved.probe, slot, |kernel, codes| kernel.replace(id, &codes))?;
        self.traced[id].slot = slot;
        self.traced[id].generation += 1;
        self.traced[id].resolved = resolved;
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
        let probes = self.traced.iter().enumerate().map(|(id, traced)| ProbeEntry {
            id,
            event: traced.resolved.probe.name.clone(),
            fields: traced.resolved.probe.fields.iter().map(|field| field.name.clone()).collect(),
            filter: traced.resolved.filter(),
            sampling: traced.resolved.probe.sampling.map(|rule| rule.to_string()),
            record_bytes: traced.resolved.probe.record_bytes,
            is_removed: traced.is_removed,
            is_paused: traced.is_paused,
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
            report_readers: 0,
            rules: self.rules.clone(),
        }
    }
}
