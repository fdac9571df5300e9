//! All that a command can be run under: weigh in each of its ways, and the peers that are here.

use std::rc::Rc;

use weigh_schema::Quality;

use crate::page::{Page, Table};
use crate::peers::{Installed, PEERS};
use crate::runs::{Arm, Bench};
use crate::ways::Way;

/// What tools can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Greatest memory held at one moment, in bytes.
    Memory,
    /// Bytes read by calls.
    Read,
    /// Bytes written by calls.
    Written,
    /// Processes ever seen.
    Processes,
    /// CPU time, in seconds.
    Cpu,
}

impl Quantity {
    /// weigh's name for it.
    pub fn metric(self) -> &'static str {
        match self {
            Quantity::Memory => "memory_peak_bytes",
            Quantity::Read => "io_read_bytes_total",
            Quantity::Written => "io_written_bytes_total",
            Quantity::Processes => "processes_total",
            Quantity::Cpu => "cpu_seconds",
        }
    }
}

/// What a tool says of a quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The value, if it gives one.
    pub value: Option<f64>,
    /// How far it can be trusted, in its own words; peers say nothing of that.
    pub quality: Option<Quality>,
    /// Why.
    pub reason: Option<String>,
}

/// One of them.
#[derive(Clone)]
pub enum Tool {
    /// weigh, in one of its ways.
    Weigh(Way),
    /// Another tool.
    Peer(Rc<Installed>),
}

impl Tool {
    /// Its name in tables.
    pub fn name(&self) -> String {
        match self {
            Tool::Weigh(way) => way.to_string(),
            Tool::Peer(peer) => peer.peer.name.to_string(),
        }
    }

    /// A command run under it.
    pub fn arm(&self) -> Arm {
        match self {
            Tool::Weigh(way) => Arm::Weigh(way.options()),
            Tool::Peer(peer) => Arm::Peer(Rc::clone(peer)),
        }
    }

    /// The way, if it is weigh.
    pub fn way(&self) -> Option<Way> {
        match self {
            Tool::Weigh(way) => Some(*way),
            Tool::Peer(_) => None,
        }
    }
}

/// Which are here.
pub struct Tools {
    /// weigh's ways that work here.
    pub ways: Vec<Tool>,
    /// Peers that work here.
    pub peers: Vec<Tool>,
    /// What does not, and why.
    pub absent: Vec<(String, String)>,
}

impl Tools {
    /// Tries all of them.
    pub fn find(bench: &Bench) -> Tools {
        let mut tools = Tools { ways: Vec::new(), peers: Vec::new(), absent: Vec::new() };
        for way in Way::all() {
            eprintln!("trying {way}");
            match bench.tries_weigh(way.options()) {
                Ok(()) => tools.ways.push(Tool::Weigh(way)),
                Err(error) => tools.absent.push((format!("weigh, {way}"), format!("{error:#}"))),
            }
        }
        for peer in PEERS {
            eprintln!("trying {}", peer.name);
            match Installed::find(peer, bench) {
                Ok(installed) => tools.peers.push(Tool::Peer(Rc::new(installed))),
                Err(error) => tools.absent.push((peer.name.to_string(), format!("{error:#}"))),
            }
        }
        tools
    }

    /// weigh's ways first.
    pub fn all(&self) -> Vec<Tool> {
        self.ways.iter().chain(&self.peers).cloned().collect()
    }

    /// Which peers there are, and which not.
    pub fn write(&self, page: &mut Page) {
        page.heading(2, "Tools");
        page.paragraph(
            "weigh by each mechanism and level (`bpf 2` is `--mechanism bpf --level 2`), and the \
             peers that were found here:",
        );
        let mut table = Table::of_words(["peer", "version", "run as"]);
        for tool in &self.peers {
            let Tool::Peer(peer) = tool else { continue };
            let name = peer.peer.name.to_string();
            table.row([name, peer.version.clone(), format!("`{}`", peer.usage())]);
        }
        page.table(&table);
        let failures = self.peers.iter().filter_map(|tool| match tool {
            Tool::Peer(peer) if !peer.failures.is_empty() => {
                Some((peer.peer.name.to_string(), peer.failures.join("; ")))
            }
            _ => None,
        });
        let failures: Vec<_> = failures.collect();
        let mut list = |before: &str, entries: &[(String, String)]| {
            if entries.is_empty() {
                return;
            }
            page.paragraph(before);
            for (name, reason) in entries {
                let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
                page.item(&format!("{name}: {reason}"));
            }
            page.paragraph("");
        };
        list("Options that failed here before those:", &failures);
        list("Not measured, because it is not here or does not work here:", &self.absent);
    }
}
