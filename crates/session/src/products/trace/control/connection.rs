//! The other side: a stream of this user's is found and asked.

use std::os::unix::net::UnixStream;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::conversation::Conversation;
use super::socket::{folder, name, pid_of};
use super::wire::{Answer, Ask};

/// Asks a stream: the one that is named, or the only one. Says which it was.
pub fn ask_stream(asked: Option<u32>, ask: &Ask) -> anyhow::Result<(u32, Answer<Value>)> {
    let (pid, stream) = connect(asked)?;
    let answer = Conversation::new(stream).and_then(|stream| stream.ask(ask, &[]));
    let (answer, _) = answer.with_context(|| {
        format!("the stream of {pid} has ended, or answers what is not understood")
    })?;
    Ok((pid, answer))
}

/// The stream that is meant: the one that is named, or the only one.
pub fn connect(asked: Option<u32>) -> anyhow::Result<(u32, UnixStream)> {
    let folder = folder().context(
        "XDG_RUNTIME_DIR is not set: streams are found in it. Set it to what it is for the stream's weigh, \
         such as /run/user/1000",
    )?;
    if let Some(pid) = asked {
        let stream = UnixStream::connect(folder.join(name(pid)));
        return Ok((pid, stream.with_context(|| format!("--stream {pid}: no stream is there"))?));
    }
    let names = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let pids = names.filter_map(|entry| pid_of(&entry.file_name()));
    // Those that were killed have left their sockets.
    let mut found: Vec<(u32, UnixStream)> = pids
        .filter_map(|pid| Some((pid, UnixStream::connect(folder.join(name(pid))).ok()?)))
        .collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => bail!("no `weigh trace` of this user runs"),
        (Some(last), false) => {
            found.push(last);
            let pids: Vec<String> = found.iter().map(|(pid, _)| pid.to_string()).collect();
            bail!("several streams run: say --stream PID, one of {}", pids.join(", "))
        }
    }
}
