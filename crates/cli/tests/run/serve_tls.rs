//! The page over TLS: `weigh serve` and `weigh agent` with a certificate and its key.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use crate::agent_node::NodeAgent;
use crate::support::agent::NOBODY;
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, set_surroundings};
use crate::support::{patience, wait_until, weigh_binary};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tls").join(name)
}

/// The key as its owner keeps it.
fn key(scratch: &Scratch, mode: u32) -> PathBuf {
    let path = scratch.path("work").join("key.pem");
    std::fs::copy(file("server.key"), &path).expect("a copy");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    path
}

fn serve(scratch: &Scratch, http: &str, certificate: &Path, key: &Path) -> Command {
    let mut command = Command::new(weigh_binary());
    set_surroundings(&mut command, scratch);
    command.args(["serve", "--http", http, "--tls-cert"]).arg(certificate).arg("--tls-key");
    command.arg(key).arg(scratch.path("work")).stdin(Stdio::null());
    command
}

/// Asks as a client that trusts the tests' authority.
#[track_caller]
fn ask(port: u16, name: &str, lines: &[&str]) -> String {
    ask_trusting("ca.pem", port, name, lines)
}

/// Asks as a client that trusts this authority; of a server that it does not trust it has no answer.
#[track_caller]
fn ask_trusting(authority: &str, port: u16, name: &str, lines: &[&str]) -> String {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file(authority)).expect("a file"))
        .expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_string()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut stream = StreamOwned::new(connection, connect(port));
    let request = lines.join("\r\n") + "\r\nConnection: close\r\n\r\n";
    if stream.write_all(request.as_bytes()).is_err() {
        return String::new();
    }
    let mut answer = Vec::new();
    // A server may leave without a word of farewell.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).expect("it listens");
    stream.set_read_timeout(Some(patience(30.0))).expect("a socket");
    stream
}

/// How URLs begin, their port, and the token.
#[track_caller]
fn parts(url: &str) -> (&str, u16, &str) {
    let (origin, token) = url.trim().split_once("/?token=").expect("a token");
    let port = origin.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    (origin, port, token)
}

