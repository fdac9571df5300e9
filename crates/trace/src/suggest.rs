//! The names that exist which are nearest to one that does not.

/// How many are named.
const NAMED: usize = 5;

/// The nearest of these names, the nearest first. What begins with the other, or holds it, is nearer
/// than what only looks alike.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| !name.is_empty())
        .filter_map(|name| Some((distance(&wanted, &name.to_lowercase())?, name)))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.len().cmp(&b.1.len())).then(a.1.cmp(b.1)));
    found.dedup_by(|a, b| a.1 == b.1);
    found.into_iter().take(NAMED).map(|(_, name)| name.to_string()).collect()
}

/// How far apart; none if they have next to nothing in common.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let edits = edits(wanted.as_bytes(), name.as_bytes());
    let allowed = wanted.len().max(3).div_ceil(3);
    let holds = wanted.len() >= 3 && (name.contains(wanted) || wanted.contains(name));
    match (edits <= allowed, holds && name.len() >= 3) {
        (true, _) => Some(edits),
        (false, true) => Some(allowed + 1 + name.len().abs_diff(wanted.len())),
        (false, false) => None,
    }
}

/// Insertions, deletions, replacements, and swaps of neighbours between two names.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(x != y);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_first() {
        let names = ["net_dev_queue", "net_dev_xmit", "netif_rx", "sched_switch"];
        assert_eq!(nearest("net_dev_qeue", names.into_iter())[0], "net_dev_queue");
        assert_eq!(nearest("lne", ["len", "data_len", "sk"].into_iter())[0], "len");
        assert_eq!(nearest("switch", names.into_iter()), ["sched_switch"]);
        assert!(nearest("zzzzzz", names.into_iter()).is_empty());
    }
}
