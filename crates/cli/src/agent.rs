//! `weigh agent`: serves programs with libweigh, users' `weigh run` and streams of what the node does, in the foreground,
//! until it is told to end; says how such an agent stands, and changes what it does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use weigh_agent::{StreamClient, StreamRequest};
use weigh_collect::message::notice;
use weigh_schema::stream::{CollectorSwitch, StreamRead, StreamRecords};
use weigh_session::products::agent::{AgentSettings, PageSettings, RenewedPem, serve};
use weigh_session::products::rule_events::run_commands;
use weigh_session::products::rules::read_trusted;

use crate::serve::read_or_make;
use crate::serve::tls_files::{self, TlsFiles};
use crate::terminal::{print, print_json};
use weigh_arguments::{
    AgentArguments, AgentCommandsArguments, AgentReadArguments, AgentSetArguments, AgentSocket,
    AgentStatusArguments, AgentUrlArguments, AgentVerb, TlsArguments,
};

/// Errors: other machines can reach its address, and it has no TLS; a file cannot be used.
fn page(arguments: &AgentArguments) -> anyhow::Result<Option<PageSettings>> {
    let pem = tls_files::read(&arguments.tls)?;
    let Some(address) = arguments.http else {
        return match pem {
            Some(_) => bail!("--tls-cert: expected --http, where the page is served"),
            None => Ok(None),
        };
    };
    weigh_web::check_address(address, pem.is_some())?;
    if arguments.http_apart && address.port() == 0 {
        bail!("--http-apart: expected the port where the page is served");
    }
    let origin = match &pem {
        Some(pem) => {
            format!("https://{}", tls_files::identity(&arguments.tls, pem)?.authority(address)?)
        }
        None => format!("http://{address}"),
    };
    Ok(Some(PageSettings {
        address,
        origin_apart: arguments.http_apart.then_some(origin),
        renewed_pem: pem
            .as_ref()
            .filter(|_| !arguments.http_apart)
            .map(|_| renewed_pem(&arguments.tls)),
        pem,
        user: arguments.http_user.clone(),
        metrics_token: arguments.token_file.as_deref().map(read_or_make).transpose()?,
    }))
}

fn renewed_pem(arguments: &TlsArguments) -> RenewedPem {
    let files = TlsFiles::new(arguments);
    RenewedPem(Arc::new(move || files.renewed(false).map(|(pem, _)| pem)))
}

/// Where the agent answers.
pub fn socket(at: &AgentSocket) -> PathBuf {
    at.socket.clone().unwrap_or_else(weigh_agent::socket)
}

/// Serves until TERM or INT, or asks one that does.
pub fn agent(arguments: &AgentArguments) -> anyhow::Result<ExitCode> {
    match &arguments.request {
        None => serve(&AgentSettings { page: page(arguments)?, ..arguments.into() })?,
        Some(AgentVerb::Url(arguments)) => url(arguments)?,
        Some(AgentVerb::Commands(arguments)) => commands(arguments)?,
        Some(AgentVerb::Status(arguments)) => status(arguments)?,
        Some(AgentVerb::Read(arguments)) => read(arguments)?,
        Some(AgentVerb::Set(arguments)) => set(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn commands(arguments: &AgentCommandsArguments) -> anyhow::Result<()> {
    run_commands(&socket(&arguments.at), &read_trusted(&arguments.rules)?)
}

fn url(arguments: &AgentUrlArguments) -> anyhow::Result<()> {
    let url = StreamClient::connect(&socket(&arguments.at))?.page_url()?;
    print(&format!("{url}\n"))
}

fn status(arguments: &AgentStatusArguments) -> anyhow::Result<()> {
    let status = StreamClient::connect(&socket(&arguments.at))?.status()?;
    match arguments.json {
        true => print_json(&(serde_json::to_string_pretty(&status)? + "\n")),
        false => print(&weigh_show::agent::text(&status)),
    }
}

/// Bytes of records that are taken at once.
const READ_BYTES: u64 = 1 << 20;

fn read(arguments: &AgentReadArguments) -> anyhow::Result<()> {
    let client = StreamClient::connect(&socket(&arguments.at))?;
    let (mut from_sequence, mut left) = (arguments.from, arguments.count.unwrap_or(u64::MAX));
    let mut hidden = 0;
    while left > 0 {
        let found = client.read(StreamRead {
            stream: arguments.stream.clone(),
            from_sequence,
            at_most_bytes: READ_BYTES,
            newest: arguments.newest,
            wait: arguments.follow,
            interval_ms: arguments.interval.map(|time| time.as_millis() as u64),
        })?;
        let is_empty = found.records.is_empty() && found.lost + found.hidden == 0;
        if is_empty && !arguments.follow {
            break;
        }
        from_sequence = found.next_sequence;
        print_records(&found, &mut left)?;
        // Who follows is told at the first of them.
        if arguments.follow && hidden == 0 {
            tell_hidden(found.hidden);
        }
        hidden += found.hidden;
        // The next look is not made before its time.
        arguments.interval.into_iter().for_each(std::thread::sleep);
    }
    if !arguments.follow {
        tell_hidden(hidden);
    }
    Ok(())
}

/// Says that records are not this user's to see.
fn tell_hidden(records: u64) {
    let are = match records {
        0 => return,
        1 => "1 record is another user's".to_string(),
        _ => format!("{records} records are other users'"),
    };
    notice(format_args!("{are}: root and the agent's own user see all"));
}

/// As many as are left to be printed; those that were lost are said before.
fn print_records(found: &StreamRecords, left: &mut u64) -> anyhow::Result<()> {
    if found.lost > 0 {
        let first = found.records.first().map_or(found.next_sequence, |record| record.sequence);
        print(&format!("{{\"lost\":{},\"next_sequence\":{first}}}\n", found.lost))?;
    }
    for record in found.records.iter().take(usize::try_from(*left).unwrap_or(usize::MAX)) {
        print(&(serde_json::to_string(record)? + "\n"))?;
        *left -= 1;
    }
    Ok(())
}

fn set(arguments: &AgentSetArguments) -> anyhow::Result<()> {
    let client = StreamClient::connect(&socket(&arguments.at))?;
    let interval = arguments.interval.map(|interval| interval.as_millis() as u64);
    let switch = |(collector, is_on): &(String, bool)| {
        let collector = collector.clone();
        StreamRequest::SetCollector(CollectorSwitch { collector, is_on: *is_on })
    };
    let requests = (arguments.policy_change().map(StreamRequest::SetPolicy).into_iter())
        .chain(interval.map(StreamRequest::SetInterval))
        .chain(arguments.collector.iter().map(switch));
    for request in requests {
        client.send(&request)?;
    }
    Ok(())
}