#[test]
fn other_machines_reach_the_page_by_tls_under_names_of_the_certificate() {
    let scratch = Scratch::new();
    let mut command = serve(&scratch, "0.0.0.0:0", &file("server.pem"), &key(&scratch, 0o600));
    let mut child = Mortal::of(command.stdout(Stdio::piped()).spawn());
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let (origin, port, token) = parts(&line);
    assert_eq!(origin, format!("https://node.example:{port}"));
    let host = format!("Host: node.example:{port}");
    let welcome = ask(port, "node.example", &[&format!("GET /?token={token} HTTP/1.1"), &host]);
    assert!(welcome.starts_with("HTTP/1.1 303"), "{welcome}");
    let cookie = welcome.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("one");
    let (cookie, attributes) = cookie.split_once(';').expect("attributes");
    assert!(cookie.starts_with(&format!("__Host-weigh-{port}=")), "{cookie}");
    assert_eq!(attributes, " Path=/; Secure; HttpOnly; SameSite=Strict");
    let cookie = format!("Cookie: {cookie}");
    let node = "GET /api/v1/node HTTP/1.1";
    let found = ask(port, "node.example", &[node, &host, &cookie]);
    assert!(found.contains("\"schema\":\"weigh.top/1\""), "{found}");
    let by_address = format!("Host: 127.0.0.1:{port}");
    assert!(ask(port, "127.0.0.1", &[node, &by_address, &cookie]).starts_with("HTTP/1.1 200"));
    for (host, status) in [("evil.example", 421), ("localhost", 421)] {
        let answer = ask(port, "node.example", &[node, &format!("Host: {host}:{port}"), &cookie]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    let origin = format!("Origin: http://node.example:{port}");
    assert!(
        ask(port, "node.example", &[node, &host, &cookie, &origin]).starts_with("HTTP/1.1 403")
    );
    assert!(ask(port, "node.example", &[node, &host]).starts_with("HTTP/1.1 401"));
    let mut plain = connect(port);
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    plain.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
}

#[track_caller]
fn refused(output: Output, expected: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(expected.iter().all(|words| said.contains(words)), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn without_tls_or_with_a_wrong_one_nothing_is_served_to_other_machines() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(weigh_binary());
        set_surroundings(&mut command, &scratch);
        command.args(arguments).stdin(Stdio::null()).output().expect("weigh")
    };
    let line = "--http 0.0.0.0:8443 --tls-cert FILE --tls-key FILE";
    refused(run(&["serve", "--http", "0.0.0.0:8443"]), &[line, "ssh -L 8443:127.0.0.1:8443"]);
    refused(run(&["agent", "--http", "0.0.0.0:8443"]), &[line]);
    let certificate = file("server.pem");
    let with = |certificate: &Path, key: &Path| {
        serve(&scratch, "0.0.0.0:0", certificate, key).output().expect("weigh")
    };
    let open = key(&scratch, 0o644);
    refused(with(&certificate, &open), &["--tls-key", "chmod g-w,o-rwx", "key.pem"]);
    let good = key(&scratch, 0o600);
    refused(with(&file("nameless.pem"), &good), &["for no DNS name", "0.0.0.0"]);
    refused(with(&file("README.md"), &good), &["--tls-cert", "expected one in PEM"]);
    refused(with(Path::new("/nonexistent"), &good), &["--tls-cert /nonexistent"]);
    let other = std::fs::read(file("other.key")).expect("a key");
    std::fs::write(&good, other).expect("it is written, and its mode stays");
    refused(with(&certificate, &good), &["the certificate and the key"]);
}

/// Which of the two certificates a server has.
#[track_caller]
fn certificate_at(port: u16) -> &'static str {
    let trusts = |authority| {
        let host = format!("Host: node.example:{port}");
        let lines = ["GET /api/v1/node HTTP/1.1", &host];
        ask_trusting(authority, port, "node.example", &lines).starts_with("HTTP/1.1 401")
    };
    match (trusts("ca.pem"), trusts("renewed.pem")) {
        (true, false) => "first",
        // It may be renewed between the two, either way; then it is looked at again.
        (false, true) => "renewed",
        (true, true) if !trusts("ca.pem") => "renewed",
        (false, false) if trusts("ca.pem") => "first",
        both => panic!("{both:?}"),
    }
}

/// Puts a file in the place of another one, as renewals do.
fn replace(path: &Path, by: &str) {
    let beside = path.with_extension("new");
    std::fs::copy(file(by), &beside).expect("a copy");
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    std::fs::rename(&beside, path).expect("it takes its place");
}

/// What a process says on standard error, as it comes.
fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let read = BufReader::new(output).lines().map_while(Result::ok);
        read.for_each(|line| drop(sender.send(line)));
    });
    lines
}

#[test]
fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
    let scratch = Scratch::new();
    let (certificate, key) = (scratch.path("work").join("cert.pem"), key(&scratch, 0o600));
    replace(&certificate, "server.pem");
    let mut command = serve(&scratch, "0.0.0.0:0", &certificate, &key);
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = Mortal::of(spawned);
    let said = lines_of(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let (_, port, _) = parts(&line);
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    let renew = |expected: &str| {
        kill_process(pid, Signal::HUP).expect("it lives");
        // A look that nobody asked for may have said the same before.
        let mut said = std::iter::from_fn(|| said.recv_timeout(patience(30.0)).ok());
        assert!(said.any(|line| line.contains(expected)), "{expected}");
    };
    assert_eq!(certificate_at(port), "first");
    replace(&certificate, "renewed.pem");
    renew("the page is served with the certificate that it has: ");
    assert_eq!(certificate_at(port), "first", "the key is another one's");
    replace(&key, "other.key");
    renew("the page is served with the new certificate");
    assert_eq!(certificate_at(port), "renewed");
    replace(&certificate, "README.md");
    renew("expected one in PEM");
    assert_eq!(certificate_at(port), "renewed");
    // It is for no name by which the page is known.
    replace(&certificate, "nameless.pem");
    replace(&key, "server.key");
    renew("not for node.example");
    assert_eq!(certificate_at(port), "renewed");
    // Without being asked.
    replace(&certificate, "server.pem");
    wait_until("it is renewed", 60.0, || certificate_at(port) == "first");
}

