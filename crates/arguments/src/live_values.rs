//! What programs and monitors have of a stream of `weigh trace` while it runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use weigh_session::products::trace::TriggerSpec;
use weigh_trace::sampling::Sampling;

use super::serve::address;

/// So often a command is run unless somebody says otherwise.
const USUAL: Sampling = Sampling::AtMost(1);

/// Options for programs that live with a stream.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "While it runs")]
pub struct LiveValueArguments {
    /// Run a command for events: '[of EVENT, ...:] COMMAND ARGUMENT... [at most N/s | every 10s]'; at most 1/s unless said
    /// otherwise, and one at a time. WEIGH_EVENTS says how many events it stands for, standard input has the first of them
    /// as JSON. No shell is involved: for one, write sh -c '...'. Can be given several times.
    #[arg(long = "on-event", value_name = "COMMAND", value_parser = trigger)]
    pub on_event: Vec<TriggerSpec>,

    /// Serve what several events say together in OpenMetrics, at /metrics of a socket (a path with a '/', for this user
    /// alone) or of 127.0.0.1:PORT, which needs --token-file.
    #[arg(long, value_name = "SOCKET|127.0.0.1:PORT", value_parser = metrics_place, value_hint = ValueHint::FilePath)]
    pub metrics: Option<MetricsPlace>,

    /// Publish what several events say together in the agent's stream `pushed`, once a second: for its readers and rules. What
    /// is published everybody on this machine can read.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, require_equals = true, value_hint = ValueHint::FilePath)]
    pub publish: Option<Option<PathBuf>>,

    /// The token that --metrics asks for (mode 0600); it is made if it is not there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "metrics")]
    pub token_file: Option<PathBuf>,
}

impl LiveValueArguments {
    /// Whether programs read what several events say together.
    pub fn has_readers(&self) -> bool {
        self.metrics.is_some() || self.publish.is_some()
    }
}

/// Where metrics are collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsPlace {
    /// A socket in the file system.
    Socket(PathBuf),
    /// A port of this machine's loopback.
    Port(SocketAddr),
}

fn metrics_place(text: &str) -> Result<MetricsPlace, String> {
    if text.contains('/') {
        return Ok(MetricsPlace::Socket(text.into()));
    }
    let expected = "expected a path with a '/' in it, as ./metrics.sock, or 127.0.0.1:PORT";
    let found = address(text).map_err(|_| expected.to_string())?;
    match found.ip().is_loopback() {
        true => Ok(MetricsPlace::Port(found)),
        false => Err(format!("other machines can reach {}; {expected}", found.ip())),
    }
}

/// Reads what is behind `--on-event`.
pub fn trigger(text: &str) -> Result<TriggerSpec, String> {
    let (events, rest) = match text.trim_start().strip_prefix("of ") {
        None => (Vec::new(), text),
        Some(named) => {
            let (names, rest) =
                named.split_once(": ").ok_or("expected ': ' between the events and the command")?;
            (names.split(',').map(|name| name.trim().to_string()).collect(), rest)
        }
    };
    if events.iter().any(String::is_empty) {
        return Err("expected the name of an event behind 'of' and each ','".into());
    }
    let mut words = shlex::split(rest).ok_or("a quotation mark has no end")?;
    let rule = take_rule(&mut words)?;
    match words.is_empty() {
        true => Err("expected a command".into()),
        false => {
            Ok(TriggerSpec { events, command: words.into_iter().map(Into::into).collect(), rule })
        }
    }
}

/// Takes the rule from the end of the words, if one stands there.
fn take_rule(words: &mut Vec<String>) -> Result<Sampling, String> {
    let ends = |words: &[String], with: &[&str]| {
        let begin = words.len().checked_sub(with.len() + 1);
        begin.filter(|at| words[*at..].iter().zip(with).all(|(word, with)| word == with))
    };
    let at = ends(words, &["at", "most"]).or_else(|| ends(words, &["every"]));
    let Some(at) = at else { return Ok(USUAL) };
    let rule = words.split_off(at).join(" ");
    let found = Sampling::parse(&rule).map_err(|refusal| refusal.to_string())?;
    match found {
        Sampling::AtMost(most) if most > 1000 => Err(format!("'{rule}': expected at most 1000/s")),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(spec: &TriggerSpec) -> Vec<&str> {
        spec.command.iter().map(|word| word.to_str().unwrap()).collect()
    }

    #[test]
    fn words_are_split_as_a_shell_does_and_nothing_else_of_it_is_done() {
        let spec = trigger("logger -t weigh 'two words; $(id)' at most 5/s").unwrap();
        assert_eq!(command(&spec), ["logger", "-t", "weigh", "two words; $(id)"]);
        assert_eq!((spec.rule, spec.events.len()), (Sampling::AtMost(5), 0));
        let spec = trigger("of sched:sched_switch, openat: sh -c \"exit 1\"").unwrap();
        assert_eq!(spec.events, ["sched:sched_switch", "openat"]);
        assert_eq!((command(&spec), spec.rule), (vec!["sh", "-c", "exit 1"], USUAL));
        let spec = trigger("notify every 10s").unwrap();
        assert_eq!((command(&spec), spec.rule), (vec!["notify"], Sampling::Every(10_000_000_000)));
        // In quotation marks it is an argument.
        assert_eq!(command(&trigger("echo 'at most 5/s'").unwrap()), ["echo", "at most 5/s"]);
    }

    #[test]
    fn what_is_wrong_says_what_was_expected() {
        for (text, said) in [
            ("", "a command"),
            ("at most 5/s", "a command"),
            ("of a b", "': '"),
            ("of a,: true", "name of an event"),
            ("echo 'x", "quotation"),
            ("true at most x/s", "a number"),
            ("true at most 5", "'/s', as in 'at most 5/s'"),
            ("true at most 5/min", "'/s', as in 'at most 5/s'"),
            ("true every 10", "as in '10ms'"),
            ("true at most 2000/s", "1000/s"),
        ] {
            let error = trigger(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn metrics_are_for_this_machine_alone() {
        assert_eq!(metrics_place("./m.sock"), Ok(MetricsPlace::Socket("./m.sock".into())));
        let port = MetricsPlace::Port("127.0.0.1:9100".parse().unwrap());
        assert_eq!(metrics_place("9100"), Ok(port.clone()));
        assert_eq!(metrics_place("127.0.0.1:9100"), Ok(port));
        for wrong in ["0.0.0.0:9100", "metrics.sock", "10.0.0.1:1"] {
            assert!(metrics_place(wrong).unwrap_err().contains("127.0.0.1:PORT"), "{wrong}");
        }
    }
}
