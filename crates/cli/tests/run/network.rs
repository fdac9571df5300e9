//! Network: payload and connections over loopback, against the return values of the calls.

use weigh_schema::Quality;

use crate::support::run::Weigh;

#[test]
fn tcp() {
    needs_root!();
    for (program, kind) in [("net", "tcp"), ("net-static", "tcp"), ("net", "tcp6")] {
        let measured = Weigh::workload(&format!("{program} 10000019 5 {kind}")).measure();
        measured.is("net_sent_bytes_total", measured.truth("net_sent_bytes"));
        measured.is("net_received_bytes_total", measured.truth("net_received_bytes"));
        // Both ends are of the job.
        let connections = measured.truth("tcp_connects") + measured.truth("tcp_accepts");
        measured.is("net_connections_total", connections);
        measured.is_between("net_retransmits_total", 0.0, 20.0);
    }
}

#[test]
fn udp() {
    needs_root!();
    let measured = Weigh::workload("net 1000003 5 udp").measure();
    measured.is("net_sent_bytes_total", measured.truth("net_sent_bytes"));
    measured.is("net_received_bytes_total", measured.truth("net_received_bytes"));
    measured.is("net_connections_total", 0);
}

/// What was only looked at was returned all the same; TCP Fast Open connects by the call that sends.
#[test]
fn looks_and_fast_open_by_the_library_and_by_the_kernel() {
    needs_root!();
    const SCRIPT: &str = "
from socket import *
listener = socket()
listener.setsockopt(IPPROTO_TCP, 23, 5)
listener.bind((\"127.0.0.1\", 0))
listener.listen(5)
for _ in range(3):
    client = socket()
    client.sendto(bytes(909), MSG_FASTOPEN, listener.getsockname())
    server = listener.accept()[0]
    assert len(server.recv(909, MSG_PEEK | MSG_WAITALL)) == 909
    assert len(server.recv(909, MSG_WAITALL)) == 909";
    let by = |mechanism: &str, script: &str| {
        let line = format!("exec python3 -c '{script}'");
        Weigh::bash(&line).options(&format!("--mechanism {mechanism} --level 3")).end()
    };
    for mechanism in ["bpf", "preload"] {
        let (nothing, moved) = (by(mechanism, "from socket import *"), by(mechanism, SCRIPT));
        let more = |metric| moved.number(metric) - nothing.number(metric);
        assert_eq!(more("net_connections_total"), 6.0, "{mechanism}: both ends");
        assert_eq!(more("net_received_bytes_total"), 3.0 * 909.0, "{mechanism}");
        assert_eq!(more("io_read_bytes_total"), 6.0 * 909.0, "{mechanism}: and what was looked at");
    }
}

/// What is spliced out of a socket passes no probe: the socket itself knows how much was taken from it.
#[test]
fn what_is_spliced_from_a_socket_is_told_to_the_byte() {
    needs_root!();
    const PLAIN: &str = "
while part := client.recv(4_099):
    taken += len(part)";
    const SPLICED: &str = "
ends = os.pipe()
taken += len(client.recv(11))
while moved := os.splice(client.fileno(), ends[1], 5_000):
    taken += len(os.read(ends[0], moved))";
    let script = |take: &str| {
        format!(
            "
import os
from socket import *
listener = create_server((\"127.0.0.1\", 0))
client = create_connection(listener.getsockname())
server = listener.accept()[0]
server.sendall(bytes(30_011))
server.shutdown(SHUT_WR)
taken = 0{take}
assert taken == 30_011"
        )
    };
    for (take, missing) in [(PLAIN, 0), (SPLICED, 30_000)] {
        let line = format!("exec python3 -c '{}'", script(take));
        let measured = Weigh::bash(&line).measure();
        measured.is("net_received_bytes_total", 30_011 - missing);
        let value = measured.value("net_received_bytes_total");
        let (quality, reason) = (value.quality, value.reason.clone().unwrap_or_default());
        let is_told = match missing {
            0 => quality == Quality::Exact && reason.is_empty(),
            _ => {
                quality == Quality::Estimated
                    && reason.contains(&format!("without {missing} bytes"))
            }
        };
        measured.check(is_told, || format!("{value:?}"));
    }
}

#[test]
fn each_end_has_its_own_row() {
    needs_root!();
    let measured = Weigh::workload("net 10000019 5 tcp").measure();
    let mut sent: Vec<u64> = measured
        .processes()
        .iter()
        .map(|row| row.metrics["net_sent_bytes_total"].as_f64() as u64)
        .collect();
    sent.sort();
    let expected = [measured.truth("server_sent_bytes"), measured.truth("client_sent_bytes")];
    measured.check(sent == expected, || format!("sent: {sent:?}, expected {expected:?}"));
}

#[test]
fn a_socket_pair_is_no_network() {
    needs_root!();
    let measured = Weigh::workload("io send 1000003 4099").measure();
    measured.is("net_sent_bytes_total", 0);
    measured.is("net_received_bytes_total", 0);
}

#[test]
fn without_the_collector_nothing_is_known() {
    needs_root!();
    let measured = Weigh::workload("net 1000003 2 tcp").options("--without network").measure();
    let value = measured.value("net_sent_bytes_total");
    measured.check(value.value.is_none() && value.reason.is_some(), || format!("{value:?}"));
}
