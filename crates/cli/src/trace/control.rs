//! `weigh trace ctl`: asks a stream, and tells what it answers.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;
use weigh_session::products::trace::{Answer, Ask, Change, ask_stream};

use crate::terminal::{print, print_json};
use weigh_arguments::{TraceCtl, TraceCtlArguments, TraceCtlBuffer};

/// Asks.
pub fn ask(arguments: &TraceCtlArguments) -> anyhow::Result<ExitCode> {
    let is_json = matches!(
        arguments.ask,
        Some(TraceCtl::List { json: true } | TraceCtl::Buffers { json: true })
    );
    let is_buffers = matches!(arguments.ask, Some(TraceCtl::Buffers { .. }));
    let ask = match &arguments.ask {
        None | Some(TraceCtl::List { .. } | TraceCtl::Buffers { .. }) => Ask::List,
        Some(TraceCtl::Buffer(TraceCtlBuffer::Add { buffer })) => {
            Ask::AddBuffer { buffer: buffer.clone() }
        }
        Some(TraceCtl::Buffer(TraceCtlBuffer::Set { name, clauses })) => {
            Ask::SetBuffer { name: name.clone(), clauses: clauses.clone() }
        }
        Some(TraceCtl::Buffer(TraceCtlBuffer::Remove { name })) => {
            Ask::RemoveBuffer { name: name.clone() }
        }
        Some(TraceCtl::Add { event }) => Ask::Add { event: event.clone() },
        Some(TraceCtl::Remove { id }) => Ask::Remove { id: *id },
        Some(TraceCtl::Pause { id }) => Ask::Follow { id: *id, is_on: false },
        Some(TraceCtl::Resume { id }) => Ask::Follow { id: *id, is_on: true },
        Some(TraceCtl::Filter { id, filter }) => Ask::Filter { id: *id, filter: filter.clone() },
        Some(TraceCtl::Sample { id, rule }) => Ask::Sample { id: *id, rule: rule.clone() },
        Some(TraceCtl::Wake { bytes }) => Ask::Wake { bytes: *bytes },
    };
    let (pid, answer) = ask_stream(arguments.stream, &ask)?;
    match answer {
        Answer::Register(register) if is_json && is_buffers => {
            print_json(&format!("{:#}\n", register["buffers"]))?;
        }
        Answer::Register(register) if is_buffers => print(&buffers(&register))?,
        Answer::Register(register) if is_json => print_json(&format!("{register:#}\n"))?,
        Answer::Register(register) => print(&table(&register))?,
        Answer::Done(done) => print(&told(&done))?,
        Answer::Refused(why) => bail!("{why}"),
        _ => bail!("the stream of {pid} answers what was not asked"),
    }
    Ok(ExitCode::SUCCESS)
}

fn told(done: &Change) -> String {
    let ids: Vec<String> = done.ids.iter().map(usize::to_string).collect();
    let which = if ids.is_empty() {
        done.what.clone().unwrap_or_else(|| "the stream".into())
    } else {
        format!("probe {}", ids.join(", "))
    };
    format!("{which}: in force after {:.3} ms\n", done.took_us as f64 / 1e3)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Its buffers.
fn buffers(register: &Value) -> String {
    let mut told = format!(
        "{:>12} {:>12} {:>8} {:>4} {:>10}  BUFFER\n",
        "RECORDS", "PASSED OVER", "LOST", "RINGS", "BYTES"
    );
    for buffer in register["buffers"].as_array().into_iter().flatten() {
        let of = |key: &str| text(&buffer[key]);
        let _ = write!(
            told,
            "{:>12} {:>12} {:>8} {:>4} {:>10}  {}: {}, deliver {}",
            of("taken"),
            of("passed_over"),
            of("lost"),
            of("rings"),
            of("ring_bytes"),
            of("name"),
            of("spread"),
            of("delivery")
        );
        if let Some(events) = buffer["events"].as_array() {
            let events: Vec<String> = events.iter().map(text).collect();
            let _ = write!(told, ", of {}", events.join(" | "));
        }
        if let Some(output) = buffer["output"].as_str() {
            let _ = write!(told, ", to {output}");
        }
        if let Some(predicate) = buffer["predicate"].as_str() {
            let _ = write!(told, " if {predicate}");
        }
        if let Some(why) = buffer["failed"].as_str() {
            let _ = write!(told, "  (ended early: {why})");
        }
        told += if buffer["is_removed"] == true { "  (removed)\n" } else { "\n" };
    }
    told
}

/// The register, for people.
fn table(register: &Value) -> String {
    let of = |key: &str| text(&register[key]);
    let mut told = format!(
        "stream {}: {} records taken in {:.3} s, to {}; {} × {} bytes, wakes at {}\n",
        of("pid"),
        of("taken"),
        register["seconds"].as_f64().unwrap_or(0.0),
        register["output"].as_str().unwrap_or("the terminal"),
        of("rings"),
        of("ring_bytes"),
        of("wake_bytes"),
    );
    let _ = writeln!(told, "{:>4} {:>12} {:>8}  EVENT", "ID", "RECORDS", "LOST");
    for probe in register["probes"].as_array().into_iter().flatten() {
        let gone = ["lost", "unread", "missed"].map(|key| probe[key].as_u64().unwrap_or(0));
        let lost: u64 = gone.iter().sum();
        let (id, sent, event) = (text(&probe["id"]), text(&probe["sent"]), text(&probe["event"]));
        let _ = write!(told, "{id:>4} {sent:>12} {lost:>8}  {event}");
        if let Some(filter) = probe["filter"].as_str() {
            let _ = write!(told, " if {filter}");
        }
        if let Some(rule) = probe["sampling"].as_str() {
            let _ = write!(told, " {rule} of {}", text(&probe["matched"]));
        }
        if probe["is_removed"] == true {
            told += "  (removed)";
        } else if probe["is_paused"] == true {
            told += "  (not followed now)";
        }
        told.push('\n');
    }
    for rule in register["rules"].as_array().into_iter().flatten() {
        let (on, switches) = (rule["is_on"] == true, text(&rule["switches_total"]));
        let state = if on { "on" } else { "off" };
        let _ =
            writeln!(told, "when {}  ({state}, switched {switches} times)", text(&rule["rule"]));
        if let Some(error) = rule["error"].as_str() {
            let _ = writeln!(told, "     {error}");
        }
    }
    if let Some(readers) = register["report_readers"].as_u64().filter(|readers| *readers > 0) {
        let _ = writeln!(told, "{readers} take reports");
    }
    for client in register["clients"].as_array().into_iter().flatten() {
        let of = |key: &str| text(&client[key]);
        let _ = writeln!(
            told,
            "{} read along by {}: {} events, {} lost, {} bytes behind",
            of("buffer"),
            of("pid"),
            of("seen"),
            of("lost"),
            of("lag")
        );
    }
    told + &buffers(register)
}
