use super::*;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

fn intake() -> OtlpIntake {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let settings = IntakeSettings {
        token: Some("77".to_string()),
        signals: &[OtlpSignal::Metrics],
        accepts_others: false,
        connections: 4,
        body_bytes: 4 << 20,
    };
    OtlpIntake::new(listener, settings).expect("descriptors")
}

/// A stranger's end of a connection, which has sent as much of this as the kernel takes.
fn stranger(server: &OtlpIntake, sent: &[u8]) -> TcpStream {
    let address = server.listener.local_addr().expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nonblocking(true).expect("a socket");
    let mut left = sent;
    while let Ok(length @ 1..) = stream.write(left) {
        left = &left[length..];
    }
    stream
}

/// Attends until the server holds the one connection; at its end so many bytes wait to be read.
fn accepted(server: &mut OtlpIntake, waiting: usize) -> u64 {
    let until = Instant::now() + PATIENCE;
    while server.connections.is_empty() && Instant::now() < until {
        server.accept();
    }
    let (key, connection) = server.connections.first_key_value().expect("it was accepted");
    let mut seen = vec![0; waiting];
    while connection.stream.peek(&mut seen).unwrap_or(0) < waiting {
        assert!(Instant::now() < until, "it has not come");
    }
    *key
}

#[test]
fn of_a_stranger_no_more_than_a_head_is_read() {
    let mut server = intake();
    let _stranger = stranger(&server, &vec![b'a'; 8 * MOST_HEAD]);
    let key = accepted(&mut server, 2 * MOST_HEAD);
    let connection = server.connections.get_mut(&key).expect("a connection");
    assert!(connection.receive(MOST_TURN));
    assert_eq!(connection.received.len(), MOST_HEAD + 1);
    // One who has shown the header may send a body.
    connection.received.clear();
    connection.is_trusted = true;
    assert!(connection.receive(MOST_TURN));
    assert!(connection.received.len() > MOST_HEAD + 1, "{}", connection.received.len());
}

#[test]
fn of_a_stranger_who_sends_in_pieces_no_more_than_a_head_is_held() {
    let mut server = intake();
    // A head that never ends, of which all but the last byte is there.
    let mut stranger = stranger(&server, &vec![b'a'; MOST_HEAD]);
    let key = accepted(&mut server, MOST_HEAD);
    let connection = server.connections.get_mut(&key).expect("a connection");
    assert!(connection.receive(MOST_TURN));
    assert_eq!(connection.received.len(), MOST_HEAD);
    let _ = stranger.write(&vec![b'a'; MOST_HEAD]).expect("it is taken");
    accepted(&mut server, 2);
    let connection = server.connections.get_mut(&key).expect("a connection");
    assert!(connection.receive(MOST_TURN));
    assert_eq!(connection.received.len(), MOST_HEAD + 1);
    let mut connection = server.connections.remove(&key).expect("a connection");
    assert!(!server.answer_all(&mut connection, &mut |_| OtlpReply::Accepted), "it is let go of");
    drop(connection);
    let mut answer = [0; 12];
    stranger.set_nonblocking(false).expect("a socket");
    stranger.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stranger.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 431");
}

/// Sends a request and attends until it is answered; the answer's first line, and the bodies that came.
fn exchange(server: &mut OtlpIntake, request: &str) -> (String, Vec<Vec<u8>>) {
    let mut client = stranger(server, request.as_bytes());
    let (mut answer, mut bodies) = (Vec::new(), Vec::new());
    let until = Instant::now() + PATIENCE;
    while !answer.contains(&b'\n') {
        assert!(Instant::now() < until, "no answer to {request}");
        server.attend(&mut |message| {
            bodies.push(message.body.to_vec());
            if message.body == b"busy" { OtlpReply::Busy } else { OtlpReply::Accepted }
        });
        let mut part = [0; 512];
        if let Ok(length) = client.read(&mut part) {
            answer.extend_from_slice(&part[..length]);
        }
    }
    let text = String::from_utf8(answer).expect("text");
    (text.lines().next().unwrap_or_default().to_string(), bodies)
}

#[test]
fn a_body_is_handed_on_and_what_is_none_is_refused_with_its_status() {
    let mut server = intake();
    let request = |path: &str, token: &str, kind: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nX-Weigh-Token: {token}\r\nContent-Type: application/{kind}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let metrics = "/v1/metrics";
    for (request, status, bodies) in [
        (request(metrics, "77", "x-protobuf", "abc"), "200", 1),
        (request(metrics, "77", "x-protobuf", "busy"), "429", 1),
        (request(metrics, "78", "x-protobuf", "abc"), "401", 0),
        (request(metrics, "77", "json; charset=utf-8", "{}"), "200", 1),
        (request(metrics, "77", "json", "{\"resourceMetrics\":7}"), "400", 0),
        (request(metrics, "77", "json", &"[".repeat(9000)), "400", 0),
        (request(metrics, "77", "grpc", "abc"), "415", 0),
        (request("/v1/traces", "77", "x-protobuf", "abc"), "404", 0),
        (format!("GET {metrics} HTTP/1.1\r\nX-Weigh-Token: 77\r\n\r\n"), "405", 0),
    ] {
        let (line, found) = exchange(&mut server, &request);
        assert!(line.starts_with(&format!("HTTP/1.1 {status} ")), "{line}");
        assert_eq!(found.len(), bodies, "{request}");
    }
    let refused: u64 = server.take_refused().values().sum();
    assert_eq!((refused, server.take_refused().len()), (6, 0));
}
