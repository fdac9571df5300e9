//! What control groups and batch systems write of the limits that they set.

use std::collections::BTreeMap;

use weigh_schema::allowed::{ResourceLimit, SchedulerRequest};
use weigh_schema::metric_name;

const MIB: u64 = 1 << 20;

/// `cpu.max` of version 2: `QUOTA PERIOD`, in cores; none for `max`.
pub fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    cores(words.next()?.parse().ok()?, words.next()?.parse().ok()?)
}

/// Cores from a quota and its period in microseconds; none where there is no quota.
pub fn cores(quota_us: i64, period_us: i64) -> Option<f64> {
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// One limit of a group: none for `max`, or for version 1's number past all memory.
pub fn limit(text: &str) -> Option<u64> {
    const PAST_ALL_MEMORY: u64 = 1 << 62;
    text.trim().parse().ok().filter(|limit| *limit < PAST_ALL_MEMORY)
}

/// The resource limits that a job is told, by their names in `/proc/PID/limits`.
const RESOURCES: [(&str, &str); 9] = [
    ("Max cpu time", metric_name::cpu_seconds),
    ("Max file size", "file_size_bytes"),
    ("Max data size", "data_bytes"),
    ("Max stack size", "stack_bytes"),
    ("Max processes", "processes"),
    ("Max open files", "open_files"),
    ("Max locked memory", "locked_memory_bytes"),
    ("Max address space", "address_space_bytes"),
    ("Max pending signals", "pending_signals"),
];

/// `/proc/PID/limits`: those that are not infinite.
pub fn resource_limits(text: &str) -> BTreeMap<String, ResourceLimit> {
    let limit = |(label, name): &(&str, &str)| {
        let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
        // "unlimited" is no number.
        let mut values = rest.split_ascii_whitespace().map(|value| value.parse::<u64>().ok());
        let limit = ResourceLimit { soft: values.next()?, hard: values.next()? };
        (limit != ResourceLimit::default()).then(|| ((*name).to_string(), limit))
    };
    RESOURCES.iter().filter_map(limit).collect()
}

/// What a batch system tells its jobs. `variable` looks into the environment.
pub fn scheduler(variable: &dyn Fn(&str) -> Option<String>) -> Option<SchedulerRequest> {
    let number = |name: &str| first_number(&variable(name)?);
    let mib = |name: &str| number(name)?.checked_mul(MIB);
    if let Some(job) = variable("SLURM_JOB_ID") {
        let cpus = number("SLURM_CPUS_ON_NODE");
        let by_cpu = || mib("SLURM_MEM_PER_CPU")?.checked_mul(cpus?);
        return Some(SchedulerRequest {
            name: "slurm".to_string(),
            job: Some(job),
            nodes: number("SLURM_JOB_NUM_NODES"),
            cpus,
            memory_bytes: mib("SLURM_MEM_PER_NODE").filter(|bytes| *bytes > 0).or_else(by_cpu),
            gpus: number("SLURM_GPUS_ON_NODE"),
            ends_seconds: number("SLURM_JOB_END_TIME"),
        });
    }
    let of = |name: &str, job: &str, cpus: &str| {
        let job = variable(job)?;
        let name = name.to_string();
        Some(SchedulerRequest {
            name,
            job: Some(job),
            cpus: number(cpus),
            ..SchedulerRequest::default()
        })
    };
    of("pbs", "PBS_JOBID", "NCPUS").or_else(|| of("lsf", "LSB_JOBID", "LSB_DJOB_NUMPROC")).or_else(
        || {
            // JOB_ID alone is a common name.
            variable("SGE_TASK_ID").and_then(|_| of("sge", "JOB_ID", "NSLOTS"))
        },
    )
}

/// What HTCondor's file of a job (`_CONDOR_JOB_AD`) says was asked for.
pub fn condor_request(text: &str) -> SchedulerRequest {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    let number = |name: &str| value(name).and_then(first_number);
    SchedulerRequest {
        name: "htcondor".to_string(),
        job: value("GlobalJobId").map(|id| id.trim_matches('"').to_string()),
        nodes: None,
        cpus: number("RequestCpus"),
        memory_bytes: number("RequestMemory").and_then(|mib| mib.checked_mul(MIB)),
        gpus: number("RequestGPUs"),
        ends_seconds: None,
    }
}

/// `4` of `4`, and of `4(x2)`; nothing of what begins otherwise, as an expression.
fn first_number(text: &str) -> Option<u64> {
    let digits = text.trim();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let is_whole = digits[end..].is_empty() || digits[end..].starts_with('(');
    digits[..end].parse().ok().filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_limits_that_are_infinite_are_none() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n\
                    Max stack size            8388608              unlimited            bytes     \n\
                    Max open files            1024                 20000                files     \n";
        let limits = resource_limits(text);
        let stack = ResourceLimit { soft: Some(8_388_608), hard: None };
        let files = ResourceLimit { soft: Some(1024), hard: Some(20_000) };
        assert_eq!(limits.get("stack_bytes"), Some(&stack));
        assert_eq!(limits.get("open_files"), Some(&files));
        assert_eq!(limits.len(), 2, "{limits:?}");
        assert!(resource_limits("Max open files").is_empty());
    }

    #[test]
    fn a_quota_is_in_cores() {
        assert_eq!(cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(["max 100000", "", "100000", "1 0", "-1 100000", "x y"].map(cpu_max), [None; 6]);
    }

    #[test]
    fn what_is_no_limit_is_none() {
        assert_eq!(limit("4294967296\n"), Some(1 << 32));
        assert_eq!(["max", "9223372036854771712", "-1", ""].map(limit), [None; 4]);
    }

    fn of(environment: &[(&str, &str)]) -> Option<SchedulerRequest> {
        let found = |name: &str| environment.iter().find(|(n, _)| *n == name);
        scheduler(&|name| found(name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn slurm_says_memory_by_node_or_by_cpu() {
        let by_node = [
            ("SLURM_JOB_ID", "77"),
            ("SLURM_CPUS_ON_NODE", "4"),
            ("SLURM_MEM_PER_NODE", "8192"),
            ("SLURM_JOB_END_TIME", "1800000017"),
        ];
        let request = of(&by_node).expect("a job of Slurm's");
        assert_eq!((request.cpus, request.memory_bytes), (Some(4), Some(8 << 30)));
        assert_eq!(request.ends_seconds, Some(1_800_000_017));
        let by_cpu =
            [("SLURM_JOB_ID", "77"), ("SLURM_CPUS_ON_NODE", "3"), ("SLURM_MEM_PER_CPU", "1000")];
        assert_eq!(of(&by_cpu).and_then(|request| request.memory_bytes), Some(3000 << 20));
        // All memory of the node, whatever that is.
        let all = [("SLURM_JOB_ID", "77"), ("SLURM_MEM_PER_NODE", "0")];
        assert_eq!(of(&all).and_then(|request| request.memory_bytes), None);
    }

    #[test]
    fn other_systems_and_none() {
        assert_eq!(
            of(&[("PBS_JOBID", "5.host"), ("NCPUS", "2")]).map(|r| (r.name, r.cpus)),
            Some(("pbs".to_string(), Some(2)))
        );
        assert_eq!(of(&[("JOB_ID", "12")]), None, "somebody's own variable");
        assert_eq!(
            of(&[("LSB_JOBID", "12"), ("LSB_DJOB_NUMPROC", "many")]).map(|r| r.cpus),
            Some(None)
        );
    }

    #[test]
    fn condor_asks_in_mebibytes() {
        let text = "RequestCpus = 2\nrequestmemory = 1500\nGlobalJobId = \"sub#1.0#7\"\nRequestGPUs = ifthenelse(x,1,2)\n";
        let request = condor_request(text);
        assert_eq!(
            (request.cpus, request.memory_bytes, request.gpus),
            (Some(2), Some(1500 << 20), None)
        );
        assert_eq!(request.job.as_deref(), Some("sub#1.0#7"));
        assert_eq!(condor_request("RequestMemory = 99999999999999999999").memory_bytes, None);
    }
}
