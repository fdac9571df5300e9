//! Names over the headers of packets, against a program that knows what it sent, and against tcpdump.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::support::left_out::leave_out;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{are_refused, lines, succeeds};
use crate::support::workload;
use serde_json::Value;

/// Datagrams to the first port, by IPv4 and IPv6; two more each go to the one above.
const FOUR: u64 = 11;
const SIX: u64 = 7;

/// Runs the workload at a port, with these options of `weigh trace`; what weigh said. Everybody's packets are taken: no
/// other program has these ports and addresses.
#[track_caller]
fn follow(scratch: &Scratch, port: u16, options: &[&str]) -> String {
    let (program, port) = (workload("headers"), port.to_string());
    let numbers = [FOUR, SIX].map(|number| number.to_string());
    let command = ["--", &program, &port, &numbers[0], &numbers[1]];
    let arguments = [&["trace"], options, &["--system"], &command].concat();
    succeeds(&weigh(scratch, &arguments))
}

/// How many packets each filter takes as they leave.
#[track_caller]
fn counts(port: u16, filters: &[String]) -> Vec<u64> {
    let scratch = Scratch::new();
    let event = |filter: &String| format!("net:net_dev_start_xmit{{skb->len}} if {filter}");
    let events: Vec<String> = filters.iter().map(event).collect();
    let file = scratch.path("events.jsonl").display().to_string();
    let mut options = vec!["-o", &file];
    options.extend(events.iter().flat_map(|event| ["-e", event]));
    let said = follow(&scratch, port, &options);
    assert!(said.contains(", 0 lost"), "{said}");
    let counted = said.lines().filter(|line| line.ends_with("  net:net_dev_start_xmit"));
    let number = |line: &str| line.split_whitespace().next().and_then(|word| word.parse().ok());
    let counted: Vec<u64> = counted.filter_map(number).collect();
    assert_eq!(counted.len(), filters.len(), "{said}");
    counted
}

/// Holds filters to how many packets they take.
#[track_caller]
fn take(port: u16, expected: &[(&str, u64)]) {
    let next = (port + 1).to_string();
    let written = |filter: &str| filter.replace("NEXT", &next).replace("PORT", &port.to_string());
    let filters: Vec<String> = expected.iter().map(|(filter, _)| written(filter)).collect();
    let counted = counts(port, &filters);
    for ((filter, expected), counted) in expected.iter().zip(counted) {
        assert_eq!(counted, *expected, "{filter}");
    }
}

/// The addresses are the same for all: what one sends another would take.
static SENDER: Mutex<()> = Mutex::new(());

#[test]
fn every_name_takes_the_packets_that_it_says() {
    needs_root!();
    let _alone = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    take(
        20_053,
        &[
            ("udp.dport == PORT", FOUR + SIX),
            // A datagram in two fragments has its ports in the first.
            ("udp.dport == NEXT", FOUR + 2 + SIX + 3),
            ("udp.dport in PORT..NEXT", 2 * FOUR + 2 * SIX + 5),
            // The SYN, and the RST that answers.
            ("port == PORT", FOUR + SIX + 2),
            ("dst.port == PORT", FOUR + SIX + 1),
            ("src.port == PORT", 1),
            ("port in (PORT, NEXT) && tcp", 2),
            ("udp.port == PORT", FOUR + SIX),
            ("tcp.port == PORT && tcp.flags == syn", 1),
            ("tcp.sport == PORT && tcp.flags & (rst | ack) == (rst | ack)", 1),
            ("tcp.flags & syn && host == 127.9.53.0/24", 1),
            ("ip6 && udp.dport == NEXT", SIX + 3),
            ("host == ::1 && dst.port == PORT", SIX),
            ("host == ::/0 && udp.dport == PORT", SIX),
            ("host == 0.0.0.0/0 && udp.dport == PORT", FOUR),
            ("host != 127.9.53.3 && udp.dport == PORT", SIX),
            ("ip.src == 127.9.53.2 && proto == udp", 2 * FOUR + 2),
            ("ip.dst in (127.9.53.2, 127.9.53.3) && proto == 6", 2),
            ("ip.dst == \"127.9.53.2\"", 1),
            ("out && udp.dport == PORT", FOUR + SIX),
            ("in && udp.dport == PORT", 0),
            ("!tcp && udp && !ip6 && eth.type == ip && ip.dst == 127.9.53.3", 2 * FOUR + 10),
        ],
    );
}

