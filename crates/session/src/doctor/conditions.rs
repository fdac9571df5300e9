//! The facts of the machine and of weigh's privileges that decide what works.
//!
//! Reads capabilities, whether an agent answers, `/sys/kernel/btf/vmlinux`, `/sys/kernel/security/lockdown` and switches
//! below `/proc/sys/kernel`; emits one line each. A switch that cannot be read is left out: that kernel does not have it.

use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};
use weigh_agent::StreamClient;
use weigh_collect::requirements::{BTF, NEEDED};
use weigh_schema::doctor::Condition;
use weigh_schema::stream::AgentStatus;

/// The capabilities that weigh can use, and for what.
const CAPABILITIES: &[(CapabilitySet, &str, &str)] = &[
    (CapabilitySet::BPF, "CAP_BPF", "loading BPF programs"),
    (CapabilitySet::PERFMON, "CAP_PERFMON", "attaching them; hardware counters"),
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN", "page frames of shared memory; fanotify"),
    (CapabilitySet::DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "names of files that fanotify saw"),
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE", "pages, mappings, stacks of other users"),
    (CapabilitySet::KILL, "CAP_KILL", "ending processes of other users at a limit"),
];

/// Switches, and what hangs on them. Whether a value is good depends on privileges too, so none
/// is judged.
const SWITCHES: &[(&str, &str)] = &[
    ("unprivileged_bpf_disabled", "none of what weigh loads is allowed without rights"),
    ("perf_event_paranoid", "hardware counters without CAP_PERFMON: at most 2"),
    ("yama/ptrace_scope", "looking into an offender of one's own: CAP_SYS_PTRACE at 2, never at 3"),
    ("task_delayacct", "delay_* of block I/O, reclaim, swap-in: 1, or --delays"),
];

const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// All facts.
pub(super) fn all() -> Vec<Condition> {
    let mut all = vec![kernel_types()];
    all.extend(privileges());
    all.push(agent());
    all.extend(lockdown());
    all.extend(SWITCHES.iter().filter_map(|(name, bears_on)| {
        let value = read(&format!("/proc/sys/kernel/{name}"))?;
        Some(Condition { name, value, good: None, bears_on })
    }));
    all
}

fn kernel_types() -> Condition {
    let (value, good) = match std::fs::metadata(BTF) {
        Ok(_) => ("there".to_string(), true),
        Err(error) => (format!("{BTF}: {error}"), false),
    };
    let bears_on = "fitting BPF programs to this kernel (CONFIG_DEBUG_INFO_BTF)";
    Condition { name: "BTF", value, good: Some(good), bears_on }
}

fn privileges() -> Vec<Condition> {
    let held = match capabilities(None) {
        Ok(sets) => sets.effective,
        Err(error) => {
            let value = format!("cannot be read: {error}");
            let bears_on = "everything that needs rights";
            return vec![Condition { name: "capabilities", value, good: None, bears_on }];
        }
    };
    let is_admin = held.contains(CapabilitySet::SYS_ADMIN);
    CAPABILITIES
        .iter()
        .map(|&(capability, name, bears_on)| {
            // CAP_SYS_ADMIN stands for these two, as it did before the kernel had them.
            let is_part = NEEDED.iter().any(|(needed, _)| *needed == capability);
            let (value, good) = match (held.contains(capability), is_admin && is_part) {
                (true, _) => ("held", true),
                (false, true) => ("implied", true),
                (false, false) => ("missing", false),
            };
            Condition { name, value: value.to_string(), good: Some(good), bears_on }
        })
        .collect()
}

fn agent() -> Condition {
    let path = weigh_agent::socket();
    let value = match weigh_agent::answers(&path) {
        Ok(()) => agent_that_answers(&path),
        Err(error) => error.to_string(),
    };
    let bears_on = "exact accounting in the kernel for users without rights; libweigh";
    Condition { name: "agent", value, good: None, bears_on }
}

/// One without privileges is of no use for what is asked here.
fn agent_that_answers(path: &Path) -> String {
    match StreamClient::connect(path).and_then(|client| client.status()) {
        Ok(AgentStatus { follows_jobs: false, reason, .. }) => {
            format!("answers, and serves the node alone: {}", reason.unwrap_or_default())
        }
        _ => "answers".to_string(),
    }
}

/// `none [integrity] confidentiality`: the one in brackets is in force.
fn lockdown() -> Option<Condition> {
    let text = read(LOCKDOWN)?;
    let value = text.split_once('[')?.1.split_once(']')?.0.to_string();
    let good = Some(value != "confidentiality");
    let bears_on = "`confidentiality` forbids BPF to read the kernel";
    Some(Condition { name: "lockdown", value, good, bears_on })
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}
