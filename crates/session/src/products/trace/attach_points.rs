//! Attach points: where the programs of a probe are attached.

use weigh_collect::trace::{self, Instruction, UserPlace};
use weigh_trace::probe::Probe;
use weigh_trace::signature::{Attach, Site};

/// How many places the event of a probe has.
pub fn places(probe: &Probe) -> usize {
    match &probe.attach {
        Attach::User { sites, .. } => sites.len(),
        Attach::Call { .. } => 2,
        _ => 1,
    }
}

/// Bytes that its programs keep of a system call under way, if they do.
pub fn saved_bytes(probe: &Probe) -> Option<u32> {
    match probe.attach {
        Attach::Call { saved_bytes, .. } => Some(saved_bytes),
        _ => None,
    }
}

/// The attach points of a probe.
pub fn points(probe: &Probe) -> Vec<trace::Point> {
    match &probe.attach {
        Attach::Tracepoint { btf_id, module } => {
            vec![trace::Point::Tracepoint { btf_id: *btf_id, module: module.clone() }]
        }
        Attach::Raw { name } => vec![trace::Point::Raw { name: name.clone() }],
        Attach::Call { enter, exit, .. } => {
            let point = |btf_id: &u32| trace::Point::Tracepoint { btf_id: *btf_id, module: None };
            vec![point(enter), point(exit)]
        }
        Attach::Function { btf_id, module, returns } => {
            let (btf_id, module, returns) = (*btf_id, module.clone(), *returns);
            vec![trace::Point::Function { btf_id, module, returns }]
        }
        Attach::Instruction { name, plus } => {
            let (function, offset) = (name.clone(), *plus);
            vec![trace::Point::Instruction(Instruction { function, offset })]
        }
        Attach::User { path, sites, returns } => {
            let point = |site: &Site| {
                trace::Point::User(UserPlace {
                    path: path.into(),
                    offset: site.offset,
                    semaphore: site.semaphore,
                    returns: *returns,
                })
            };
            sites.iter().map(point).collect()
        }
    }
}
