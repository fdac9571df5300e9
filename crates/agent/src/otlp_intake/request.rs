//! The head of an HTTP request with a message of OpenTelemetry, and its body's packing.

use std::io::Read as _;

use flate2::read::GzDecoder;

/// The header that a request must have.
pub const HEADER: &str = "x-weigh-token";

/// No request of an exporter has more.
const MOST_HEADERS: usize = 64;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpSignal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyForm {
    Protobuf,
    Json,
}

impl BodyForm {
    fn parse(content_type: &str) -> Option<BodyForm> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        match kind {
            _ if is("application/x-protobuf") => Some(BodyForm::Protobuf),
            _ if is("application/json") => Some(BodyForm::Json),
            _ => None,
        }
    }

    /// What an answer without a word is in that form.
    pub fn nothing(self) -> (&'static str, &'static str) {
        match self {
            BodyForm::Protobuf => ("application/x-protobuf", ""),
            BodyForm::Json => ("application/json", "{}"),
        }
    }
}

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Not at all.
    Identity,
    Gzip,
    /// In a way that is not taken.
    Unknown,
}

impl Encoding {
    fn parse(value: &[u8]) -> Encoding {
        match value.trim_ascii() {
            b"" | b"identity" => Encoding::Identity,
            b"gzip" | b"x-gzip" => Encoding::Gzip,
            _ => Encoding::Unknown,
        }
    }

    /// The body; none if it is packed otherwise, broken, or longer than that.
    pub fn unpack(self, body: &[u8], most: usize) -> Option<Vec<u8>> {
        let mut unpacked = Vec::new();
        match self {
            Encoding::Identity => unpacked.extend_from_slice(body),
            Encoding::Gzip => {
                let mut decoder = GzDecoder::new(body).take(most as u64 + 1);
                decoder.read_to_end(&mut unpacked).ok()?;
            }
            Encoding::Unknown => return None,
        }
        (unpacked.len() <= most).then_some(unpacked)
    }
}

/// What a head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Of the head.
    pub bytes: usize,
    /// Of the body; none if it does not say.
    pub body_bytes: Option<usize>,
    pub is_post: bool,
    /// By the path; none for another kind.
    pub signal: Option<OtlpSignal>,
    /// None where it is neither that is taken.
    pub form: Option<BodyForm>,
    pub keeps_alive: bool,
    pub encoding: Encoding,
    pub token: Option<String>,
}

/// What the bytes of a connection begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A head that is not whole yet.
    Partial,
    Whole(Head),
    /// None.
    Refused,
}

/// Reads a head.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::Refused,
    };
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value)
    };
    let text = |name: &str| header(name).and_then(|value| std::str::from_utf8(value).ok());
    let says = |name: &str, what: &str| text(name).is_some_and(|v| v.eq_ignore_ascii_case(what));
    let path = request.path.unwrap_or_default();
    Parsed::Whole(Head {
        bytes: length,
        body_bytes: text("content-length").and_then(|value| value.trim().parse().ok()),
        is_post: request.method == Some("POST"),
        signal: signal_of(path.split('?').next().unwrap_or_default()),
        form: text("content-type").and_then(BodyForm::parse),
        keeps_alive: request.version == Some(1) && !says("connection", "close"),
        encoding: Encoding::parse(header("content-encoding").unwrap_or_default()),
        token: text(HEADER).map(str::to_string),
    })
}

fn signal_of(path: &str) -> Option<OtlpSignal> {
    let kinds = [("/v1/traces", OtlpSignal::Traces), ("/v1/metrics", OtlpSignal::Metrics)];
    kinds.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, signal)| signal)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let text = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Weigh-Token: 77\r\n\
                     Content-Type: application/x-protobuf\r\ncontent-length: 12\r\n\r\nbody";
        assert_eq!(parse(&text[..40]), Parsed::Partial);
        let Parsed::Whole(head) = parse(text) else { panic!("a head") };
        assert_eq!((head.bytes, head.body_bytes), (text.len() - 4, Some(12)));
        assert!(head.is_post && head.keeps_alive);
        assert_eq!(head.form, Some(BodyForm::Protobuf));
        let form = |text| BodyForm::parse(text);
        assert_eq!(form("Application/JSON; charset=utf-8"), Some(BodyForm::Json));
        assert_eq!([form("application/jsonl"), form("text/plain"), form("")], [None; 3]);
        assert_eq!(head.signal, Some(OtlpSignal::Traces));
        assert_eq!(signal_of("/a/v1/metrics"), Some(OtlpSignal::Metrics));
        assert_eq!(signal_of("/v1/logs"), None);
        assert_eq!((head.encoding, head.token.as_deref()), (Encoding::Identity, Some("77")));
        assert_eq!(parse(b"\x16\x03\x01 no text \r\n\r\n"), Parsed::Refused);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(parse(many.as_bytes()), Parsed::Refused);
    }

    #[test]
    fn a_body_that_unpacks_to_more_is_refused() {
        let packed = |bytes: usize| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(&vec![0; bytes]).expect("memory");
            encoder.finish().expect("memory")
        };
        let unpack = |bytes| Encoding::Gzip.unpack(&packed(bytes), 5000).map(|body| body.len());
        assert_eq!((unpack(5000), unpack(5001), unpack(50_000_000)), (Some(5000), None, None));
        assert!(Encoding::Gzip.unpack(b"no gzip", 5000).is_none());
        assert!(Encoding::Unknown.unpack(b"", 5000).is_none());
    }
}
