//! CPUs that each job has kept busy between two looks, by processes too that came and went between them.
//!
//! Reads CPU time of processes, and of children that they have waited for; emits CPUs per session of `weigh run`. A process
//! that nobody of its job waits for counts as long as it is seen.

use std::collections::{BTreeMap, HashMap};

use weigh_collect::process_list::ProcessLook;

/// CPU time of a process at a look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsedCpu {
    pub own: f64,
    children: f64,
    /// The session that it was of.
    job: Option<u32>,
}

impl UsedCpu {
    pub fn of(look: &ProcessLook, jobs: &BTreeMap<u32, u32>) -> UsedCpu {
        let job = jobs.get(&look.stat.pid).copied();
        UsedCpu { own: look.cpu_seconds, children: look.children_cpu_seconds, job }
    }
}

/// By the PID of the session, as far as it was there at the look before.
pub(super) fn job_cores(
    before: &HashMap<(u32, u64), UsedCpu>,
    looks: &[ProcessLook],
    jobs: &BTreeMap<u32, u32>,
    interval: Option<f64>,
) -> HashMap<u32, f64> {
    let Some(interval) = interval.filter(|interval| *interval > 0.0) else {
        return HashMap::new();
    };
    // What weigh itself uses is not the job's, what its children have used is.
    let mut used: HashMap<u32, f64> = HashMap::new();
    let mut gone: HashMap<(u32, u64), &UsedCpu> =
        before.iter().map(|(id, used)| (*id, used)).collect();
    for look in looks {
        let Some(before) = gone.remove(&look.identity()) else { continue };
        let children = look.children_cpu_seconds - before.children;
        let (job, grown) = match jobs.get(&look.stat.pid) {
            Some(job) => (*job, look.cpu_seconds - before.own + children),
            None => (look.stat.pid, children),
        };
        *used.entry(job).or_default() += grown;
    }
    // What they had used until then has been told: now all of it is among that of their parents' children.
    for gone in gone.values() {
        if let Some(used) = gone.job.and_then(|job| used.get_mut(&job)) {
            *used -= gone.own + gone.children;
        }
    }
    used.into_iter().map(|(job, used)| (job, used.max(0.0) / interval)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_collect::procfs::parse_stat;

    fn look(pid: u32, parent: u32, own: f64, children: f64) -> ProcessLook {
        let text = format!("{pid} (x) S {parent} {}", "0 ".repeat(48));
        let stat = parse_stat(text.as_bytes()).expect("a line of stat");
        ProcessLook {
            stat,
            user: String::new(),
            uid: 0,
            command: Vec::new(),
            cpu_seconds: own,
            children_cpu_seconds: children,
            rss_bytes: 0,
            group: None,
        }
    }

    #[test]
    fn processes_that_have_ended_count_once() {
        // weigh 7 has made the shell 8, which makes programs.
        let at = |jobs: &[(u32, u32)], looks: &[ProcessLook]| {
            let jobs: BTreeMap<u32, u32> = jobs.iter().copied().collect();
            let used = looks.iter().map(|look| (look.identity(), UsedCpu::of(look, &jobs)));
            (used.collect::<HashMap<_, _>>(), jobs)
        };
        let first = [look(7, 1, 3.0, 0.0), look(8, 7, 0.25, 0.0), look(9, 8, 1.5, 0.0)];
        let (before, _) = at(&[(8, 7), (9, 7)], &first);
        // 9 has used another 0.5 and has ended; one that nobody has seen used 1.25.
        let second = [look(7, 1, 4.0, 0.0), look(8, 7, 0.5, 2.0 + 1.25)];
        let (_, jobs) = at(&[(8, 7)], &second);
        let cores = job_cores(&before, &second, &jobs, Some(2.0));
        assert_eq!(cores.get(&7), Some(&((0.25 + 0.5 + 1.25) / 2.0)));
        assert!(job_cores(&before, &second, &jobs, None).is_empty(), "nothing is known at first");
        // The shell ends, too, and weigh waits for it.
        let (before, _) = at(&[(8, 7)], &second);
        let third = [look(7, 1, 4.0, 0.75 + 3.25)];
        let cores = job_cores(&before, &third, &BTreeMap::new(), Some(1.0));
        assert_eq!(cores.get(&7), Some(&0.25));
    }
}
