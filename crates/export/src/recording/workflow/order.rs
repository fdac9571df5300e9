//! Which flows can stand in a graph without circles: what a workflow's formats, and their readers, ask for.

use std::collections::{BTreeMap, BTreeSet};

use weigh_schema::io::Flow;

/// Leaves out each flow that would close a circle with those before it; returns how many.
pub fn without_circles(flows: &mut Vec<Flow>) -> usize {
    let before = flows.len();
    let mut next: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    flows.retain(|flow| {
        let is_known = next.get(&flow.writer).is_some_and(|behind| behind.contains(&flow.reader));
        let closes = || flow.writer == flow.reader || leads(&next, flow.reader, flow.writer);
        let keeps = is_known || !closes();
        if keeps {
            next.entry(flow.writer).or_default().insert(flow.reader);
        }
        keeps
    });
    before - flows.len()
}

/// Whether one comes from `from` to `to`.
fn leads(next: &BTreeMap<u32, BTreeSet<u32>>, from: u32, to: u32) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(pid) = open.pop() {
        if pid == to {
            return true;
        }
        let behind = next.get(&pid).into_iter().flatten();
        open.extend(behind.copied().filter(|pid| seen.insert(*pid)));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(writer: u32, reader: u32) -> Flow {
        Flow { writer, reader, ..Flow::default() }
    }

    #[test]
    fn what_closes_a_circle_is_left_out_and_counted() {
        let mut flows =
            vec![flow(1, 2), flow(2, 3), flow(1, 2), flow(3, 1), flow(1, 3), flow(4, 4)];
        assert_eq!(without_circles(&mut flows), 2);
        let kept: Vec<_> = flows.iter().map(|flow| (flow.writer, flow.reader)).collect();
        assert_eq!(kept, [(1, 2), (2, 3), (1, 2), (1, 3)]);
    }
}
