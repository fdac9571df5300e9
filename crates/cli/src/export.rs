//! `weigh export`: a recording in the form of another program.
//!
//! Reads a recording, row by row; emits text on standard output. Refuses one that has not what is asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use weigh_keep::Recording;
use weigh_schema::io::{FileUse, Flow, IoFound, Object};
use weigh_show::darshan::{Began, Ranks, head, record};
use weigh_show::workflow::{Workflow, dot, wfformat};

use crate::arguments::{ExportArguments, ExportFormat};
use crate::show::{print, print_columns, print_json};

/// Pieces of so much text are written at once.
const PIECE: usize = 64 * 1024;

/// Writes it.
pub fn execute(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let recording = Recording::open(&arguments.recording)?;
    let Some(found) = recording.summary().io.as_deref() else {
        let place = recording.directory().display();
        let why = match recording.is_complete() {
            true => "`weigh run --io` records it",
            false => {
                "it was cut short, and nothing of it had been recorded (`weigh run --io` does so at each --interval)"
            }
        };
        bail!("{place}: what was read and written is not in it; {why}");
    };
    let wanted = Wanted { under: absolute(&arguments.under)? };
    match arguments.format {
        ExportFormat::DarshanParser => darshan(&recording, &wanted)?,
        ExportFormat::Wfformat => {
            let workflow = workflow(&recording, found, &wanted)?;
            print_json(&wfformat::render(recording.summary(), found, &workflow))?;
        }
        ExportFormat::Dot => print(&dot::render(&workflow(&recording, found, &wanted)?))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Which files are wanted.
struct Wanted {
    /// Folders; all files, if there is none.
    under: Vec<PathBuf>,
}

impl Wanted {
    fn path(&self, path: &str) -> bool {
        self.under.is_empty() || self.under.iter().any(|folder| Path::new(path).starts_with(folder))
    }

    fn flow(&self, flow: &Flow) -> bool {
        flow.object != Object::Regular || self.path(&flow.name)
    }
}

/// Names in a recording are absolute. Its folders need not be there any more.
fn absolute(folders: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let full =
        |folder: &PathBuf| Ok(folder.canonicalize().or_else(|_| std::path::absolute(folder))?);
    folders.iter().map(full).collect()
}

fn darshan(recording: &Recording, wanted: &Wanted) -> anyhow::Result<()> {
    let ranks = ranks(recording, wanted)?;
    let mut text = head(recording.summary(), &ranks);
    let mut failed = None;
    let mut is_something = false;
    each_use(recording, wanted, |used| {
        let lines = record(used, &ranks);
        is_something |= !lines.is_empty();
        text.push_str(&lines);
        if text.len() >= PIECE && failed.is_none() {
            failed = print_columns(&std::mem::take(&mut text)).err();
        }
    })?;
    if !is_something {
        return Err(nothing(recording, wanted));
    }
    match failed {
        Some(error) => Err(error),
        None => print_columns(&text),
    }
}

fn ranks(recording: &Recording, wanted: &Wanted) -> anyhow::Result<Ranks> {
    let (mut processes, mut users) = (Vec::new(), BTreeSet::new());
    recording.each_process(|row| {
        processes.push(Began {
            started_ns: row.started_ns,
            pid: row.pid,
            parent: row.parent,
            uid: row.uid,
        });
    })?;
    each_use(recording, wanted, |used| {
        users.insert(used.pid);
    })?;
    Ok(Ranks::new(processes, &users))
}

fn workflow(recording: &Recording, found: &IoFound, wanted: &Wanted) -> anyhow::Result<Workflow> {
    let mut workflow = Workflow::default();
    let mut is_something = wanted.under.is_empty();
    each_use(recording, wanted, |used| {
        is_something |= used.object == Object::Regular;
        workflow.add_use(used);
    })?;
    // Or it would be a graph of processes, in which nobody would look for the folder's files.
    if !is_something {
        return Err(nothing(recording, wanted));
    }
    workflow.add_flows(found.flows.iter().filter(|flow| wanted.flow(flow)));
    recording.each_process(|row| workflow.add_process(row))?;
    if workflow.tasks.is_empty() {
        return Err(nothing(recording, wanted));
    }
    Ok(workflow)
}

/// There is nothing to write.
fn nothing(recording: &Recording, wanted: &Wanted) -> anyhow::Error {
    let place = recording.directory().display();
    let folders: Vec<_> = wanted.under.iter().map(|folder| folder.display().to_string()).collect();
    let below = match folders.as_slice() {
        [] => String::new(),
        folders => format!(" below what --under names ({})", folders.join(", ")),
    };
    anyhow!("{place}: no process of it read or wrote a file{below}")
}

fn each_use(
    recording: &Recording,
    wanted: &Wanted,
    mut visit: impl FnMut(&FileUse),
) -> anyhow::Result<()> {
    recording.each_file(|row| {
        if let Some(used) = row.used.as_deref().filter(|used| wanted.path(&used.name)) {
            visit(used);
        }
    })?;
    Ok(())
}
