//! Parts of the kernel that only some calls touch, each against a witness: what the program itself
//! counted, or the kernel's own statistics.
#![allow(clippy::unwrap_used)]

#[path = "common/command.rs"]
mod command;
#[path = "common/traced.rs"]
mod traced;

use std::path::Path;
use std::process::Command;

use command::{Followed, all, field, later, wanted};
use traced::workload;
use weigh_collect::calls::name;
use weigh_schema::subsystem::{Account, SUBSYSTEMS, Subsystem};

/// A part's `waiting`.
fn waiting(account: &Account, part: &str) -> u64 {
    account.part(Subsystem::named(part).unwrap())[1]
}

/// A number of a part, over all calls.
fn over_all(followed: &Followed, part: &str, slot: &str) -> u64 {
    followed.cells.iter().map(|cell| field(&cell.account, part, slot)).sum()
}

/// Each single call's parts are its time, to the nanosecond.
#[track_caller]
fn parts_add_up(followed: &Followed) {
    for call in &followed.told {
        let parts = SUBSYSTEMS.iter().map(|s| call.account.part(s)[0] + call.account.part(s)[1]);
        let sum = parts.sum::<u64>() + field(&call.account, "sched", "run_queue_ns");
        assert_eq!(sum, call.ended_ns - call.began_ns, "{} {call:?}", name(call.number));
    }
}

fn succeeds(script: &str) -> bool {
    Command::new("sh").args(["-ec", script]).status().unwrap().success()
}

#[track_caller]
fn run(script: &str) {
    assert!(succeeds(script), "{script}");
}

/// An ext4 with a journal, in a file, mounted until it is dropped.
struct Journaled(tempfile::TempDir);

impl Journaled {
    fn new() -> Journaled {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = folder.path().display();
        run(&format!(
            "truncate -s 64M {place}/image; mkfs.ext4 -q -O has_journal,^fast_commit {place}/image; \
             mkdir {place}/mount; mount -o loop {place}/image {place}/mount"
        ));
        Journaled(folder)
    }

    fn path(&self) -> String {
        self.0.path().join("mount").display().to_string()
    }
}

impl Drop for Journaled {
    fn drop(&mut self) {
        run(&format!("umount {}", self.path()));
    }
}

#[test]
fn the_journal_has_its_changes_and_the_waits_for_its_commits() {
    let _alone = traced::alone();
    let place = Journaled::new();
    let command = [&*workload("commits"), &place.path()];
    let followed = command::follow(&wanted(&all()), &command, |_| ());
    assert!(followed.status.success());
    parts_add_up(&followed);
    let changed = &followed.cell("fchmod").account;
    assert_eq!(changed.calls(), followed.truth("fchmod"));
    assert_eq!(field(changed, "journal", "handles"), followed.truth("fchmod"));
    assert_eq!(waiting(changed, "journal"), 0);
    // Each of these had a change to commit.
    let waited = |call: &str| {
        let told = followed.told.iter().filter(|told| name(told.number) == call);
        told.filter(|told| waiting(&told.account, "journal") > 0).count() as u64
    };
    assert_eq!(waited("fsync"), followed.truth("fsync"));
    assert_eq!(waited("clock_nanosleep") + waited("wait4"), 0);
}

#[test]
fn pages_that_a_call_sends_on_their_way_are_counted() {
    let _alone = traced::alone();
    let place = Journaled::new();
    let command = [&*workload("commits"), &place.path()];
    let wanted = wanted(&["writeback", "block", "fs"]);
    let followed = command::follow(&wanted, &command, |_| ());
    parts_add_up(&followed);
    let begun = &followed.cell("sync_file_range").account;
    assert_eq!(field(begun, "writeback", "pages"), followed.truth("pages"));
    // What the kernel's own writers sent is not the call's own; waiting for them is, if they are slow.
    let synced = &followed.cell("syncfs").account;
    assert_eq!(field(synced, "writeback", "pages"), 0);
    assert!(waiting(synced, "writeback") > 0, "{synced:?}");
}

/// A process that makes pages dirty faster than the device's limit is held back.
#[test]
fn pauses_of_writers_are_no_waits_for_a_device() {
    let _alone = traced::alone();
    let place = Journaled::new();
    // Of this device alone: the machine's own limits stay as they are.
    let limits = format!("/sys/class/bdi/$(mountpoint -d {})", place.path());
    // Since 6.2.
    if !succeeds(&format!("test -e {limits}/max_bytes")) {
        return;
    }
    // A loop device keeps them for who has it next.
    let unlimited = format!("echo 0 >{limits}/strict_limit; echo 100 >{limits}/max_ratio");
    let script = format!(
        "echo 1 >{limits}/strict_limit; echo 1048576 >{limits}/max_bytes; trap '{unlimited}' EXIT; \
         dd if=/dev/zero of={}/file bs=16M count=2 2>/dev/null; echo done=1 >>$TRUTH_FILE",
        place.path()
    );
    let wanted = wanted(&["writeback", "block", "fs"]);
    let followed = command::follow(&wanted, &["sh", "-c", &script], |_| ());
    assert_eq!(followed.truth("done"), 1);
    parts_add_up(&followed);
    let written = &followed.cell("write").account;
    assert!(field(written, "writeback", "pauses") > 0, "{written:?}");
    // A pause ends with a tick of the kernel's clock, which may be near.
    let paused =
        followed.told.iter().filter(|call| field(&call.account, "writeback", "pauses") > 0);
    for call in paused {
        assert!(waiting(&call.account, "writeback") > 0, "{call:?}");
    }
}

