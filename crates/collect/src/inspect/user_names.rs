//! Names for addresses in processes, remembered: the same addresses come again and again.
//!
//! Reads the mappings of processes while they live, again in each round in which they are asked for, and the
//! symbols of the files in them; emits names. Of a process that has ended it knows what it saw last; of one
//! that it never saw, nothing: its addresses stay what they are.

use std::collections::HashMap;
use std::rc::Rc;

use super::symbols::Modules;
use crate::procfs::{self, MapEntry};

/// More processes, or addresses of one, are forgotten.
const MOST_PROCESSES: usize = 1024;
const MOST_NAMES: usize = 1 << 16;

/// What is known.
#[derive(Default)]
pub struct UserNames {
    modules: Modules,
    processes: HashMap<u32, Process>,
    round: u64,
}

/// A process as it was seen last.
#[derive(Default)]
struct Process {
    text: Vec<u8>,
    maps: Vec<MapEntry>,
    names: HashMap<u64, Rc<str>>,
    seen_in: Option<u64>,
}

impl UserNames {
    /// From now on processes may have changed.
    pub fn next_round(&mut self) {
        self.round += 1;
    }

    /// What lies in a process's memory will be asked for: it may be gone by then. If it is known what lay there it
    /// need not be looked at `again` in another round.
    pub fn meet(&mut self, pid: u32, again: bool) {
        let round = self.round;
        let process = self.process(pid);
        if process.seen_in != Some(round) && (again || process.maps.is_empty()) {
            process.seen_in = Some(round);
            process.look(pid);
        }
    }

    fn process(&mut self, pid: u32) -> &mut Process {
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        self.processes.entry(pid).or_default()
    }

    /// The name of an address in a process: `function+0x1`, else `module+0x1`, else the address.
    pub fn name(&mut self, pid: u32, address: u64) -> Rc<str> {
        self.meet(pid, true);
        let Some(Process { names, maps, .. }) = self.processes.get_mut(&pid) else {
            return format!("{address:#x}").into();
        };
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        let name = || self.modules.name(pid, maps, address).into();
        Rc::clone(names.entry(address).or_insert_with(name))
    }
}

impl Process {
    fn look(&mut self, pid: u32) {
        // A process that has ended has no mappings any more.
        let Ok(text) = procfs::read_of(pid, "maps") else { return };
        if !text.is_empty() && text != self.text {
            self.maps = procfs::parse_maps(&text);
            self.names.clear();
            self.text = text;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A process that sleeps, and an address of its code; it is gone when this comes back.
    fn ends(names: &mut UserNames, meets: bool) -> Rc<str> {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let address = || {
            let maps = procfs::parse_maps(&procfs::read_of(pid, "maps").ok()?);
            let is_own = |map: &&MapEntry| map.inode != 0 && map.name.ends_with(b"sleep");
            maps.iter().find(is_own).map(|map| map.start + 0x10)
        };
        let address = loop {
            if let Some(address) = address() {
                break address;
            }
            std::thread::yield_now();
        };
        if meets {
            names.meet(pid, false);
        }
        child.kill().and_then(|()| child.wait()).unwrap();
        names.next_round();
        names.name(pid, address)
    }

    #[test]
    fn who_was_met_has_names_when_he_is_gone() {
        let mut names = UserNames::default();
        let told = ends(&mut names, true);
        assert!(told.contains('+') && told.starts_with("sleep"), "{told}");
        let told = ends(&mut names, false);
        assert!(told.starts_with("0x"), "{told}");
    }
}
