//! What was asked for each job: CPUs, and memory past which it is killed.
//!
//! Reads, once per job, the affinity, the control groups and the environment of its `weigh run`. What cannot be read is
//! not known.

use std::collections::HashMap;

use weigh_collect::allowed;
use weigh_schema::allowed::Allowed;

/// What was asked for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct JobRequest {
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    /// When a batch system ends it, in seconds since 1970.
    pub ends_seconds: Option<u64>,
}

/// Of each `weigh run`, by its PID and its start.
#[derive(Default)]
pub(super) struct JobRequests {
    known: HashMap<(u32, u64), JobRequest>,
}

impl JobRequests {
    /// What was asked for the job of that process, on a node of so many CPUs.
    pub fn find(&mut self, identity: (u32, u64), node_cpus: usize) -> JobRequest {
        let read = || request(&allowed::begin_of(identity.0).0, node_cpus);
        *self.known.entry(identity).or_insert_with(read)
    }

    /// Forgets jobs that are no more.
    pub fn keep(&mut self, is_there: impl Fn(&(u32, u64)) -> bool) {
        self.known.retain(|identity, _| is_there(identity));
    }
}

/// An affinity asks for something if it leaves CPUs of the node out.
fn request(allowed: &Allowed, node_cpus: usize) -> JobRequest {
    let scheduler = allowed.scheduler.as_ref();
    let by_affinity = allowed.cpus.filter(|cpus| (*cpus as usize) < node_cpus).map(f64::from);
    let given = [allowed.cpu_quota_cores, by_affinity].into_iter().flatten().reduce(f64::min);
    JobRequest {
        cpus: scheduler.and_then(|asked| asked.cpus).map(|cpus| cpus as f64).or(given),
        memory_bytes: allowed
            .memory_max_bytes
            .or_else(|| scheduler.and_then(|asked| asked.memory_bytes)),
        ends_seconds: scheduler.and_then(|asked| asked.ends_seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::allowed::SchedulerRequest;

    #[test]
    fn all_cpus_of_the_node_are_no_request() {
        let mut allowed = Allowed { cpus: Some(8), ..Allowed::default() };
        assert_eq!(request(&allowed, 8), JobRequest::default());
        assert_eq!(request(&allowed, 16).cpus, Some(8.0));
        allowed.cpu_quota_cores = Some(2.5);
        assert_eq!(request(&allowed, 16).cpus, Some(2.5));
        let asked = SchedulerRequest {
            cpus: Some(6),
            memory_bytes: Some(7),
            ends_seconds: Some(1_800_000_017),
            ..Default::default()
        };
        allowed.scheduler = Some(asked);
        assert_eq!(
            request(&allowed, 8),
            JobRequest {
                cpus: Some(6.0),
                memory_bytes: Some(7),
                ends_seconds: Some(1_800_000_017)
            }
        );
        allowed.memory_max_bytes = Some(5);
        assert_eq!(request(&allowed, 8).memory_bytes, Some(5));
    }
}