/// The process that serves it may not read the key.
#[test]
fn the_page_of_an_agent_has_its_certificate_from_the_agent() {
    needs_root!();
    let scratch = Scratch::new();
    let (certificate_file, key_file) = (scratch.path("work").join("cert"), key(&scratch, 0o600));
    replace(&certificate_file, "server.pem");
    let certificate = certificate_file.display().to_string();
    let key = key_file.display().to_string();
    let options = ["--http", "0.0.0.0:0", "--tls-cert", &certificate, "--tls-key", &key];
    let agent =
        NodeAgent::of_root_with(&["--bounding-set=-all,+setuid,+setgid,+setpcap"], &options);
    let status = || agent.client().status().expect("a status").page.expect("a page");
    wait_until("the page is served", 30.0, || status().is_served);
    let url = agent.done(NOBODY, &["agent", "url"]);
    let (origin, port, token) = parts(&url);
    assert_eq!(Some(origin), status().origin.as_deref());
    assert_eq!(
        (origin, status().address.map(|a| a.port())),
        (&*format!("https://node.example:{port}"), Some(port))
    );
    let (host, bearer) =
        (format!("Host: node.example:{port}"), format!("Authorization: Bearer {token}"));
    let found = ask(port, "node.example", &["GET /api/v1/node HTTP/1.1", &host, &bearer]);
    assert!(found.contains("\"schema\":\"weigh.top/1\""), "{found}");
    // The same process has another one.
    replace(&certificate_file, "renewed.pem");
    replace(&key_file, "other.key");
    wait_until("it is renewed", 60.0, || certificate_at(port) == "renewed");
    assert_eq!(status().starts, 1);
}

/// Takes one request over TLS; its head, if the client trusts who answers.
fn take_request(listener: &TcpListener) -> Option<String> {
    let (socket, _) = listener.accept().expect("a client");
    socket.set_read_timeout(Some(patience(30.0))).expect("a socket");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_file_iter(file("server.pem")).expect("a file");
    let chain = chain.collect::<Result<_, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(file("server.key")).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("they go together");
    let connection = ServerConnection::new(Arc::new(config)).expect("a server");
    let mut stream = StreamOwned::new(connection, socket);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    // What it sends is not kept.
    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    String::from_utf8(head).ok()
}

#[test]
fn metrics_go_by_tls_to_servers_that_an_authority_vouches_for() {
    let scratch = Scratch::new();
    let start = |listener: &TcpListener, authorities: &Path| {
        let port = listener.local_addr().expect("an address").port();
        let mut command = Command::new(weigh_binary());
        set_surroundings(&mut command, &scratch);
        command.env("SSL_CERT_FILE", authorities).env_remove("SSL_CERT_DIR");
        command.args(["serve", "--export", &format!("prometheus=https://127.0.0.1:{port}")]);
        command.arg(scratch.path("work")).stdin(Stdio::null());
        command
    };
    let listen = || TcpListener::bind("127.0.0.1:0").expect("a socket");
    let run = |listener: &TcpListener, authorities: &str| {
        let mut command = start(listener, &file(authorities));
        Mortal::of(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn())
    };
    let (trusted, doubted) = (listen(), listen());
    let _trusting = run(&trusted, "ca.pem");
    let head = take_request(&trusted).expect("it trusts the server");
    assert!(head.starts_with("POST /api/v1/write HTTP/1.1\r\n"), "{head}");
    // The key's other certificate is no authority.
    let _doubting = run(&doubted, "nameless.pem");
    assert_eq!(take_request(&doubted), None);
    let output = start(&listen(), Path::new("/nonexistent")).output().expect("weigh");
    refused(output, &["https needs the certificates of authorities", "SSL_CERT_FILE=FILE"]);
}
