use super::*;

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

fn nobody() -> Vec<u32> {
    Vec::new()
}

/// A stranger's end of a connection, which has sent as much of this as the kernel takes.
fn stranger(server: &OtlpServer, sent: &[u8]) -> TcpStream {
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
fn accepted(server: &mut OtlpServer, waiting: usize) -> u64 {
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
    let mut server = OtlpServer::new().expect("a port");
    let _stranger = stranger(&server, &vec![b'a'; 8 * MOST_HEAD]);
    let key = accepted(&mut server, 2 * MOST_HEAD);
    let connection = server.connections.get_mut(&key).expect("a connection");
    assert!(connection.receive());
    assert_eq!(connection.received.len(), MOST_HEAD + 1);
    // One who has shown the header may send a body.
    connection.received.clear();
    connection.is_trusted = true;
    assert!(connection.receive());
    assert!(connection.received.len() > MOST_HEAD + 1, "{}", connection.received.len());
}

#[test]
fn of_a_stranger_who_sends_in_pieces_no_more_than_a_head_is_held() {
    let mut server = OtlpServer::new().expect("a port");
    // A head that never ends, of which all but the last byte is there.
    let mut stranger = stranger(&server, &vec![b'a'; MOST_HEAD]);
    let key = accepted(&mut server, MOST_HEAD);
    let connection = server.connections.get_mut(&key).expect("a connection");
    assert!(connection.receive());
    assert_eq!(connection.received.len(), MOST_HEAD);
    let _ = stranger.write(&vec![b'a'; MOST_HEAD]).expect("it is taken");
    accepted(&mut server, 2);
    let connection = server.connections.get_mut(&key).expect("a connection");
    assert!(connection.receive());
    assert_eq!(connection.received.len(), MOST_HEAD + 1);
    let mut connection = server.connections.remove(&key).expect("a connection");
    assert!(!server.answer_all(&mut connection, &nobody), "it is let go of");
    drop(connection);
    let mut answer = [0; 12];
    stranger.set_nonblocking(false).expect("a socket");
    stranger.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stranger.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 431");
}
