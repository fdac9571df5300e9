//! Pairs that are drawn on a page where none are asked for: of events whose names say that the one ends what the
//! other begins.

use weigh_trace::synthesis::ask::Ask;

/// Both by the same packet, request, or timer: what the events are about.
const BY_ID: [(&str, &str); 5] = [
    ("net:net_dev_queue", "net:net_dev_start_xmit"),
    ("net:net_dev_start_xmit", "net:net_dev_xmit"),
    ("net:netif_rx", "net:netif_receive_skb"),
    ("block:block_rq_issue", "block:block_rq_complete"),
    ("timer:timer_expire_entry", "timer:timer_expire_exit"),
];
/// These happen on a CPU, and are of no thread.
const OF_CPU: [&str; 2] = ["irq:", "irq_vectors:"];
/// How names end of what begins and of what ends.
const ENDS: [(&str, &str); 5] = [
    ("_enter", "_exit"),
    ("_entry", "_exit"),
    ("_begin", "_end"),
    ("_start", "_end"),
    ("_start", "_done"),
];

/// The pairs among events of these names.
pub fn pairs(names: &[&str]) -> Vec<Ask> {
    // By its name, unless several have it.
    let called = |number: usize| match names.iter().filter(|name| **name == names[number]).count() {
        1 => names[number].to_string(),
        _ => number.to_string(),
    };
    let mut found = Vec::new();
    for (first, one) in names.iter().enumerate() {
        let second = (0..names.len()).find_map(|second| Some((second, by(one, names[second])?)));
        if let Some((second, by)) = second
            && let Ok(ask) =
                Ask::latency(&format!("{} -> {} by {by}", called(first), called(second)))
        {
            found.push(ask);
        }
    }
    found
}

/// What the two have in common, if the second ends the first.
fn by(first: &str, second: &str) -> Option<&'static str> {
    if BY_ID.contains(&(first, second)) {
        return Some("id");
    }
    let is_end = ENDS.iter().any(|(begin, end)| {
        let stem = first.strip_suffix(begin);
        stem.is_some() && stem == second.strip_suffix(end)
    });
    if !is_end && second.strip_suffix("%return") != Some(first) {
        return None;
    }
    Some(if OF_CPU.iter().any(|group| first.starts_with(group)) { "cpu" } else { "tid" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_another_is_known_by_its_name() {
        let found = |names: &[&str]| -> Vec<String> {
            pairs(names).into_iter().map(|ask| ask.text).collect()
        };
        let calls = ["raw_syscalls:sys_enter", "sched:sched_switch", "raw_syscalls:sys_exit"];
        assert_eq!(found(&calls), ["raw_syscalls:sys_enter -> raw_syscalls:sys_exit by tid"]);
        assert_eq!(found(&["a_begin", "a_end", "a_end"]), ["a_begin -> 1 by tid"]);
        let mixed = [
            "irq:softirq_exit",
            "irq:softirq_entry",
            "user:libc.so.6:malloc%return",
            "user:libc.so.6:malloc",
            "net:net_dev_queue",
            "net:net_dev_start_xmit",
        ];
        let expected = [
            "irq:softirq_entry -> irq:softirq_exit by cpu",
            "user:libc.so.6:malloc -> user:libc.so.6:malloc%return by tid",
            "net:net_dev_queue -> net:net_dev_start_xmit by id",
        ];
        assert_eq!(found(&mixed), expected);
        assert!(found(&["net:netif_receive_skb", "sched:sched_switch"]).is_empty());
    }
}
