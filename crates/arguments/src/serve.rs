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
  weigh serve --agent                        the node as the agent of this machine sees it
  weigh serve --http 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem
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
    /// Where to listen: a port, or an address of this machine's loopback with a port, with --tls-cert any address of it; 0 is
    /// any free one; - is standard input, a socket that listens (systemd: StandardInput=socket).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = listen_address)]
    pub http: ListenAddress,
    /// How the page is served over TLS.
    #[command(flatten)]
    pub tls: TlsArguments,
    /// Take certificate and key from the agent's process.
    #[arg(long, requires = "child_of", hide = true)]
    pub tls_input: bool,
    /// Take the node's values from the agent that answers at this socket [default: $WEIGH_SOCKET, else
    /// /run/weigh/agent.sock], and show of processes and jobs what you may see there.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, require_equals = true, value_hint = ValueHint::FilePath)]
    pub agent: Option<Option<PathBuf>>,
    /// Serve the page to all users of the agent, each with the token that `weigh agent url` gives it: what that user may see.
    /// Only as a user without any rights; recordings are not served.
    #[arg(long, requires = "agent", conflicts_with_all = ["folders", "token_file"])]
    pub for_users: bool,
    /// The agent's process, which has started this one.
    #[arg(long, value_name = "PID", requires = "for_users", hide = true)]
    pub child_of: Option<u32>,
    /// Let programs collect /metrics with the token in this file (mode 0600), which stays the same; it is made if it is
    /// not there. It opens nothing else.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// List all users' processes.
    #[arg(short, long, conflicts_with = "agent")]
    pub all: bool,
    /// Send the node's metrics to a server or a file: prometheus=URL, otlp=URL, elasticsearch=URL, statsd=HOST:PORT,
    /// dogstatsd=HOST:PORT, csv=FILE, jsonl=FILE. Can be given several times.
    #[arg(long = "export", value_name = "TARGET")]
    pub exports: Vec<String>,
    /// How often the node is read for --export.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub export_interval: Duration,
    /// Export jobs as well (sessions of weigh run, jobs of Slurm, containers, units), by number, user and name; /metrics has
    /// them, too. N at once at most: each new job makes new series in a database.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "100",
        value_parser = clap::value_parser!(u16).range(1..=MOST_JOBS), conflicts_with = "for_users")]
    pub export_jobs: Option<u16>,
    /// Export what clients of the agent have published as well (weigh push, weigh trace --publish, StatsD, OTLP), with the names
    /// that they say; /metrics has it, too. N values at once at most: each new name makes a new series in a database.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "100",
        value_parser = clap::value_parser!(u16).range(1..=MOST_PUBLISHED), conflicts_with = "for_users")]
    pub export_published: Option<u16>,
}

/// What --export-jobs allows at most.
const MOST_JOBS: i64 = 10_000;
/// What --export-published allows at most: a report has no more.
const MOST_PUBLISHED: i64 = 256;

impl ServeArguments {
    /// How many jobs are exported at most.
    pub fn most_jobs(&self) -> usize {
        self.export_jobs.map_or(0, usize::from)
    }

    /// How many published values are.
    pub fn most_published(&self) -> usize {
        self.export_published.map_or(0, usize::from)
    }
}

/// How a page is served over TLS.
#[derive(Args, Clone, Debug)]
pub struct TlsArguments {
    /// Serve over TLS, with the certificate in this file (PEM), and behind it those that have signed it. The page is reached
    /// under the names that it is for, and by other machines, too.
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM), which others may not read.
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
}

/// An address, or none for a socket that listens already.
pub type ListenAddress = Option<SocketAddr>;

fn listen_address(text: &str) -> Result<ListenAddress, String> {
    if text == "-" { Ok(None) } else { address(text).map(Some) }
}

/// A port, or an address with a port.
pub fn address(text: &str) -> Result<SocketAddr, String> {
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
