//! What calls cause later, against what the program itself knows.
#![allow(clippy::unwrap_used)]

#[path = "common/command.rs"]
mod command;
#[path = "common/traced.rs"]
mod traced;

use command::{Followed, field, later, settle, until_settled, wanted};
use traced::workload;
use weigh_collect::calls::{CallsRequest, STORES, name};
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::subsystem::Account;

const PAGE: u64 = 4096;

/// Follows writers by thread until all they wrote is on the device.
fn writers(kind: &str, sharing: Sharing) -> Followed {
    // Each has the kernel write everything: pages of others, too, between two of their writes.
    let _alone = traced::alone();
    let wanted =
        CallsRequest { grouping: Grouping::Thread, sharing, ..wanted(&["pagecache", "block"]) };
    let followed = until_settled(|settled| {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let command = [&*workload("writers"), kind, folder.path().to_str().unwrap()];
        command::follow(&wanted, &command, |calls| *settled = settle(calls))
    });
    assert!(followed.status.success(), "{}", followed.truth);
    assert_eq!(followed.lost, 0);
    followed
}

#[test]
fn pages_that_the_kernel_writes_are_their_writers() {
    let followed = writers("one", Sharing::Bytes);
    let written = followed.later_of(followed.truth("first"), "pwrite64", "block_bytes");
    assert_eq!(written, followed.truth("first_pages") * PAGE);
}

#[test]
fn each_of_two_writers_has_its_pages_though_others_sync() {
    let followed = writers("two", Sharing::Bytes);
    for (who, bytes) in [("first", 10_000_019), ("second", 30_000_007)] {
        assert_eq!(followed.truth(&format!("{who}_bytes")), bytes);
        let written = followed.later_of(followed.truth(who), "pwrite64", "block_bytes");
        assert_eq!(written, followed.truth(&format!("{who}_pages")) * PAGE, "{who}");
    }
    let synced = followed.cells.iter().filter(|cell| name(cell.number) == "fsync");
    let carried: Vec<(u64, u64)> = synced.map(|cell| carried_of(&cell.account)).collect();
    assert_eq!(carried.len(), 2, "{carried:?}");
    for (carried, transferred) in carried {
        assert!(carried <= transferred, "{carried} of {transferred}");
    }
}

fn carried_of(account: &Account) -> (u64, u64) {
    (field(account, "block", "carried_bytes"), field(account, "block", "transferred_bytes"))
}

#[test]
fn pages_of_one_file_that_two_write_in_turn_are_told_apart() {
    let followed = writers("pages", Sharing::Bytes);
    for who in ["first", "second"] {
        let written = followed.later_of(followed.truth(who), "pwrite64", "block_bytes");
        assert_eq!(written, 1001 * PAGE, "{who}");
    }
}

#[test]
fn stores_to_mapped_files_are_charged_to_the_thread() {
    let followed = writers("stores", Sharing::Bytes);
    for (who, pages) in [("first", 1201), ("second", 601)] {
        let thread = followed.truth(who);
        let cell = followed.cells.iter().find(|c| c.of[1] == thread && c.number == STORES).unwrap();
        assert_eq!(field(&cell.account, "pagecache", "dirtied_pages"), pages, "{who}");
        assert_eq!(followed.later_of(thread, "(mmap)", "block_bytes"), pages * PAGE, "{who}");
    }
}

#[test]
fn what_is_written_twice_reaches_the_device_once() {
    let followed = writers("twice", Sharing::Bytes);
    assert_eq!(followed.truth("first_bytes"), 2_000_006);
    let written = followed.later_of(followed.truth("first"), "pwrite64", "block_bytes");
    assert_eq!(written, followed.truth("first_pages") * PAGE);
}

#[test]
fn what_is_deleted_before_it_is_written_costs_nothing() {
    let followed = writers("deleted", Sharing::Bytes);
    assert_eq!(followed.cell("pwrite64").bytes, 3_000_017);
    let written = followed.cells.iter().filter(|cell| name(cell.number) == "pwrite64");
    assert_eq!(written.map(|cell| later(&cell.account, "block_bytes")).sum::<u64>(), 0);
}

#[test]
fn two_writers_of_one_page_share_it() {
    let total = 503 * PAGE;
    for (sharing, expected) in
        [(Sharing::Bytes, 503 * 1229), (Sharing::Equal, total / 2), (Sharing::Last, 0)]
    {
        let followed = writers("shared", sharing);
        let of = |who| followed.later_of(followed.truth(who), "pwrite64", "block_bytes");
        assert_eq!((of("first"), of("second")), (expected, total - expected), "{sharing:?}");
    }
}

