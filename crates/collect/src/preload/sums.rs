//! What the job has done so far, from all that is known: the slots, looks at `/proc`, and once
//! nobody is left the kernel's own sums over all that weigh has waited for.

use std::sync::atomic::Ordering;

use weigh_schema::event::JobReading;
use weigh_schema::{Counter, CounterValues};

use super::job::PreloadedJob;
use crate::procfs::IO_COUNTERS;
use crate::rusage::{self, has_no_children};

impl PreloadedJob {
    /// A reading of `/proc` with what the slots know better.
    pub(super) fn sum_up(&mut self, mut reading: JobReading) -> JobReading {
        // Once for good: threads of weigh that end afterwards leave it as it is.
        let is_over = || self.tally.all_are_waited_for() && has_no_children();
        if self.total.is_none() && self.alive.is_empty() && is_over() {
            self.watchdog.rest();
            self.total = self.waited_for();
        }
        let counters = &mut reading.counters;
        if let Some(total) = &self.total {
            counters.clone_from(total);
        }
        self.take_own_reads_from(counters);
        let of_library = self.tally.of_library();
        for &counter in Counter::ALL.iter().filter(|c| c.task_field().is_none()) {
            counters.set(counter, of_library.get(counter));
        }
        if self.total.is_none() {
            *counters = counters.at_least(&self.reading.counters);
        }
        let (tally, place) = (&self.tally, &self.place);
        let strangers = tally.strangers.len() as u64;
        let all_strangers = strangers + tally.strangers_ended;
        let population = &mut reading.population;
        let overflow = u64::from(place.head.overflow.load(Ordering::Relaxed));
        population.processes = self.alive.len() as u64;
        population.processes_total = tally.with_slots() + all_strangers.max(overflow);
        population.processes_peak =
            population.processes_peak.max(u64::from(place.head.alive_peak.load(Ordering::Relaxed)));
        // The library counts them as they come and go; a look may meet one that has just ended beside the next.
        if strangers == 0 {
            population.processes = population.processes.min(population.processes_peak);
        }
        population.threads_peak = population.threads_peak.max(population.processes_peak);
        let waited = rusage::waited();
        // The library knows by the call that made them which processes use their parent's memory.
        let most = (!self.are_spaces_compared()).then(|| tally.upper_bound());
        let memory = &mut reading.memory;
        let mut one = memory.process_peak.max(tally.rss_peak_bytes);
        for process in &tally.living {
            one = one.max(process.rss_peak_bytes);
        }
        if waited.rss_peak_bytes > rusage::own_rss_peak_bytes() {
            one = one.max(waited.rss_peak_bytes);
        }
        memory.process_peak = one;
        memory.floor_peak = memory.floor_peak.max(one);
        if let Some(most) = most {
            memory.rss_sum_peak = memory.rss_sum_peak.min(most);
            memory.rss_sum = memory.rss_sum.min(most);
        }
        memory.rss_sum_peak = memory.rss_sum_peak.max(memory.floor_peak);
        if let Some(certain) = &mut memory.certain {
            certain.rss_sum_peak = certain.rss_sum_peak.max(memory.floor_peak);
        }
        reading
    }

    /// Takes from the kernel's counts of the job what the library itself has read in it.
    pub(crate) fn take_own_reads_from(&self, counters: &mut CounterValues) {
        let (bytes, calls) = self.tally.own_reads();
        for (counter, own) in [(Counter::ReadChars, bytes), (Counter::ReadCalls, calls)] {
            counters.set(counter, counters.get(counter).saturating_sub(own));
        }
    }

    /// The kernel's own sums; none if weigh's own part of them is not known.
    fn waited_for(&mut self) -> Option<CounterValues> {
        let io = self.waited_io.read().ok()?;
        let usage = rusage::waited().counters;
        let mut total = CounterValues::default();
        for counter in rusage::COUNTERS {
            total.set(counter, usage.get(counter).saturating_sub(self.usage_before.get(counter)));
        }
        for &counter in IO_COUNTERS {
            total.set(counter, io.get(counter));
        }
        Some(total)
    }
}
