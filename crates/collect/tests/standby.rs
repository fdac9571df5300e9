//! Programs that every packet passes: there while they have something to see, and only then. Held to the links
//! that the kernel shows for this process.
#![allow(clippy::unwrap_used)]

#[path = "common/command.rs"]
mod command;
#[path = "common/traced.rs"]
mod traced;

use command::{Followed, field, wanted};
use traced::workload;
use weigh_collect::calls::KernelCalls;
use weigh_schema::subsystem::Subsystem;

/// How many links this process has.
fn links() -> usize {
    let entries = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let about = entries.map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default());
    about.filter(|about| about.contains("link_id:")).count()
}

fn run(calls: &mut KernelCalls, script: &str) -> Followed {
    let followed = command::run(calls, &["unshare", "-n", "sh", "-ec", script], |_| ());
    assert!(followed.status.success(), "{}", followed.truth);
    calls.adapt().unwrap();
    followed
}

/// The packets of one call, how often its driver was entered for one, and whether it lacks something.
fn packets(followed: &Followed, call: &str) -> (u64, u64, bool) {
    let net = Subsystem::named("net").unwrap();
    let account = &followed.cell(call).account;
    (field(account, "net", "packets"), account.part(net)[2], account.unmeasured(net))
}

/// Over a pair of devices with drivers, one datagram after the other.
fn through_devices(count: u32, pause: &str) -> String {
    format!(
        "ip link add one type veth peer name other; ip address add 10.9.8.1/24 dev one; \
         ip link set one up; ip link set other up; \
         ip neighbour add 10.9.8.2 lladdr 02:00:00:00:00:01 dev one; : >$TRUTH_FILE; \
         exec bash -c 'exec 3>/dev/udp/10.9.8.2/9; for i in $(seq {count}); do {pause}; printf x >&3; done'"
    )
}

#[test]
fn drivers_are_let_go_of_where_none_has_a_packet_and_come_back_with_the_first() {
    let _alone = traced::alone();
    let mut calls = KernelCalls::open(&wanted(&["net"])).unwrap();
    calls.tell_from(0);
    let all = links();
    let loopback = format!("ip link set lo up; {} 1201 11", workload("crowded"));
    let (sent, entered, lacks) = packets(&run(&mut calls, &loopback), "sendto");
    assert_eq!((entered, lacks), (0, false));
    assert!(sent >= 1201, "{sent}");
    assert_eq!(links(), all - 2);
    assert_eq!(calls.not_driven(), 0);

    let later = run(&mut calls, &through_devices(7, "sleep 0.5"));
    let (sent, entered, lacks) = packets(&later, "write");
    assert_eq!(links(), all);
    assert_eq!((sent, lacks), (7, true), "{entered}");
    assert!(calls.not_driven() >= 1);
    assert_eq!(entered + calls.not_driven(), sent);
}

#[test]
fn drivers_stay_where_one_had_a_packet() {
    let _alone = traced::alone();
    let mut calls = KernelCalls::open(&wanted(&["net"])).unwrap();
    calls.tell_from(0);
    let all = links();
    let script =
        format!("ip link set lo up; {} 1201 11; {}", workload("crowded"), through_devices(0, ":"));
    let first = run(&mut calls, &through_devices(5, ":"));
    assert_eq!(packets(&first, "write"), (5, 5, false));
    run(&mut calls, &script);
    assert_eq!((links(), calls.not_driven()), (all, 0));
}

/// Those of a connection within a machine come one by one, most often.
#[test]
fn where_packets_come_in_is_looked_at_once_they_come_together() {
    let _alone = traced::alone();
    let mut calls = KernelCalls::open(&wanted(&["tcp"])).unwrap();
    let all = links();
    // A queue that lets go of some at once.
    let together = format!(
        "ip link set lo up; tc qdisc add dev lo root tbf rate 400mbit burst 256k limit 10m; {} 4000003 0",
        workload("segments")
    );
    let followed = run(&mut calls, &together);
    assert_eq!(links(), all + 1);
    assert!(followed.later("softirq_ns") > 0);
}