#[test]
fn requests_to_a_server_are_counted_and_so_is_waiting_for_it() {
    if !Path::new("/sys/kernel/tracing/events/fuse").exists() {
        return;
    }
    let _alone = traced::alone();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = folder.path().display().to_string();
    let command = [&*workload("serve"), &place, "37", "3"];
    let followed = command::follow(&wanted(&all()), &command, |_| ());
    assert!(followed.status.success(), "{}", followed.truth);
    parts_add_up(&followed);
    let asked = &followed.cell("newfstatat").account;
    assert_eq!(followed.truth("getattr"), 37);
    assert_eq!(field(asked, "fuse", "requests"), 37);
    assert_eq!(later(asked, "fuse_requests"), 0);
    let (waited, served) = (waiting(asked, "fuse"), field(asked, "fuse", "server_ns"));
    assert!(served >= 37 * 3_000_000 && served <= followed.truth("stat_ns"), "{asked:?}");
    // The client may lose the CPU before it waits.
    assert!(waited > served / 2 && waited <= asked.time_ns(), "{asked:?}");
    // And now and then for a lock, which is a wait for nobody's answer: for less than two answers take.
    assert!(waiting(asked, "sched") < waited / 20, "{asked:?}");
}

/// Follows datagrams over a loopback whose queue is this; its own statistics are in the truth.
fn datagrams(queue: &str, count: u64) -> Followed {
    let script = format!(
        "ip link set lo up; tc qdisc add dev lo root {queue}; {} {count} 1009; \
         tc -s qdisc show dev lo | \
         sed -n 's/.*Sent [0-9]* bytes \\([0-9]*\\) pkt (dropped \\([0-9]*\\),.*/passed=\\1\\nthrown=\\2/p' \
         >>$TRUTH_FILE",
        workload("crowded")
    );
    let command = ["unshare", "-n", "sh", "-ec", &script];
    let followed = command::follow(&wanted(&["udp", "qdisc", "socket", "net"]), &command, |_| ());
    assert!(followed.status.success(), "{}", followed.truth);
    assert_eq!(followed.lost, 0);
    parts_add_up(&followed);
    followed
}

#[test]
fn packets_in_a_queue_are_who_put_them_there() {
    let _alone = traced::alone();
    // Twenty datagrams pass at once, the others one each 2 ms.
    let followed = datagrams("tbf rate 4mbit burst 20k limit 10m", 101);
    let sent = &followed.cell("sendto").account;
    assert_eq!(followed.truth("passed"), followed.truth("sent"));
    assert_eq!(field(sent, "qdisc", "packets"), followed.truth("sent"));
    let afterwards = later(sent, "qdisc_packets");
    assert!(afterwards > 50 && afterwards < 101, "{sent:?}");
    // The last one waits for all before it: 80 times 2 ms.
    assert!(later(sent, "qdisc_ns") > 80 * 81 / 2 * 2_000_000 / 2, "{sent:?}");
    assert_eq!((field(sent, "qdisc", "dropped"), later(sent, "qdisc_dropped")), (0, 0));
}

#[test]
fn packets_that_a_queue_throws_away_are_counted() {
    let _alone = traced::alone();
    let followed = datagrams("tbf rate 4mbit burst 20k limit 30k", 211);
    assert!(followed.truth("thrown") > 100, "{}", followed.truth);
    let dropped = over_all(&followed, "qdisc", "dropped") + followed.later("qdisc_dropped");
    assert_eq!(dropped, followed.truth("thrown"));
    assert_eq!(over_all(&followed, "qdisc", "packets"), followed.truth("passed"));
}

#[test]
fn datagrams_that_find_no_room_are_who_did_not_read_them() {
    if !Path::new("/sys/kernel/tracing/events/sock/sock_recv_length").exists() {
        return;
    }
    let _alone = traced::alone();
    let command = [&*workload("crowded"), "1001", "503"];
    let followed = command::follow(&wanted(&["udp", "socket"]), &command, |_| ());
    let (sent, received) = (followed.truth("sent"), followed.truth("received"));
    assert!(sent > received, "{}", followed.truth);
    for (slot, truth) in [
        ("datagrams", sent),
        ("receipts", received),
        ("sent_bytes", followed.truth("sent_bytes")),
        ("received_bytes", followed.truth("received_bytes")),
    ] {
        assert_eq!(over_all(&followed, "udp", slot), truth, "{slot}");
    }
    assert_eq!(later(&followed.cell("recvfrom").account, "udp_dropped"), sent - received);
}
