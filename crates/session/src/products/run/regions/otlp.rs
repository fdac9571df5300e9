//! Spans of OpenTelemetry: programs of the job export them to weigh, by HTTP on this machine.
//!
//! Listens at 127.0.0.1; reads requests to `/v1/traces`; emits spans for a [`SpanTable`]. Metrics and logs are taken, and left
//! out. Refuses who does not have the header that the job was told.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::BorrowedFd;

use weigh_account::regions::{SpanRows, SpanTable};
use weigh_agent::{HEADER, IntakeSettings, OtlpIntake, OtlpMessage, OtlpReply, OtlpSignal};
use weigh_collect::otlp::{each_span, peer_process};

/// So many connections at one time, and bytes of a request's body.
const CONNECTIONS: usize = 64;
const BODY_BYTES: usize = 4 << 20;

/// The variables by which programs are told, and others by which a user has said where spans go.
const VARIABLES: [&str; 3] =
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS"];

/// Where spans come in.
pub(super) struct OtlpServer {
    intake: OtlpIntake,
    spans: SpanTable,
}

impl OtlpServer {
    pub fn new() -> io::Result<OtlpServer> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let settings = IntakeSettings {
            token: Some(format!("{:032x}", u128::from_ne_bytes(random))),
            signals: &[OtlpSignal::Traces],
            accepts_others: true,
            connections: CONNECTIONS,
            body_bytes: BODY_BYTES,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let intake = OtlpIntake::new(listener, settings)?;
        Ok(OtlpServer { intake, spans: SpanTable::default() })
    }

    /// What the job's programs find it by.
    pub fn variables(&self) -> io::Result<[(OsString, OsString); 3]> {
        let values = [
            format!("http://127.0.0.1:{}", self.intake.port()?),
            "http/protobuf".to_string(),
            format!("{HEADER}={}", self.intake.token()),
        ];
        let mut values = values.into_iter();
        Ok(VARIABLES.map(|name| (name.into(), values.next().unwrap_or_default().into())))
    }

    /// Readable when there is something to attend to.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.intake.wake_fd()
    }

    /// Takes in who has connected, and what has come. `members` are the processes of the job.
    pub fn attend(&mut self, members: &dyn Fn() -> Vec<u32>) {
        let spans = &mut self.spans;
        self.intake.attend(&mut |message| take(spans, message, members));
    }

    /// What came in all, and what was refused, by the reason.
    pub fn finish(mut self) -> (SpanRows, BTreeMap<&'static str, u64>) {
        (self.spans.finish(), self.intake.take_refused())
    }
}

fn take(
    spans: &mut SpanTable,
    message: OtlpMessage<'_>,
    members: &dyn Fn() -> Vec<u32>,
) -> OtlpReply {
    let OtlpMessage { body, stream, peer, .. } = message;
    let process = peer.find(|| peer_process(stream, &members()));
    match each_span(body, &mut |span| spans.add(process.unwrap_or(span.process), &span)) {
        Ok(()) => OtlpReply::Accepted,
        Err(_) => OtlpReply::Refused("spans that make no sense"),
    }
}
