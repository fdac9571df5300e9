//! What `weigh serve` is told.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::numbers::interval;

const EXAMPLES: &str = "\
It prints the URL of the page, with a token that is another one at each start, and serves until TERM or INT. It needs
no privileges, and shows what the user that runs it may read.

Examples:
  weigh serve                                the node, and the recordings that weigh run has kept
  weigh serve runs/ --http 8080              the recordings of a folder
  weigh serve --export prometheus=http://127.0.0.1:9090
  ssh -L 8080:127.0.0.1:8080 NODE weigh serve --http 8080

See also: the page `serve` of weigh's documentation (the page, who may see it, the API).";

/// Options of `weigh serve`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// Recordings, and folders with recordings, in which new ones appear by themselves [default: where weigh run keeps
    /// them].
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folders: Vec<PathBuf>,
    /// Where to listen: a port, or an address of this machine's loopback with a port; 0 is any free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address)]
    pub http: SocketAddr,
    /// List all users' processes.
    #[arg(short, long)]
    pub all: bool,
    /// Send the node's metrics to a server or a file: prometheus=URL, otlp=URL, elasticsearch=URL, statsd=HOST:PORT,
    /// dogstatsd=HOST:PORT, csv=FILE, jsonl=FILE. Can be given several times.
    #[arg(long = "export", value_name = "TARGET")]
    pub exports: Vec<String>,
    /// How often the node is read for --export.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub export_interval: Duration,
}

/// A port, or an address with a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let local = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let of_port = |text: &str| text.parse().ok().map(local);
    let named = text.strip_prefix("localhost:").and_then(of_port);
    let found = of_port(text).or(named).or_else(|| text.parse().ok());
    found.ok_or_else(|| "expected a port, or an address such as 127.0.0.1:8080".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_one_of_loopback() {
        let shown = |text: &str| address(text).map(|address| address.to_string());
        for text in ["8080", "127.0.0.1:8080", "localhost:8080"] {
            assert_eq!(shown(text).as_deref(), Ok("127.0.0.1:8080"));
        }
        assert_eq!(shown("[::1]:0").as_deref(), Ok("[::1]:0"));
        for text in ["", "70000", "127.0.0.1", "example.org:80", "localhost"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
