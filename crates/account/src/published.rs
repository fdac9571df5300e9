//! Of the values and regions that clients of the agent have published those that a report of the node has room for.

use std::collections::BTreeMap;

use weigh_schema::top::{PublishedValue, TopJob, TopProcess, TopProfile};

/// Values of a report.
pub const MOST_SHOWN: usize = 256;
/// Programs with regions of a report.
pub const MOST_PROGRAMS: usize = 64;

/// As many as there is room for, in their order, and how many are left out. What one user has too many of makes no other's go:
/// each has a value in turn until there is no room.
pub fn shown(values: &[PublishedValue], most: usize) -> (Vec<PublishedValue>, u64) {
    in_turn(values, most, |value| value.user.as_deref())
}

/// The same of programs.
pub fn shown_programs(programs: &[TopProfile], most: usize) -> (Vec<TopProfile>, u64) {
    in_turn(programs, most, |program| Some(&program.user))
}

fn in_turn<T: Clone>(
    values: &[T],
    most: usize,
    user: impl Fn(&T) -> Option<&str>,
) -> (Vec<T>, u64) {
    let mut of_users: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, usize)> = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        let rank = of_users.entry(user(value)).or_default();
        ranked.push((*rank, at));
        *rank += 1;
    }
    ranked.sort_unstable();
    ranked.truncate(most);
    ranked.sort_unstable_by_key(|(_, at)| *at);
    let shown: Vec<_> = ranked.iter().map(|(_, at)| values[*at].clone()).collect();
    let left_out = (values.len() - shown.len()) as u64;
    (shown, left_out)
}

/// Says of which session of `weigh run` each is: by the process that a stream of `weigh trace` follows, else by who has published it.
pub fn set_jobs(
    (values, programs): (&mut [PublishedValue], &mut [TopProfile]),
    jobs: &[TopJob],
    processes: &[TopProcess],
) {
    let of_processes = processes.iter().filter_map(|process| Some((process.pid, process.job?)));
    let mut job_of: BTreeMap<u32, u32> = of_processes.collect();
    job_of.extend(jobs.iter().filter(|job| job.group.is_none()).map(|job| (job.pid, job.pid)));
    for value in values {
        let followed = value.query.as_ref().and_then(|query| query.followed_pid);
        let found = followed.and_then(|pid| job_of.get(&pid));
        value.job = found.or_else(|| job_of.get(&value.pid?)).copied();
    }
    for program in programs {
        program.job = program.pid.and_then(|pid| job_of.get(&pid)).copied();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use weigh_schema::stream::TraceQuery;
    use weigh_schema::update::Scope;

    fn value(user: &str, metric: &str) -> PublishedValue {
        PublishedValue {
            scope: Scope::Node,
            metric: metric.into(),
            value: 1.0,
            unit: None,
            query: None,
            user: Some(user.into()),
            pid: Some(9),
            job: None,
            time: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn who_publishes_much_leaves_room_for_the_others() {
        let mut values: Vec<_> = (0..100).map(|at| value("ann", &format!("a{at}"))).collect();
        values.extend((0..3).map(|at| value("bob", &format!("b{at}"))));
        let (found, left_out) = shown(&values, 10);
        let names: Vec<&str> = found.iter().map(|value| &value.metric[..]).collect();
        assert_eq!(names, ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "b0", "b1", "b2"]);
        assert_eq!(left_out, 93);
        assert_eq!(shown(&values, 103), (values.clone(), 0));
        assert_eq!(shown(&[], 10), (Vec::new(), 0));
    }

    #[test]
    fn a_stream_is_of_the_job_that_it_follows_or_runs_in() {
        let job = |pid| TopJob { pid, ..TopJob::default() };
        let process = |pid, job| TopProcess {
            pid,
            parent_pid: 1,
            user: String::new(),
            name: String::new(),
            name_base64: None,
            command: Vec::new(),
            command_base64: Vec::new(),
            state: "S".into(),
            threads: 1,
            cpu_cores: None,
            cpu_seconds: 0.0,
            memory_rss_bytes: 0,
            job,
        };
        let processes = [process(8, Some(7)), process(9, Some(3)), process(10, None)];
        let follows = |pid| {
            let query = TraceQuery { asked: String::new(), followed_pid: Some(pid) };
            PublishedValue { query: Some(query.into()), ..value("ann", "a") }
        };
        let mut values = [
            follows(8),
            follows(7),
            follows(10),
            value("ann", "a"),
            PublishedValue { pid: None, ..value("ann", "a") },
            PublishedValue { pid: Some(10), ..value("ann", "a") },
        ];
        set_jobs((&mut values, &mut []), &[job(7), job(3)], &processes);
        let found: Vec<_> = values.iter().map(|value| value.job).collect();
        assert_eq!(found, [Some(7), Some(7), Some(3), Some(3), None, None]);
    }
}
