//! Where the programs of a probe are attached, in the words of whoever attaches them.

use weigh_collect::trace::{self, UserPlace};
use weigh_trace::probe::Probe;
use weigh_trace::signature::{Attach, Site};

/// How many places the event of a probe has.
pub fn places(probe: &Probe) -> usize {
    match &probe.attach {
        Attach::User { sites, .. } => sites.len(),
        _ => 1,
    }
}

/// They.
pub fn points(probe: &Probe) -> Vec<trace::Point> {
    match &probe.attach {
        Attach::Tracepoint { btf_id, module } => {
            vec![trace::Point::Tracepoint { btf_id: *btf_id, module: module.clone() }]
        }
        Attach::Raw { name } => vec![trace::Point::Raw { name: name.clone() }],
        Attach::Function { btf_id, module, returns } => {
            let (btf_id, module, returns) = (*btf_id, module.clone(), *returns);
            vec![trace::Point::Function { btf_id, module, returns }]
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
