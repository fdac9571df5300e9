//! Network: payload and connections over loopback, against the return values of the calls.

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
