//! A job as a workflow: its processes as tasks, with what each took in and what it made, and who came after whom
//! because of it.
//!
//! Reads the processes, what they did with files, and who wrote what others read; emits what
//! [`wfformat`](super::wfformat) and [`dot`](super::dot) are made of. Refuses nothing: what is left out is counted, for the forms to say.

pub mod files;
mod order;
mod ties;

use std::collections::{BTreeMap, BTreeSet};

use weigh_schema::io::{FileUse, Flow, Object, Totals, Transfer};
use weigh_schema::recording::ProcessRow;

use super::form::RecordingRows;
use files::{DataFile, FileKey};
use ties::Ties;

/// What one process took in and made.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// The process, unless its row is missing.
    pub process: Option<ProcessRow>,
    /// The kernel's name for it.
    pub name: String,
    /// Files that it read, or mapped.
    pub inputs: BTreeSet<FileKey>,
    /// Files that it wrote, or emptied.
    pub outputs: BTreeSet<FileKey>,
}

/// The tasks, their files, and what goes from one to the other.
#[derive(Clone, Debug, Default)]
pub struct Workflow {
    /// By PID.
    pub tasks: BTreeMap<u32, Task>,
    /// By what they are, not by what they are called.
    pub files: BTreeMap<FileKey, DataFile>,
    /// What goes from one task to another, those of most bytes first; never in a circle.
    pub flows: Vec<Flow>,
    /// How many were left out because they would have closed a circle.
    pub circular_total: usize,
    /// How many files were left out because one process alone had used them, and they were deleted in the end.
    pub scratch_total: usize,
    /// How many more parents there would be by files that were used one after the other.
    pub untied_total: usize,
    scratch: BTreeMap<FileKey, BTreeSet<u32>>,
    ties: Ties,
}

impl Workflow {
    /// That of a recording; none if nothing of it is a task.
    pub fn read(rows: &dyn RecordingRows) -> anyhow::Result<Option<Workflow>> {
        let mut workflow = Workflow::default();
        let mut is_something = !rows.is_part();
        rows.each_use(&mut |used| {
            is_something |= used.object == Object::Regular;
            workflow.add_use(used);
        })?;
        // Or it would be a graph of processes, in which nobody would look for the folder's files.
        if !is_something {
            return Ok(None);
        }
        workflow.add_flows(rows.flows().into_iter());
        rows.each_process(&mut |row| workflow.add_process(row))?;
        Ok((!workflow.tasks.is_empty()).then_some(workflow))
    }

    /// Adds what a process did with a file; all but regular files are passed over.
    pub fn add_use(&mut self, used: &FileUse) {
        let (is_input, is_output) = (reads(&used.totals), writes(&used.totals));
        if used.object != Object::Regular || !(is_input || is_output) {
            return;
        }
        let key = FileKey::of(used);
        let task = self.tasks.entry(used.pid).or_default();
        task.name.clone_from(&used.process);
        if is_input {
            task.inputs.insert(key.clone());
            self.ties.add_reader(&key, used.pid, last_read(&used.totals));
        }
        if is_output {
            task.outputs.insert(key.clone());
            let first = value(&used.totals, "first_seconds").unwrap_or(0.0);
            self.ties.add_writer(&key, used.pid, first);
        }
        if used.is_deleted {
            self.scratch.entry(key.clone()).or_default();
        }
        let file = self.files.entry(key).or_default();
        file.path.clone_from(used.later_name.as_ref().unwrap_or(&used.name));
        // Where in a file mapped memory was used is not known, but how much of it came or went.
        let by_mapping = mapped(&used.totals);
        file.size = number(&used.totals, "highest_bytes")
            .max(by_mapping.read_bytes)
            .max(by_mapping.written_bytes)
            .max(file.size);
    }

    /// Adds who wrote what others read, after all uses.
    pub fn add_flows<'a>(&mut self, flows: impl Iterator<Item = &'a Flow>) {
        for flow in flows {
            for (pid, name) in [(flow.writer, &flow.writer_name), (flow.reader, &flow.reader_name)]
            {
                self.tasks.entry(pid).or_default().name.clone_from(name);
            }
            self.flows.push(flow.clone());
        }
        let (ties, more) = self.ties.beside(&self.flows, &self.files);
        self.flows.extend(ties);
        self.untied_total = more;
        self.circular_total = order::without_circles(&mut self.flows);
        self.leave_out_scratch();
    }

    /// Adds a process, after all uses and flows; one that used nothing is no task.
    pub fn add_process(&mut self, row: ProcessRow) {
        // Where a PID was given twice, the first one has it: files are told by the PID alone.
        if let Some(task) = self.tasks.get_mut(&row.pid)
            && task.process.is_none()
        {
            task.process = Some(row);
        }
    }

    /// A file that one process made, used and deleted is nobody's input.
    fn leave_out_scratch(&mut self) {
        for (pid, task) in &self.tasks {
            for file in task.inputs.union(&task.outputs) {
                if let Some(users) = self.scratch.get_mut(file) {
                    users.insert(*pid);
                }
            }
        }
        self.scratch.retain(|_, users| users.len() == 1);
        self.scratch_total = self.scratch.len();
        for (file, users) in std::mem::take(&mut self.scratch) {
            self.files.remove(&file);
            for pid in users {
                let Some(task) = self.tasks.get_mut(&pid) else { continue };
                task.inputs.remove(&file);
                task.outputs.remove(&file);
            }
        }
    }
}

fn value(totals: &Totals, key: &str) -> Option<f64> {
    totals.numbers.get(key).map(|number| number.as_f64())
}

fn number(totals: &Totals, key: &str) -> u64 {
    value(totals, key).map_or(0, |number| number as u64)
}

/// When it was read last. Where it was mapped that may be long after it was closed.
fn last_read(totals: &Totals) -> f64 {
    let is_mapped = number(totals, "maps_total") > 0;
    value(totals, "last_seconds").filter(|_| !is_mapped).unwrap_or(f64::INFINITY)
}

fn mapped(totals: &Totals) -> weigh_schema::io::Transferred {
    totals.by_kind.get(Transfer::Mapped.name()).copied().unwrap_or_default()
}

/// Whether anything of it was taken in. What is mapped and in memory already moves no byte.
fn reads(totals: &Totals) -> bool {
    let mapped = mapped(totals);
    let is_mapped = number(totals, "maps_total") > 0 && mapped.written_bytes == 0;
    totals.by_calls.read_bytes > 0 || mapped.read_bytes > 0 || is_mapped
}

/// Whether anything of it was made: an empty file is made by opening it so.
fn writes(totals: &Totals) -> bool {
    let written = totals.by_calls.written_bytes + mapped(totals).written_bytes;
    written > 0 || number(totals, "truncates_total") > 0
}
