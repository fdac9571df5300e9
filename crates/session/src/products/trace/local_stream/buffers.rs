//! The buffers of a stream: made with it, and added, changed and removed while it runs.

use anyhow::{Context as _, anyhow, bail};
use weigh_trace::buffer_spec::{self, BufferOptions, Delivery, Spread};
use weigh_trace::condition::Test;
use weigh_trace::predicate;
use weigh_trace::probe::Probe;
use weigh_trace::sink::{MAIN, RecordSink};
use weigh_trace::state::BUFFERS;

use super::super::buffer::StreamBuffer;
use super::super::control::BufferEntry;
use super::super::pipeline::Pipeline;
use super::super::rings::Rings;
use super::super::settings::TraceSettings;
use super::super::synthesis_spec::SynthesisSpec;
use super::state::LocalStream;

/// The buffers that are asked for: that of `-o`, where anything is to go there, and those of `--into`.
pub fn requested(
    settings: &TraceSettings,
    specs: &[SynthesisSpec],
    wants_names: bool,
) -> anyhow::Result<Vec<(String, BufferOptions)>> {
    let mut all = Vec::new();
    if settings.buffers.is_empty() || settings.output.is_some() || !specs.is_empty() {
        // Who waits for the order of all CPUs finds processes gone whose functions are to be named.
        let is_one = settings.total_order || wants_names && !settings.per_cpu;
        let spread = if is_one { Spread::One } else { Spread::PerCpu };
        let main = BufferOptions {
            spread: Some(spread),
            bytes: settings.ring_bytes,
            delivery: settings.wake_bytes.map(Delivery::Bytes),
            output: settings.output.clone(),
            ..BufferOptions::default()
        };
        all.push((MAIN.to_string(), main));
    }
    for text in &settings.buffers {
        let (name, asked) = buffer_spec::parse(text).map_err(|error| anyhow!("--into: {error}"))?;
        if all.iter().any(|(other, _)| *other == name) {
            bail!("--into {name}: there is a buffer of that name");
        }
        all.push((name, asked));
    }
    match all.len() > BUFFERS {
        true => bail!("a stream has {BUFFERS} buffers at most"),
        false => Ok(all),
    }
}

fn predicate_of(asked: &BufferOptions) -> Option<&str> {
    asked.predicate.as_ref()?.as_deref()
}

impl LocalStream {
    /// Makes a buffer. Programs do not know of it yet.
    pub(super) fn make(
        &mut self,
        name: String,
        asked: BufferOptions,
        probes: &[&Probe],
        pipeline: Option<Pipeline>,
    ) -> anyhow::Result<()> {
        let number = self.free_number()?;
        let told = || format!("buffer {name}");
        self.know_events(&asked, probes).with_context(told)?;
        let test = self.test_of(&asked, probes).with_context(told)?;
        let rings = Rings::make(self.spread(&asked), asked.bytes, 0).with_context(told)?;
        let has_rings = rings.reader.layout().rings > 1;
        let pipeline = match pipeline {
            Some(pipeline) => pipeline,
            None => Pipeline::to_sink(self.open_output(&asked, probes)?, has_rings),
        };
        let mut held = StreamBuffer::new(name, number, asked, rings, pipeline);
        held.begin(&self.kernel, &self.state, self.traced.len());
        held.set_predicate(&self.kernel, &self.state, test);
        held.prepare(&self.kernel, &self.state, self.usual_wake);
        self.buffers.push(held);
        Ok(())
    }

    /// The file that a buffer goes to, if it has one.
    fn open_output(
        &self,
        asked: &BufferOptions,
        probes: &[&Probe],
    ) -> anyhow::Result<Option<Box<dyn RecordSink>>> {
        let Some(path) = &asked.output else { return Ok(None) };
        let outputs = self.outputs.as_ref().context("a user's stream has one buffer")?;
        outputs.open_file(path, probes).map(Some)
    }

    /// A number that no buffer has.
    fn free_number(&self) -> anyhow::Result<usize> {
        let is_taken = |number| self.buffers.iter().any(|h| h.number == number && !h.is_free());
        let free = (0..BUFFERS).find(|number| !is_taken(*number));
        free.with_context(|| {
            format!(
                "a stream has {BUFFERS} buffers at most, and it has them; the place of one that was removed is free \
                 when its file is whole, a second later"
            )
        })
    }