#[test]
fn what_a_packet_lacks_is_not_0() {
    needs_root!();
    let _alone = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    // Later fragments, and packets that end too early: they are UDP, and have no ports.
    take(
        20_153,
        &[
            ("ip.src == 127.9.53.1", 8),
            ("ip.src == 127.9.53.1 && udp && proto == udp", 8),
            ("ip.src == 127.9.53.1 && port == PORT", 0),
            ("ip.src == 127.9.53.1 && port == 0", 0),
            ("ip.src == 127.9.53.1 && port != PORT", 0),
            ("ip.src == 127.9.53.1 && dst.port < 65535", 0),
            ("ip.src == 127.9.53.1 && !(dst.port == PORT)", 8),
            ("ip.src == 127.9.53.1 && tcp.flags == 0", 0),
            ("udp.dport == PORT && tcp.dport != 1", 0),
            // What IPv6 carries is known of each of its fragments.
            ("ip6 && udp && tgid == tid && comm == \"headers\"", 2 * SIX + 4),
        ],
    );
}

#[test]
fn casts_take_the_lowest_bits() {
    needs_root!();
    let _alone = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    let len = 100 + 8 + 20 + 14;
    take(
        20_253,
        &[
            (&format!("ip.dst == 127.9.53.3 && u8(skb->len) == {len}"), 2 * FOUR + 2),
            ("udp.dport == PORT && u8(udp.dport) == 29", FOUR + SIX),
            ("udp.dport == PORT && i16(skb->len) > 0 && i8(skb->len) < 0", FOUR + SIX),
            ("udp.dport == PORT && u16(skb->len) == u64(skb->len)", FOUR + SIX),
        ],
    );
}

#[test]
fn tcpdump_s_syntax_takes_the_same() {
    needs_root!();
    let _alone = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    let ours_and_theirs = [
        ("udp && port == 20353", "udp port 20353"),
        ("tcp && host == 127.9.53.3", "tcp and host 127.9.53.3"),
        ("ip.src == 127.9.53.2 && dst.port == 20354", "src host 127.9.53.2 and dst port 20354"),
        ("host == 127.9.53.0/24", "net 127.9.53.0/24"),
        ("host == 127.9.53.0/24", "net 127.9.53"),
        ("ip && port in 20353..20354", "ip and portrange 20353-20354"),
        ("ip6 && dst.port == 20353", "ip6 and dst port 20353"),
        ("host == 127.9.53.0/24 && !(port == 20353)", "net 127.9.53 and not port 20353"),
        ("src.port == 20353 || src.port == 20354", "src port 20353 or 20354"),
        (
            "tcp.flags & syn && host == 127.9.53.3",
            "tcp[tcpflags] & tcp-syn != 0 and host 127.9.53.3",
        ),
        ("udp.dport == 20353 && !arp", "udp dst port 20353 and not arp"),
    ];
    // Of packets that end too early tcpdump takes a port that is whole, and none for which it would look further.
    let is_whole = "ip.src != 127.9.53.1";
    let whole: Vec<String> =
        ours_and_theirs.iter().map(|(ours, _)| format!("({ours}) && {is_whole}")).collect();
    let all = ours_and_theirs.iter().zip(&whole);
    let all = all.flat_map(|((ours, theirs), whole)| [*ours, *theirs, whole.as_str()]);
    let counted = counts(20_353, &all.map(str::to_string).collect::<Vec<_>>());
    for (pair, counted) in ours_and_theirs.iter().zip(counted.chunks(3)) {
        assert_eq!(counted[0], counted[1], "{pair:?}");
        assert!(counted[2] > 0, "{pair:?}");
    }
    // The witness reads a file of the same packets, as they leave.
    let scratch = Scratch::new();
    let file = scratch.path("x.pcapng").display().to_string();
    let filter = "(net 127.9.53.0/24 or (ip6 and portrange 20353-20354)) && out";
    follow(&scratch, 20_353, &["packets", "-o", &file, "-f", filter, "-f", is_whole]);
    for ((_, theirs), counted) in ours_and_theirs.iter().zip(counted.chunks(3)) {
        let read = Command::new("tcpdump").args(["-nn", "-r", &file, theirs]).output();
        let Ok(read) = read else { return leave_out("tcpdump is not installed") };
        let said = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success(), "{theirs}: {said}");
        let lines = String::from_utf8_lossy(&read.stdout).lines().count() as u64;
        assert_eq!(lines, counted[2], "{theirs}");
    }
}