/// As many as there are pages: each request to a server that keeps a log appends one, and is told of it.
#[test]
fn each_page_of_a_log_is_who_appended_it() {
    let followed = writers("log", Sharing::Bytes);
    for writer in 0..48 {
        let thread = followed.truth(&format!("writer_{writer}"));
        assert_eq!(followed.later_of(thread, "pwrite64", "block_bytes"), PAGE, "{writer}");
        assert_eq!(followed.later_of(thread, "pwrite64", "lost"), 0, "{writer}");
    }
    // They tell the truth in one page of a file, too.
    assert_eq!(followed.later("block_written_bytes"), 49 * PAGE);
}

/// Not all have a place of their own, but all that they wrote is the job's.
#[test]
fn of_more_writers_than_can_be_told_apart_nothing_is_missing() {
    let followed = writers("crowd", Sharing::Bytes);
    let of = |writer| {
        let thread = followed.truth(&format!("writer_{writer}"));
        let slot = |slot| followed.later_of(thread, "pwrite64", slot);
        (slot("block_bytes"), slot("lost"))
    };
    let known = (0..29).map(of).filter(|(bytes, _)| *bytes > 0);
    let known: Vec<(u64, u64)> = known.collect();
    // Each page's bytes are shared by what was written to it: each has so large a part, to the byte.
    for (bytes, lost) in &known {
        assert!(bytes.abs_diff(5 * PAGE / 29) <= 5 && *lost == 0, "{known:?}");
    }
    assert!((18..29).contains(&known.len()), "{known:?}");
    let rest = (0..29).map(of).filter(|(bytes, _)| *bytes == 0);
    assert!(rest.map(|(_, lost)| lost).all(|lost| lost == 5));
    assert!(followed.later_of(0, "(many writers)", "block_bytes") > 0);
    // They tell the truth in one page of a file, too.
    assert_eq!(followed.later("block_written_bytes"), 6 * PAGE);
}

/// What a call writes at once is its own, not something that comes later.
#[test]
fn synchronous_writes_are_the_call_s_own() {
    let followed = writers("synced", Sharing::Bytes);
    let cell = followed.cell("pwrite64");
    let (carried, transferred) = carried_of(&cell.account);
    assert_eq!(carried, 0);
    assert!(transferred >= followed.truth("first_pages") * PAGE, "{transferred}");
    assert_eq!(followed.later_of(followed.truth("first"), "pwrite64", "block_bytes"), 0);
}

/// Each time that the device gets the pages they are charged once, whatever sends them there.
#[test]
fn pages_that_become_dirty_while_they_are_written_are_charged_each_time() {
    let followed = writers("rewritten", Sharing::Bytes);
    let written = followed.later_of(followed.truth("first"), "pwrite64", "block_bytes");
    let synced = followed.cells.iter().find(|cell| name(cell.number) == "fdatasync").unwrap();
    let carried = carried_of(&synced.account).0;
    assert!(written >= carried, "{written}");
    // The device's time for them is in both accounts, and told as such: to the nanosecond, if all went with the call.
    for (all, shared) in
        [("block_queue_ns", "carried_queue_ns"), ("block_device_ns", "carried_device_ns")]
    {
        let all = followed.later_of(followed.truth("first"), "pwrite64", all);
        let shared = field(&synced.account, "block", shared)
            + later(&synced.account, &format!("block_{shared}"));
        assert!(shared <= all && (shared == all || written != carried), "{shared} of {all} ns");
    }
    assert!(carried == 0 || field(&synced.account, "block", "carried_device_ns") > 0);
    assert_eq!(written % PAGE, 0);
    assert!(written >= 2 * 16 * PAGE, "{written}");
}

/// Follows connections by thread until they are closed.
fn connections(program: &str, arguments: &[&str]) -> Followed {
    let _alone = traced::alone();
    let wanted = CallsRequest { grouping: Grouping::Thread, ..wanted(&["tcp", "net", "socket"]) };
    let program = workload(program);
    let command: Vec<&str> = [&*program].into_iter().chain(arguments.iter().copied()).collect();
    let followed = until_settled(|settled| {
        command::follow(&wanted, &command, |calls| *settled = settle(calls))
    });
    assert!(followed.status.success(), "{}", followed.truth);
    assert_eq!(followed.lost, 0);
    followed
}

