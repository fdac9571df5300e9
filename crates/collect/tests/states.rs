//! States that calls meet: CPUs, connections, queues of devices. Each against what the program itself has done, or was told
//! by the kernel right before.
#![allow(clippy::unwrap_used)]

#[path = "common/command.rs"]
mod command;
#[path = "common/traced.rs"]
mod traced;

use std::process::Command;

use command::{Followed, field, later, settle, until_settled, wanted};
use traced::workload;
use weigh_schema::subsystem::Account;

fn follow(parts: &[&str], command: &[&str]) -> Followed {
    let followed = command::follow(&wanted(parts), command, |_| ());
    assert!(followed.status.success(), "{}", followed.truth);
    assert_eq!(followed.lost, 0);
    followed
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[track_caller]
fn output(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

#[test]
fn moves_to_another_cpu_are_counted_as_the_kernel_counts_them() {
    if !is_root() {
        return;
    }
    let _alone = traced::alone();
    let followed = follow(&["sched"], &[&workload("states"), "migrate", "37"]);
    let moved = field(&followed.cell("sched_setaffinity").account, "sched", "migrations");
    // The first of them may have been one, too.
    let moves = followed.truth("moves");
    assert!(moved == moves || moved == moves + 1, "{moved}, and not {moves}");
    if followed.truth.contains("moves_counted") {
        assert_eq!(followed.truth("moves_counted"), moves);
    }
    let told = followed.told.iter().map(|call| field(&call.account, "sched", "migrations"));
    let all = followed.cells.iter().map(|cell| field(&cell.account, "sched", "migrations"));
    assert_eq!(told.sum::<u64>(), all.sum::<u64>());
}

/// What the account has of the connection's state: microseconds, segments, segments.
fn state(account: &Account) -> [u64; 3] {
    let of = |slot| field(account, "tcp", slot);
    [of("srtt_ns") / 1000, of("cwnd"), of("unacked")]
}

#[test]
fn a_connection_is_as_the_kernel_says_it_is_at_the_last_send() {
    if !is_root() {
        return;
    }
    let _alone = traced::alone();
    let followed = follow(&["tcp"], &[&workload("states"), "connection", "5"]);
    let sent = &followed.cell("sendto").account;
    let truth = ["srtt_us", "cwnd", "unacked"].map(|key| followed.truth(key));
    assert_eq!(state(sent), truth);
    assert!(truth.iter().all(|number| *number > 0), "{truth:?}");
    let last =
        followed.told.iter().rev().find(|call| call.number == followed.cell("sendto").number);
    assert_eq!(state(&last.unwrap().account), truth);
    // Each packet as it leaves; since 6.16 as it is handed to TCP, too.
    let (looks, sends) = (field(sent, "tcp", "observations"), followed.truth("sends"));
    assert!(looks == sends || looks == 2 * sends, "{looks} of {sends}");
    // Of calls that send nothing it is not known.
    let seen = followed.cell("getsockopt").account.parts();
    assert!(seen.get("tcp").is_none_or(|tcp| !tcp.contains_key("cwnd")), "{seen:?}");
}

/// A device that lies in a file, on a file system of its own that can be frozen.
struct Device {
    folder: tempfile::TempDir,
    path: String,
}

impl Device {
    fn new() -> Device {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = folder.path().display();
        let path = output(&format!(
            "truncate -s 64M {place}/image; mkfs.ext4 -q {place}/image; mkdir {place}/mount; \
             mount -o loop {place}/image {place}/mount; \
             dd if=/dev/zero of={place}/mount/disk bs=1M count=4 status=none conv=fsync; \
             losetup --find --show {place}/mount/disk"
        ));
        Device { folder, path }
    }

    fn mount(&self) -> String {
        self.folder.path().join("mount").display().to_string()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        output(&format!("losetup --detach {}; umount {}", self.path, self.mount()));
    }
}

#[test]
fn requests_in_flight_are_those_that_the_device_has() {
    if !is_root() {
        return;
    }
    let _alone = traced::alone();
    let device = Device::new();
    // One after the other: each is alone there.
    let followed = follow(&["block"], &[&workload("states"), "direct", &device.path, "37"]);
    let read = &followed.cell("pread64").account;
    let of = |slot| field(read, "block", slot);
    assert_eq!((of("issued"), of("in_flight"), of("in_flight_most")), (37, 37, 1));
    // All at once.
    let command = [&*workload("states"), "frozen", &device.path, "23", &device.mount()];
    let followed = until_settled(|settled| {
        command::follow(&wanted(&["block"]), &command, |calls| *settled = settle(calls))
    });
    assert!(followed.status.success(), "{}", followed.truth);
    let handed = &followed.cell("io_submit").account;
    let of = |slot: &str| field(handed, "block", slot) + later(handed, &format!("block_{slot}"));
    assert_eq!((of("issued"), of("in_flight")), (23, 23 * 24 / 2));
}

#[test]
fn packets_in_a_queue_are_all_that_wait_there() {
    if !is_root() {
        return;
    }
    let _alone = traced::alone();
    // One datagram passes, and the others wait for longer than the test does.
    let queue = "tbf rate 80bit burst 1060 limit 10m";
    let script = format!(
        "ip link set lo up; tc qdisc add dev lo root {queue} 2>/dev/null; {} 41 1009",
        workload("crowded")
    );
    let command = ["unshare", "-n", "sh", "-ec", &script];
    let followed = follow(&["qdisc"], &command);
    assert_eq!(followed.truth("received"), 1);
    let sent = &followed.cell("sendto").account;
    let of = |slot| field(sent, "qdisc", slot);
    assert_eq!((of("packets"), of("in_queue"), of("in_queue_most")), (42, 1 + 41 * 42 / 2, 41));
}