#[test]
fn headers_are_fields_and_keys() {
    needs_root!();
    let _alone = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let [file, json, recording] = ["events.jsonl", "top.json", "events.parquet"]
        .map(|name| scratch.path(name).display().to_string());
    let event = "net:net_dev_start_xmit{proto, ip.src, ip.dst, src.port, dst.port, tcp.flags, udp, out, eth.type, \
                 low=u8(dst.port)} if host == 127.9.53.0/24 || port in 20453..20454";
    let top =
        ["--top", "10 by ip.dst, dst.port", "--histogram", "dst.port by proto", "--json", &json];
    let options = [&["-e", event, "-o", &file][..], &top].concat();
    follow(&scratch, 20_453, &options);
    let events = lines(&scratch, "events.jsonl");
    let fields: Vec<&Value> = events.iter().map(|event| &event["fields"]).collect();
    let of = |name: &str, value: Value| fields.iter().filter(|f| f[name] == value).count() as u64;
    assert_eq!(fields.len() as u64, 2 * FOUR + 2 + 2 * SIX + 3 + 8 + 2);
    assert_eq!(of("proto", "udp".into()), fields.len() as u64 - 2);
    assert_eq!(of("udp", true.into()), fields.len() as u64 - 2);
    assert_eq!(of("out", true.into()), fields.len() as u64);
    assert_eq!(of("eth.type", "ip6".into()), 2 * SIX + 3);
    assert_eq!(of("ip.src", "127.9.53.1".into()), 8);
    assert_eq!(of("ip.dst", "::1".into()), 2 * SIX + 3);
    assert_eq!(of("dst.port", Value::Null), 8, "fragments and short ones");
    assert_eq!(of("dst.port", 20_453.into()), FOUR + SIX + 1);
    assert_eq!(of("low", 229.into()), FOUR + SIX + 1);
    assert_eq!(of("tcp.flags", "syn".into()), 1);
    assert_eq!(of("tcp.flags", "rst|ack".into()), 1);
    assert_eq!(of("tcp.flags", Value::Null), fields.len() as u64 - 2);
    let found: Value = serde_json::from_str(&scratch.text("top.json")).expect("JSON");
    let rows = found["found"][0]["rows"].as_array().unwrap_or_else(|| panic!("{found}"));
    let by_key: BTreeMap<String, u64> = rows
        .iter()
        .map(|row| (row["key"].to_string(), row["events_total"].as_u64().expect("a number")))
        .collect();
    assert_eq!(by_key[r#"["::1",20454]"#], SIX + 3, "{by_key:?}");
    assert_eq!(by_key[r#"["127.9.53.3",20453]"#], FOUR + 1, "{by_key:?}");

    // A recording has the same, and is filtered by the same names.
    follow(&scratch, 20_453, &["-e", event, "-o", &recording]);
    let read = |filter: &str| {
        let options = ["trace", "read", &recording, "-q", "-f", filter, "-o", &file];
        succeeds(&weigh(&scratch, &options));
        lines(&scratch, "events.jsonl").len() as u64
    };
    assert_eq!(read("ip.dst == 127.9.53.0/24"), 2 * FOUR + 2 + 8 + 2);
    assert_eq!(read("port == 20453 && ip.src == ::1"), SIX);
    assert_eq!(read("udp dst port 20454 and ip.dst == ::1"), SIX + 3);
    assert_eq!(read("tcp.flags & (syn | rst)"), 2);
}

#[test]
fn a_filter_is_told_in_weigh_s_own_words() {
    let scratch = Scratch::new();
    let options = ["trace", "packets", "--explain", "-f", "udp port 53 and not net 10.0.0.0/8"];
    let output = weigh(&scratch, &options);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "udp && port == 53 && !(host == 10.0.0.0/8)\n"
    );
    assert!(output.status.success());
}

#[test]
fn what_packets_have_not_is_refused_with_what_they_have() {
    needs_root!();
    let _alone = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let packets = ["packets", "-o", "x.pcapng", "-f"];
    let cases: [(&str, &[&str]); 14] = [
        ("port == 70000", &["70000 is out of range", "0 to 65535"]),
        ("proto == tpc", &["'tpc'", "tcp"]),
        ("ip.scr == 10.0.0.1", &["no header 'ip.scr'", "ip.src"]),
        ("udp.flags == 3", &["no header 'udp.flags'", "tcp.flags"]),
        ("prto == udp", &["proto"]),
        ("host == 10.0.0.1/8", &["10.0.0.0/8"]),
        ("host == 10.0.0.300", &["expected an address"]),
        ("host == localhost", &["not looked up"]),
        ("host < 10.0.0.1", &["== or !="]),
        ("ip.src == 5", &["an address: 10.0.0.1"]),
        ("src.port == 10.0.0.1", &["a number"]),
        ("tcp.flags & sin", &["'sin'", "syn"]),
        ("vlan 7", &["tcpdump's 'vlan'", "eth.type == vlan"]),
        ("tcp port 80 or udp port 53 and net 10", &["parentheses"]),
    ];
    for (filter, words) in cases {
        are_refused(&scratch, &[(&[&packets[..], &[filter]].concat(), words)]);
    }
    let others: [(&str, &[&str]); 3] = [
        ("net:net_dev_queue{port}", &["two values", "src.port or dst.port"]),
        ("sched:sched_switch if port == 53", &["of packets", "net:net_dev_start_xmit"]),
        ("skb:kfree_skb if out", &["does not say whether a packet leaves", "net:net_dev_queue"]),
    ];
    for (event, words) in others {
        are_refused(&scratch, &[(&["-e", event], words)]);
    }
}
