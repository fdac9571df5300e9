//! The processes of the machine, from `/proc`: for a view of the moment, not for accounting.
//!
//! Reads `/proc/PID/stat` and, once per program, `cmdline` and `cgroup`; emits a row per process. Processes of a hidden `/proc`
//! (hidepid) are not in it.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use weigh_parse::node::control_group;

use crate::host::user_name;
use crate::procfs::{self, Stat, parse_cmdline, parse_stat};

/// A process as it was at a look.
#[derive(Clone, Debug)]
pub struct ProcessLook {
    /// What the kernel says of it.
    pub stat: Stat,
    /// Its user's name, or number.
    pub user: String,
    /// Its user's number.
    pub uid: u32,
    /// Its arguments, in the form that keeps their bytes.
    pub command: Vec<String>,
    /// CPU time since its start.
    pub cpu_seconds: f64,
    /// CPU time of children that it has waited for, and of theirs.
    pub children_cpu_seconds: f64,
    /// Resident size.
    pub rss_bytes: u64,
    /// The path of the control group that is a job, a unit or a container, if it is in one.
    pub group: Option<Vec<u8>>,
}

impl ProcessLook {
    /// Tells it from a later process of the same number.
    pub fn identity(&self) -> (u32, u64) {
        (self.stat.pid, self.stat.start_ticks)
    }
}

/// A program's arguments and its group, and at which look they were last needed.
struct CachedCommand {
    name: String,
    command: Vec<String>,
    group: Option<Vec<u8>>,
    look: u64,
}

/// Processes change groups seldom but when they are started: each is asked again after so many looks.
const LOOKS_OF_GROUP: u64 = 8;

/// Lists processes, and keeps what does not change.
pub struct ProcessList {
    commands: HashMap<(u32, u64), CachedCommand>,
    users: HashMap<u32, String>,
    looks: u64,
    ticks_per_second: f64,
    page_bytes: u64,
}

impl Default for ProcessList {
    fn default() -> ProcessList {
        ProcessList {
            commands: HashMap::new(),
            users: HashMap::new(),
            looks: 0,
            ticks_per_second: rustix::param::clock_ticks_per_second() as f64,
            page_bytes: rustix::param::page_size() as u64,
        }
    }
}

impl ProcessList {
    /// Processes for which `is_shown` says so by their user, threads of the kernel left out; and how many of them could not
    /// be read.
    pub fn look(&mut self, is_shown: &dyn Fn(u32) -> bool) -> (Vec<ProcessLook>, u64) {
        self.looks += 1;
        let (mut found, mut unreadable) = (Vec::new(), 0);
        for pid in pids() {
            match self.process(pid, is_shown) {
                Some(Ok(look)) => found.extend(look),
                Some(Err(_)) => unreadable += 1,
                None => {}
            }
        }
        let looks = self.looks;
        self.commands.retain(|_, cached| cached.look == looks);
        (found, unreadable)
    }

    /// None where it is not shown or has ended meanwhile.
    fn process(
        &mut self,
        pid: u32,
        is_shown: &dyn Fn(u32) -> bool,
    ) -> Option<Result<Option<ProcessLook>, procfs::ProcError>> {
        let uid = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        if !is_shown(uid) {
            return None;
        }
        let stat = match procfs::read_of(pid, "stat") {
            Ok(text) => parse_stat(&text)?,
            Err(error) if error.is_gone() => return None,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok((!is_of_kernel(&stat)).then(|| self.row(stat, uid))))
    }

    fn row(&mut self, stat: Stat, uid: u32) -> ProcessLook {
        let (command, group) = self.command(&stat);
        let user = self.users.entry(uid).or_insert_with(|| user_name(uid)).clone();
        let seconds = |ticks: u64| ticks as f64 / self.ticks_per_second;
        ProcessLook {
            cpu_seconds: seconds(stat.user_ticks + stat.system_ticks),
            children_cpu_seconds: seconds(stat.child_user_ticks + stat.child_system_ticks),
            rss_bytes: stat.rss_pages.saturating_mul(self.page_bytes),
            command,
            group,
            user,
            uid,
            stat,
        }
    }

    /// An exec gives a process another name and other arguments.
    fn command(&mut self, stat: &Stat) -> (Vec<String>, Option<Vec<u8>>) {
        let key = (stat.pid, stat.start_ticks);
        let look = self.looks;
        if let Some(cached) = self.commands.get_mut(&key)
            && cached.name == stat.name
        {
            cached.look = look;
            if (look + u64::from(stat.pid)).is_multiple_of(LOOKS_OF_GROUP) {
                cached.group = read_group(stat.pid);
            }
            return (cached.command.clone(), cached.group.clone());
        }
        let (command, group) = (read_command(stat.pid), read_group(stat.pid));
        let (name, of_row) = (stat.name.clone(), (command.clone(), group.clone()));
        self.commands.insert(key, CachedCommand { name, command, group, look });
        of_row
    }
}

/// Arguments that are kept of a process: one may have megabytes.
const MOST_BYTES: usize = 4096;

pub(crate) fn read_command(pid: u32) -> Vec<String> {
    let text = procfs::read_of(pid, "cmdline").unwrap_or_default();
    parse_cmdline(&text[..text.len().min(MOST_BYTES)])
}

/// Where several hierarchies have it: the job's before the container's before the unit's.
fn read_group(pid: u32) -> Option<Vec<u8>> {
    let text = procfs::read_of(pid, "cgroup").ok()?;
    let lines = procfs::parse_cgroup(&text);
    let groups = lines.iter().filter_map(|line| control_group(line.path.as_os_str().as_bytes()));
    groups.max_by_key(|group| group.kind).map(|group| group.path.to_vec())
}

/// Threads of the kernel descend from the second process.
fn is_of_kernel(stat: &Stat) -> bool {
    (stat.pid == 2 || stat.parent_pid == 2) && stat.virtual_bytes == 0
}

pub(crate) fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