    fn spread<'a>(&self, asked: &'a BufferOptions) -> &'a Spread {
        let usual = if self.is_one { &Spread::One } else { &Spread::PerCpu };
        asked.spread.as_ref().unwrap_or(usual)
    }

    /// The events that go in have to be followed.
    fn know_events(&self, asked: &BufferOptions, probes: &[&Probe]) -> anyhow::Result<()> {
        for name in asked.events.iter().flatten() {
            let is = |probe: &&Probe| {
                probe.name == *name || probe.name.split_once(':').is_some_and(|(_, e)| e == name)
            };
            if !probes.iter().any(is) {
                let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
                bail!("no event '{name}' is followed; there are {}", names.join(", "));
            }
        }
        Ok(())
    }

    fn test_of(&self, asked: &BufferOptions, probes: &[&Probe]) -> anyhow::Result<Option<Test>> {
        let event = |name: &str| {
            let is = |probe: &&Probe| {
                probe.name == name || probe.name.split_once(':').is_some_and(|(_, e)| e == name)
            };
            probes.iter().position(is).and_then(|at| u32::try_from(at).ok())
        };
        let test = predicate_of(asked).map(|text| predicate::parse(text, &event)).transpose();
        test.map_err(|refusal| anyhow!("{refusal}"))
    }

    /// The probes that are followed, in the order of their numbers.
    fn probes(&self) -> Vec<Probe> {
        self.traced.iter().map(|traced| traced.resolved.probe.clone()).collect()
    }

    /// Every program is made again, for the buffers that there are now.
    fn renew(&mut self) -> anyhow::Result<()> {
        for id in 0..self.traced.len() {
            if !self.traced[id].is_removed {
                let (resolved, gate) =
                    (self.traced[id].resolved.clone(), self.traced[id].slot.gate);
                self.replace(id, resolved, gate)?;
            }
        }
        Ok(())
    }

    pub(super) fn add_buffer(&mut self, text: &str) -> anyhow::Result<String> {
        let (name, asked) = buffer_spec::parse(text)?;
        if let Some(other) = self.buffers.iter().find(|held| held.name == name && !held.is_free()) {
            match other.rings {
                Some(_) => bail!("there is a buffer '{name}'"),
                None => bail!(
                    "the buffer '{name}' that was removed is not whole yet: in a second it is"
                ),
            }
        }
        let probes = self.probes();
        let probes: Vec<&Probe> = probes.iter().collect();
        self.make(name.clone(), asked, &probes, None)?;
        if let Err(error) = self.renew() {
            self.drop_buffer(self.buffers.len() - 1)?;
            return Err(error);
        }
        Ok(format!("buffer {name}"))
    }

    fn find(&self, name: &str) -> anyhow::Result<usize> {
        let found = self.buffers.iter().position(|held| held.name == name && held.rings.is_some());
        found.with_context(|| {
            format!("there is no buffer '{name}'; `weigh trace ctl buffers` names them")
        })
    }

    /// Who reads along has its rings: they stay.
    fn is_not_read(&self, index: usize) -> anyhow::Result<()> {
        match self.buffers[index].is_read {
            true => bail!("others read it along: its rings stay as they are"),
            false => Ok(()),
        }
    }

    pub(super) fn remove_buffer(&mut self, name: &str) -> anyhow::Result<String> {
        let index = self.find(name)?;
        self.drop_buffer(index)?;
        Ok(format!("buffer {name}"))
    }

    /// Programs do not know of it any more; then what is in it is taken in for a while.
    pub(super) fn drop_buffer(&mut self, index: usize) -> anyhow::Result<()> {
        let rings = self.buffers[index].rings.take();
        let renewed = self.renew();
        self.buffers[index].may_be_known = renewed.is_err();
        if let Some(rings) = rings {
            self.buffers[index].retire(rings);
        }
        renewed
    }

    /// What is said of a buffer holds from now on. If it cannot be, all is as it was.
    pub(super) fn set_buffer(&mut self, name: &str, text: &str) -> anyhow::Result<String> {
        let index = self.find(name)?;
        let said = buffer_spec::clauses(text)?;
        if said.output.is_some() {
            bail!("the file of a buffer stays the same; another buffer can be added");
        }
        let before = self.buffers[index].asked.clone();
        let has_other_rings = said.spread.is_some() || said.bytes.is_some();
        let has_other_events = said.events.is_some();
        if has_other_rings {
            self.is_not_read(index)?;
        }
        let asked = BufferOptions {
            spread: said.spread.or(before.spread.clone()),
            bytes: said.bytes.or(before.bytes),
            events: said.events.or(before.events.clone()),
            delivery: said.delivery.or(before.delivery),
            output: before.output.clone(),
            predicate: said.predicate.or(before.predicate.clone()),
        };
        let probes = self.probes();
        let probes: Vec<&Probe> = probes.iter().collect();
        self.know_events(&asked, &probes)?;
        let test = self.test_of(&asked, &probes)?;
        let half = self.buffers[index].rings.as_ref().map_or(0, |rings| rings.half);
        let rings = match has_other_rings {
            true => Some(Rings::make(self.spread(&asked), asked.bytes, 1 - half)?),
            false => None,
        };
        let counts = |asked: &BufferOptions| matches!(asked.delivery, Some(Delivery::Records(_)));
        let is_other = rings.is_some() || has_other_events || counts(&asked) != counts(&before);
        let wake = self.usual_wake;
        let (kernel, state, held) = (&self.kernel, &self.state, &mut self.buffers[index]);
        let old = (held.predicate.clone(), rings.is_some().then(|| held.rings.take()).flatten());
        let is_other = held.set_predicate(kernel, state, test) || is_other;
        held.asked = asked;
        held.rings = rings.or(held.rings.take());
        held.prepare(kernel, state, wake);
        let renewed = if is_other { self.renew() } else { Ok(()) };
        let (kernel, state, held) = (&self.kernel, &self.state, &mut self.buffers[index]);
        match (renewed, old.1) {
            (Ok(()), None) => {}
            (Ok(()), Some(rings)) => held.retire(rings),
            (Err(error), rings) => {
                held.set_predicate(kernel, state, old.0);
                held.asked = before;
                if let Some(rings) = rings {
                    held.put_rings(Some(rings));
                }
                held.prepare(kernel, state, wake);
                // What stood in those places before was taken once, so it is again.
                self.renew()?;
                return Err(error);
            }
        }
        Ok(format!("buffer {name}"))
    }

    /// Writes those whole that were removed, when nothing can come any more.
    pub(super) fn close_removed(&mut self) {
        if !self.buffers.iter().any(StreamBuffer::is_over) {
            return;
        }
        let LocalStream { buffers, traced, kernel, state, .. } = self;
        let over = buffers.iter_mut().filter(|held| held.is_over());
        over.for_each(|held| held.settle(kernel, state, traced.len()));
        let now_ns = weigh_collect::clock::Moment::now().ns();
        let seconds = now_ns.saturating_sub(self.origin.began_ns) as f64 * 1e-9;
        let mut totals = self.totals(seconds, now_ns);
        let found = self.found(usize::MAX, (now_ns, seconds));
        let own: Vec<_> = self.buffers.iter().map(|held| self.followed_in(held)).collect();
        let LocalStream { buffers, traced, meaning, kernel, state, found_last, .. } = self;
        let probe = |event: u32| Some(&traced.get(event as usize)?.resolved.probe);
        for (held, own) in buffers.iter_mut().zip(own).filter(|(held, _)| held.is_over()) {
            held.end(now_ns, &probe, meaning);
            if held.name == MAIN {
                found_last.clone_from(&found);
            }
            (totals.taken, totals.followed) = (held.taken, own);
            held.finish(&totals, meaning, (kernel, state));
        }
    }

    pub(super) fn registered_buffers(&self) -> Vec<BufferEntry> {
        let registered = |held: &StreamBuffer| {
            let layout = held.rings.as_ref().map(|rings| rings.reader.layout());
            BufferEntry {
                name: held.name.clone(),
                spread: self.spread(&held.asked).to_string(),
                rings: layout.map_or(0, |layout| layout.rings),
                ring_bytes: layout.map_or(0, |layout| layout.bytes),
                events: held.asked.events.clone(),
                predicate: predicate_of(&held.asked).map(str::to_string),
                delivery: match held.asked.delivery {
                    Some(delivery) => delivery.to_string(),
                    None => {
                        format!("{} bytes", held.wake(self.usual_wake))
                    }
                },
                output: held.asked.output.as_ref().map(|path| path.display().to_string()),
                waiting: held.rings.as_ref().map_or(0, |rings| rings.reader.waiting()),
                is_removed: held.rings.is_none(),
                counted: held.counted(&self.kernel, &self.state, self.traced.len()),
            }
        };
        self.buffers.iter().map(registered).collect()
    }
}