/// Bytes that a thread's calls handed over, at once and later: sent, and sent again.
fn sent_by(followed: &Followed, who: &str) -> (u64, u64) {
    let thread = followed.truth(who);
    let cells =
        || followed.cells.iter().filter(|c| c.of[1] == thread && name(c.number) == "sendto");
    let at_once = |slot| cells().map(|c| field(&c.account, "tcp", slot)).sum::<u64>();
    let afterwards = |slot| followed.later_of(thread, "sendto", slot);
    (
        at_once("transmitted_bytes") + afterwards("tcp_transmitted_bytes"),
        at_once("retransmitted_bytes") + afterwards("tcp_retransmitted_bytes"),
    )
}

#[test]
fn what_is_sent_less_what_is_sent_again_is_what_was_written() {
    for arguments in [&["4000003", "0"][..], &["4000003", "50"], &["4000003", "50", "share"]] {
        // Before 6.16 it is not told which of two calls bytes of one connection come from.
        let tells = std::path::Path::new("/sys/kernel/tracing/events/tcp/tcp_sendmsg_locked");
        if arguments.len() == 3 && !tells.exists() {
            continue;
        }
        let followed = connections("segments", arguments);
        let mut sums = (0, 0);
        for who in ["first", "second"] {
            let (sent, again) = sent_by(&followed, who);
            assert_eq!(
                sent - again,
                followed.truth(&format!("{who}_bytes")),
                "{who} {arguments:?}"
            );
            sums = (sums.0 + sent, sums.1 + again);
        }
        assert_eq!(sums, (followed.truth("sent_bytes"), followed.truth("repeated_bytes")));
        // On a busy machine also what was not lost is sent again, if its receipt is late.
        assert!(sums.1 > 0 || arguments[1] == "0", "{arguments:?}");
        assert!(followed.later("softirq_ns") > 0);
    }
}

/// What a thread does for a connection itself, with what had come while it had the socket, is no softirq: all
/// softirqs of a connection within a machine, but those of the kernel's own thread for them, are on top of calls.
#[test]
fn softirqs_on_behalf_of_connections_are_no_more_than_there_were() {
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let followed = connections("exchange", &["6000"]);
        assert!(followed.truth("answered_bytes") > 0);
        let over_all = |slot| followed.cells.iter().map(|c| field(&c.account, "irq", slot)).sum();
        let (all, served): (u64, u64) = (over_all("soft_ns"), followed.later("softirq_ns"));
        assert!(served > 0);
        if served <= all {
            return;
        }
        ratios.push((served, all));
    }
    panic!("{ratios:?}");
}

/// Some are kept in a table that has not room for all of them.
#[test]
fn what_many_connections_send_is_told_whichever_they_are() {
    let followed = connections("senders", &["5003"]);
    let (sent, again) = sent_by(&followed, "sender");
    assert_eq!(sent - again, followed.truth("written_bytes"));
    assert_eq!(sent, followed.truth("sent_bytes"));
    assert_eq!(again, followed.truth("repeated_bytes"));
    assert_eq!(followed.later("pending"), 0);
}

#[test]
fn timers_and_work_are_charged_to_who_started_them() {
    let _alone = traced::alone();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("file");
    let command = [&*workload("calls"), file.to_str().unwrap()];
    let parts = wanted(&["timer", "workqueue", "block"]);
    // Each sleep is a timer that runs once; none is left behind. A kernel may pass over programs in an
    // interrupt: one of them may be missing then, not in each of three runs.
    let sleeps = |followed: &Followed| {
        let ran = later(&followed.cell("clock_nanosleep").account, "timers");
        ran >= followed.truth("clock_nanosleep")
    };
    let mut followed = command::follow(&parts, &command, |_| ());
    for _ in 1..3 {
        if !sleeps(&followed) {
            followed = command::follow(&parts, &command, |_| ());
        }
    }
    let slept = &followed.cell("clock_nanosleep").account;
    let timer = |slot| later(slept, slot);
    assert!(field(slept, "timer", "started") >= followed.truth("clock_nanosleep"));
    assert!(timer("timers") >= followed.truth("clock_nanosleep"), "{slept:?}");
    assert!(timer("timers") <= field(slept, "timer", "started"), "{slept:?}");
    assert!(timer("timer_ns") > 0 && timer("timer_ns") < 20_000_000 * 7, "{slept:?}");
    let queued: u64 = followed.cells.iter().map(|c| field(&c.account, "workqueue", "queued")).sum();
    let ran = followed.later("work_items");
    assert!(ran <= queued + followed.later("timers"), "{ran} of {queued}");
    assert_eq!(ran > 0, followed.later("work_ns") > 0);
    assert_eq!(followed.lost, 0);
}
