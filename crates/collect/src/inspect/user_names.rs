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

    /// The name of an address in a process: `function+0x1`, else `module+0x1`, else the address.
    pub fn name(&mut self, pid: u32, address: u64) -> Rc<str> {
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        let process = self.processes.entry(pid).or_default();
        if process.seen_in != Some(self.round) {
            process.seen_in = Some(self.round);
            process.look(pid);
        }
        let Process { names, maps, .. } = process;
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        let name = || self.modules.name(pid, maps, address).into();
        Rc::clone(names.entry(address).or_insert_with(name))
    }
}

impl Process {
    fn look(&mut self, pid: u32) {
        // Who has ended has no mappings any more.
        let Ok(text) = procfs::read_of(pid, "maps") else { return };
        if !text.is_empty() && text != self.text {
            self.maps = procfs::parse_maps(&text);
            self.names.clear();
            self.text = text;
        }
    }
}
