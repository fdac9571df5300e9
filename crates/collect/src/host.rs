//! Where the job runs: the facts of the machine, and who the user is.
//!
//! Reads `uname`, `/proc/meminfo`, lists of CPUs in `/sys/devices/system/cpu`, the cgroup mounts, and what
//! containers and hypervisors leave to be seen. User names come from `/etc/passwd` alone: name
//! services would pull shared libraries into a static program.

use std::collections::BTreeMap;
use std::path::Path;

use weigh_schema::byte_text;
use weigh_schema::summary::Host;

use crate::procfs::{self, ProcError};

/// The facts of this machine, without its state.
pub fn host() -> Result<Host, ProcError> {
    let names = rustix::system::uname();
    Ok(Host {
        node: node(),
        kernel: names.release().to_string_lossy().into_owned(),
        cpus: cpus_online()?,
        memory_bytes: memory_bytes()?,
        cgroup_version: crate::cgroup::version().to_string(),
        virtualisation: container(&Traces::of_container())
            .or_else(|| machine(&Traces::of_machine())),
        weigh: env!("CARGO_PKG_VERSION").to_owned(),
        at_start: BTreeMap::new(),
        at_end: BTreeMap::new(),
    })
}

/// The machine's memory.
pub(crate) fn memory_bytes() -> Result<u64, ProcError> {
    let meminfo = Path::new("/proc/meminfo");
    procfs::parse_mem_total(&procfs::read(meminfo)?)
        .ok_or_else(|| ProcError::Parse { path: meminfo.to_owned(), what: "MemTotal" })
}

/// The kernel's estimate of the memory that new programs could have, or what the control groups of this one may have, if that
/// is less; none where the kernel gives no estimate.
pub fn memory_available_bytes() -> Option<u64> {
    let machine = procfs::parse_mem_available(&procfs::read("/proc/meminfo").ok()?)?;
    Some(crate::cgroup::memory_limit().map_or(machine, |limit| limit.min(machine)))
}

/// The node's name.
pub fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether `/proc` hides processes from other users (hidepid); where that cannot be found out, it does.
pub fn hides_processes() -> bool {
    let Ok(mounts) = procfs::read("/proc/self/mounts") else { return true };
    hides_processes_by(&mounts)
}

fn hides_processes_by(mounts: &[u8]) -> bool {
    let text = String::from_utf8_lossy(mounts);
    let is_proc = |line: &&str| line.split(' ').skip(1).take(2).eq(["/proc", "proc"]);
    // What was mounted last is what is seen.
    let Some(line) = text.lines().rfind(is_proc) else { return true };
    let options = line.split(' ').nth(3).unwrap_or_default().split(',');
    let mut hidden = options.filter_map(|option| option.strip_prefix("hidepid="));
    hidden.next_back().is_some_and(|how| !["0", "off"].contains(&how))
}

/// The name of a user, or the number if there is no name.
pub fn user_name(uid: u32) -> String {
    procfs::read("/etc/passwd")
        .ok()
        .and_then(|text| procfs::parse_passwd(&text, uid))
        .unwrap_or_else(|| uid.to_string())
}

/// User and group of a name, as the machine's own list has them.
pub fn account(name: &str) -> Option<(u32, u32)> {
    procfs::parse_account(&procfs::read("/etc/passwd").ok()?, name)
}

/// The name of a process, if it is there, in the form that keeps its bytes (`byte_text`).
pub fn process_name(pid: u32) -> Option<String> {
    let name = procfs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(byte_text::keep(name.strip_suffix(b"\n").unwrap_or(&name)))
}

/// How many processes this machine's kernel has killed for want of memory since it was started, if it counts them.
pub fn oom_kills() -> Option<u64> {
    let text = procfs::read("/proc/vmstat").ok()?;
    procfs::number_after(&text, b"oom_kill ")
}

/// Whether a process has ended and only its parent has not asked for it yet (a zombie): all of its threads have. A
/// process whose first thread alone has ended runs on.
pub fn has_ended(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let has_thread_ended = |thread: std::fs::DirEntry| {
        matches!(state(&thread.path().join("stat")), Some(b'Z' | b'X') | None)
    };
    threads.flatten().all(has_thread_ended)
}

/// The process that a thread belongs to; of a process's first thread the same number.
pub fn process_of_thread(tid: u32) -> Option<u32> {
    procfs::parse_status(&procfs::read_of(tid, "status").ok()?).process
}

/// Where a process's program was put at its last exec: it differs after another one. None where that cannot be seen.
pub fn image_of(pid: u32) -> Option<[u64; 2]> {
    procfs::parse_stat(&procfs::read_of(pid, "stat").ok()?)?.image
}

