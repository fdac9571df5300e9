//! What is known of a traced job as a whole: of the ended as they were last, of the living as they are in `/proc`,
//! and of those who are not traced.
//!
//! Reads what the tracer keeps, and looks at the living; gives counters that only grow, a reading, and what was found
//! amiss. Refuses nothing: a process that cannot be read is counted, or named.

use std::time::Instant;

use weigh_schema::CounterValues;
use weigh_schema::byte_text;
use weigh_schema::event::JobReading;

use super::traced_job::TracedJob;
use super::{notes, untraced};
use crate::follow::JobReader as _;
use crate::host;

impl TracedJob {
    /// Looks at what is due.
    pub(super) fn look(&mut self, at_once: bool) {
        if at_once || Instant::now() >= self.looks.next() {
            self.looks.look(&self.shared, &mut self.files);
        }
        self.untraced.look(&self.shared, &mut self.files, &mut self.events);
    }

    /// The counters of all threads, living and ended.
    pub(super) fn counters(&mut self) -> CounterValues {
        let (mut sum, living) = {
            let job = self.shared.job();
            let living: Vec<_> = job.threads.iter().map(|(tid, t)| (*tid, t.clone())).collect();
            (job.ended.clone(), living)
        };
        let mut read = Vec::with_capacity(living.len());
        for (tid, mut thread) in living {
            let is_io_seen = self.files.all(thread.process, tid, &mut thread.seen);
            read.push((tid, thread, is_io_seen == Some(false)));
        }
        let mut job = self.shared.job();
        for (tid, mut thread, is_hidden) in read {
            // A thread that is not there any more may have been another one when it was read.
            if let Some(now) = job.threads.get_mut(&tid).filter(|now| now.id == thread.id) {
                now.is_told = true;
                // It may be at one more stop, of which the tracer has not heard yet.
                thread.stops = now.stops + 1;
                untraced::add(&mut sum, &thread.own_counters());
                // On its way to its end everything is hidden; by then it was looked at.
                if is_hidden && !now.is_leaving {
                    let name = host::process_name(thread.process).unwrap_or_default();
                    job.hidden.insert(byte_text::shown(&name));
                }
            }
        }
        sum
    }

    /// The counters without what a library in the job has read itself. It tells of that a little later than the
    /// kernel does.
    pub(super) fn without_librarys_reads(&self) -> CounterValues {
        let mut counters = self.highest.clone();
        let Some(library) = &self.beside else { return counters };
        let is_over = self.shared.job().population.processes == 0;
        if is_over {
            // A look that fails leaves the last one standing.
            let _ = library.borrow_mut().read();
        }
        library.borrow().take_own_reads_from(&mut counters);
        if is_over { counters } else { counters.at_least(&self.told) }
    }

    /// The job as it is known without looking again.
    pub(super) fn sum_up(&self, counters: CounterValues) -> JobReading {
        let job = self.shared.job();
        let mut memory = self.looks.memory.clone();
        memory.process_peak = job.process_peak();
        memory.virtual_peak = memory.virtual_peak.max(job.single.0);
        memory.swap_peak = memory.swap_peak.max(job.single.1);
        memory.hugetlb_peak = memory.hugetlb_peak.max(job.single_hugetlb);
        memory.floor_peak = memory.floor_peak.max(memory.process_peak);
        let upper = job.upper_bound();
        if upper.bytes > memory.rss_sum_peak {
            (memory.rss_sum_peak, memory.spaces_at_peak) = (upper.bytes, upper.spaces);
        }
        memory.rss_sum_peak = memory.rss_sum_peak.max(memory.floor_peak);
        memory.likely_peak = memory.floor_peak.max(upper.bytes - upper.inherited);
        let mut reading = JobReading {
            at_ns: job.now_ns(),
            counters,
            population: job.population.clone(),
            memory,
        };
        // Let go, and not taken over yet.
        reading.population.processes += job.let_go.len() as u64;
        reading.population.processes_total += job.let_go.len() as u64;
        drop(job);
        self.untraced.add_to(&mut reading);
        reading
    }

    pub(super) fn findings(&self) -> notes::Findings {
        let job = self.shared.job();
        let mut hidden: Vec<String> = job.hidden.iter().cloned().collect();
        hidden.sort();
        let upper = job.upper_bound().bytes;
        let seen = self.looks.memory.rss_sum_peak.max(job.process_peak());
        let wanted = (self.detail.network, self.detail.files);
        let calls = self.detail.calls.then(|| notes::CallFindings::of(&job.calls, wanted));
        notes::Findings {
            calls,
            hidden,
            lost: job.unseen_io,
            counted: self.told.clone(),
            untraced: self.untraced.reasons(),
            cpu_by_ticks: job.cpu_by_ticks,
            rss_sum: (seen, upper),
            spaces: job.not_compared.clone(),
            mark_not_passed: job.mark_not_passed(),
        }
    }
}
