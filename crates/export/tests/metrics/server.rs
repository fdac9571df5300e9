//! A server of HTTP on the loopback interface that answers by script.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request that came.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    pub content_type: String,
    pub version: String,
    pub body: Vec<u8>,
}

/// An answer: status, further header lines, body. Status 0: the connection is closed without one.
#[derive(Clone, Debug)]
pub struct Reply(pub u16, pub String, pub String);

impl Reply {
    pub fn bare(status: u16) -> Reply {
        Reply(status, String::new(), String::new())
    }
}

pub struct Server {
    pub origin: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Answers each request by its number, from 0 on.
    pub fn start(answer: impl Fn(usize, &Received) -> Reply + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                serve(stream, &log, &answer);
            }
        });
        Server { origin, received }
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

/// One request a connection: the client finds the connection closed each time, and has to make another.
fn serve(
    stream: TcpStream,
    log: &Mutex<Vec<Received>>,
    answer: &dyn Fn(usize, &Received) -> Reply,
) {
    let mut reader = BufReader::new(stream);
    let Some(request) = read(&mut reader) else { return };
    let number = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.len() - 1
    };
    let Reply(status, headers, body) = answer(number, &request);
    if status == 0 {
        return;
    }
    let length =
        if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let text =
        format!("HTTP/1.1 {status} Text\r\n{length}Connection: close\r\n{headers}\r\n{body}");
    reader.get_mut().write_all(text.as_bytes()).unwrap();
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_string()),
        }
    }
    let header = |name: &str| {
        let headers = lines.iter().filter_map(|line| line.split_once(':'));
        let mut found = headers.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim().to_string()).unwrap_or_default()
    };
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let mut words = lines[0].split(' ').map(str::to_string);
    Some(Received {
        method: words.next()?,
        path: words.next()?,
        content_type: header("content-type"),
        version: header("x-prometheus-remote-write-version"),
        body,
    })
}