/// Whether a process is stopped, as by a shell's job control; one that a tracer keeps stopped, too.
pub fn is_stopped(pid: u32) -> bool {
    matches!(state(Path::new(&format!("/proc/{pid}/stat"))), Some(b'T' | b't'))
}

/// The letter of its state, which stands behind its name, which may hold anything.
fn state(stat: &Path) -> Option<u8> {
    let stat = procfs::read(stat).ok()?;
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end_of_name + 2).copied()
}

/// The user this process runs as.
pub fn current_user() -> String {
    user_name(rustix::process::getuid().as_raw())
}

pub(crate) fn cpus_online() -> Result<u32, ProcError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    let by_list = procfs::read(path).and_then(|text| {
        procfs::parse_cpu_list(&String::from_utf8_lossy(&text))
            .ok_or_else(|| ProcError::Parse { path: path.to_owned(), what: "list of CPUs" })
    });
    // Some containers hide /sys: the CPUs we may use are the next best.
    by_list.or_else(|error| match std::thread::available_parallelism() {
        Ok(cpus) => Ok(cpus.get() as u32),
        Err(_) => Err(error),
    })
}

/// CPUs that the machine has, whether they are online or not: that list is the kernel's own, while containers may show
/// their share as those that are online. None where it is hidden.
pub(crate) fn cpus_present() -> Option<u32> {
    let list = |name: &str| procfs::read(Path::new("/sys/devices/system/cpu").join(name)).ok();
    let text = list("present").or_else(|| list("possible"))?;
    procfs::parse_cpu_list(&String::from_utf8_lossy(&text))
}

/// What containers and hypervisors leave to be seen; unread files are `None`.
#[derive(Clone, Debug, Default)]
struct Traces {
    /// `container=` in the environment of process 1 or our own.
    container_variable: Option<String>,
    has_dockerenv: bool,
    has_containerenv: bool,
    own_cgroup: Option<String>,
    hypervisor_type: Option<String>,
    product: Option<String>,
    vendor: Option<String>,
    cpuinfo: Option<String>,
    os_release: Option<String>,
}

/// So much of `/proc/cpuinfo` has the first CPU whole. All of a large machine's take the kernel milliseconds.
const CPU_BYTES: u64 = 8192;

fn trimmed(bytes: Result<Vec<u8>, ProcError>) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes.ok()?).trim().to_owned())
}

impl Traces {
    /// Those of containers.
    fn of_container() -> Traces {
        let text = |path: &str| trimmed(procfs::read(path));
        let of_init = text("/proc/1/environ").and_then(|all| {
            all.split('\0').find_map(|v| v.strip_prefix("container=").map(str::to_owned))
        });
        Traces {
            container_variable: of_init.or_else(|| std::env::var("container").ok()),
            has_dockerenv: Path::new("/.dockerenv").exists(),
            has_containerenv: Path::new("/run/.containerenv").exists(),
            own_cgroup: text("/proc/self/cgroup"),
            ..Traces::default()
        }
    }

    /// Those of hypervisors.
    fn of_machine() -> Traces {
        let text = |path: &str| trimmed(procfs::read(path));
        Traces {
            hypervisor_type: text("/sys/hypervisor/type"),
            product: text("/sys/class/dmi/id/product_name"),
            vendor: text("/sys/class/dmi/id/sys_vendor"),
            cpuinfo: trimmed(procfs::read_start("/proc/cpuinfo", CPU_BYTES)),
            os_release: text("/proc/sys/kernel/osrelease"),
            ..Traces::default()
        }
    }
}

/// The container that weigh runs in; `None` if nothing tells of one.
fn container(traces: &Traces) -> Option<String> {
    if let Some(name) = traces.container_variable.as_deref().filter(|n| !n.is_empty()) {
        return Some(name.to_owned());
    }
    if traces.has_containerenv {
        return Some("podman".to_owned());
    }
    if traces.has_dockerenv {
        return Some("docker".to_owned());
    }
    let cgroup = traces.own_cgroup.as_deref().unwrap_or_default();
    [("/docker", "docker"), ("/kubepods", "kubernetes"), ("/lxc", "lxc")]
        .iter()
        .find(|(mark, _)| cgroup.contains(mark))
        .map(|(_, name)| (*name).to_owned())
}

/// The virtual machine around it; `None` if nothing tells.
fn machine(traces: &Traces) -> Option<String> {
    if traces.os_release.as_deref().is_some_and(|r| r.to_ascii_lowercase().contains("microsoft")) {
        return Some("wsl".to_owned());
    }
    if let Some(kind) = traces.hypervisor_type.as_deref().filter(|k| !k.is_empty()) {
        return Some(kind.to_owned());
    }
    let maker = format!(
        "{} {}",
        traces.vendor.as_deref().unwrap_or_default(),
        traces.product.as_deref().unwrap_or_default()
    );
    const MAKERS: &[(&str, &str)] = &[
        ("KVM", "kvm"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Xen", "xen"),
        ("Bochs", "bochs"),
        ("Microsoft Corporation Virtual", "hyperv"),
        ("Google Compute", "google"),
        ("Amazon EC2", "amazon"),
    ];
    if let Some((_, name)) = MAKERS.iter().find(|(mark, _)| maker.contains(mark)) {
        return Some((*name).to_owned());
    }
    let cpuinfo = traces.cpuinfo.as_deref()?;
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags"))?;
    let in_vm = flags.split_ascii_whitespace().any(|f| f == "hypervisor");
    Some(if in_vm { "vm" } else { "none" }.to_owned())
}

/// Whether the kernel that runs is of this release or a later one; one that says nothing that can be read is not.
pub fn kernel_is_at_least(wanted: (u32, u32)) -> bool {
    let names = rustix::system::uname();
    release_of(&names.release().to_string_lossy()).is_some_and(|found| found >= wanted)
}

fn release_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn virtualisation(traces: &Traces) -> Option<String> {
        container(traces).or_else(|| machine(traces))
    }

    #[test]
    fn a_hidden_proc_is_known_by_its_options() {
        let with = |options: &str| {
            let text = format!(
                "proc /proc proc rw,nosuid{options} 0 0\nproc /mnt/proc proc rw,hidepid=2 0 0\n"
            );
            hides_processes_by(text.as_bytes())
        };
        assert!(!with("") && !with(",hidepid=0") && !with(",hidepid=off"));
        for hidden in
            [",hidepid=1", ",hidepid=2", ",hidepid=invisible", ",hidepid=ptraceable,gid=7"]
        {
            assert!(with(hidden), "{hidden}");
        }
        assert!(hides_processes_by(b"sysfs /sys sysfs rw 0 0\n"), "it is not known");
        let twice = b"proc /proc proc rw 0 0\nproc /proc proc rw,hidepid=4 0 0\n";
        assert!(hides_processes_by(twice), "the later one is seen");
    }

    #[test]
    fn this_machine_has_facts() {
        let host = host().unwrap();
        assert!(host.cpus > 0 && host.memory_bytes > 1 << 24);
        assert!(!host.node.is_empty() && host.kernel.contains('.'));
        assert!(["v1", "v2", "hybrid", "none"].contains(&host.cgroup_version.as_str()));
        assert_eq!(host.weigh, env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn releases_have_an_order() {
        assert_eq!(release_of("6.1.0-42-amd64"), Some((6, 1)));
        assert_eq!(release_of("5.13-rc1"), Some((5, 13)));
        assert_eq!(release_of("Linux"), None);
        assert!(kernel_is_at_least((2, 6)) && !kernel_is_at_least((99, 0)));
    }

    #[test]
    fn users_have_names_or_numbers() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_001), "4000000001");
    }

    #[test]
    fn the_innermost_thing_is_named() {
        let some = |text: &str| Some(text.to_owned());
        let vm = Traces {
            vendor: some("QEMU"),
            product: some("Standard PC"),
            cpuinfo: some("flags\t: fpu hypervisor sse"),
            ..Traces::default()
        };
        assert_eq!(virtualisation(&vm).as_deref(), Some("qemu"));
        let docker = Traces { has_dockerenv: true, ..vm.clone() };
        assert_eq!(virtualisation(&docker).as_deref(), Some("docker"));
        let pod = Traces { own_cgroup: some("0::/kubepods/x"), ..vm.clone() };
        assert_eq!(virtualisation(&pod).as_deref(), Some("kubernetes"));
        let nspawn = Traces { container_variable: some("systemd-nspawn"), ..docker };
        assert_eq!(virtualisation(&nspawn).as_deref(), Some("systemd-nspawn"));
        let unnamed = Traces { vendor: None, product: None, ..vm };
        assert_eq!(virtualisation(&unnamed).as_deref(), Some("vm"));
        let metal = Traces { cpuinfo: some("flags\t: fpu sse"), ..Traces::default() };
        assert_eq!(virtualisation(&metal).as_deref(), Some("none"));
        assert_eq!(virtualisation(&Traces::default()), None, "not known is not `none`");
        let wsl = Traces { os_release: some("5.15-Microsoft-standard-WSL2"), ..metal };
        assert_eq!(virtualisation(&wsl).as_deref(), Some("wsl"));
    }
}
