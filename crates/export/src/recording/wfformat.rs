//! WfFormat 1.5, the JSON in which WfCommons and the simulators beside it take workflows.
//!
//! Its fields are what they are there; what weigh does not know is left out. The description says what is
//! otherwise than its readers may think.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use weigh_schema::io::{Flow, IoFound};
use weigh_schema::recording::ProcessRow;
use weigh_schema::summary::{Host, Summary};
use weigh_schema::{Number, Value};

use super::workflow::files::{FileKey, unique_names};
use super::workflow::{Task, Workflow};
use super::{Piece, RecordingFormat, RecordingPart, RecordingRows, TextKind};

/// WfFormat 1.5.
pub const FORMAT: RecordingFormat = RecordingFormat {
    name: "wfformat",
    help: "WfFormat 1.5 (JSON), as WfCommons takes workflows: each process a task, with its input and output files, \
           its parents and children by who wrote what others read, its time, CPU, memory and bytes",
    text: TextKind::Json,
    part: RecordingPart::Files,
    write,
};

const VERSION: &str = "1.5";

fn write(rows: &dyn RecordingRows, piece: Piece<'_>) -> anyhow::Result<bool> {
    let summary = rows.summary();
    let (Some(workflow), Some(found)) = (Workflow::read(rows)?, summary.io.as_deref()) else {
        return Ok(false);
    };
    piece(&render(summary, found, &workflow))?;
    Ok(true)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Instance {
    name: String,
    description: String,
    created_at: String,
    schema_version: &'static str,
    runtime_system: System,
    workflow: Parts,
}

#[derive(Serialize)]
struct System {
    name: &'static str,
    version: String,
}

#[derive(Serialize)]
struct Parts {
    specification: Specification,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Execution>,
}

#[derive(Serialize)]
struct Specification {
    tasks: Vec<TaskSpecification>,
    files: Vec<DataFile>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskSpecification {
    name: String,
    id: String,
    parents: Vec<String>,
    children: Vec<String>,
    input_files: Vec<String>,
    output_files: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DataFile {
    id: String,
    size_in_bytes: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Execution {
    makespan_in_seconds: f64,
    executed_at: String,
    tasks: Vec<TaskExecution>,
    machines: [Machine; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskExecution {
    id: String,
    runtime_in_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    executed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Command>,
    #[serde(rename = "avgCPU", skip_serializing_if = "Option::is_none")]
    average_cpu: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_bytes: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written_bytes: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_in_bytes: Option<Number>,
    machines: [String; 1],
}

#[derive(Serialize)]
struct Command {
    program: String,
    arguments: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Machine {
    system: &'static str,
    node_name: String,
    release: String,
    memory_in_bytes: u64,
    cpu: Cpu,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cpu {
    core_count: u32,
}

/// The whole document.
pub fn render(summary: &Summary, found: &IoFound, workflow: &Workflow) -> String {
    let job = &summary.job;
    let program = job.command.first().map(|word| last_part(word).to_string());
    let instance = Instance {
        name: job.category.clone().or(program).unwrap_or_else(|| job.id.clone()),
        description: description(found, workflow),
        created_at: job.ended.unwrap_or(job.started).to_string(),
        schema_version: VERSION,
        runtime_system: System { name: "weigh", version: summary.host.weigh.clone() },
        workflow: Parts {
            specification: specification(workflow),
            execution: execution(summary, workflow),
        },
    };
    // Strings and numbers alone: there is nothing in it that JSON cannot have.
    serde_json::to_string_pretty(&instance).unwrap_or_default() + "\n"
}

fn description(found: &IoFound, workflow: &Workflow) -> String {
    let mut said = vec![
        "Each process that used a file is a task. A file's size is where the last byte lay that was used of it; \
         its name is the last path by which it was known, with #n2, #n3, ... behind it where another file had that name. \
         Parents wrote what their children read, in files, pipes or sockets; or wrote to a file before their children \
         had read it, where it is not known that it was these bytes."
            .to_string(),
    ];
    match workflow.untied_total {
        0 => {}
        n => said.push(format!("{n} more of the latter are not told.")),
    }
    match workflow.circular_total {
        0 => {}
        n => said.push(format!("{n} of these were left out, for they would have closed a circle.")),
    }
    match workflow.scratch_total {
        0 => {}
        n => said.push(format!(
            "{n} files that one process alone used, and that were deleted, were left out."
        )),
    }
    said.extend(found.not_seen().into_iter().map(|text| format!("Not seen: {text}.")));
    said.join(" ")
}

fn specification(workflow: &Workflow) -> Specification {
    let ids = unique_names(workflow.files.iter(), numbered_id);
    let of = |files: &BTreeSet<FileKey>| files.iter().filter_map(|f| ids.get(f).cloned()).collect();
    let tasks = workflow.tasks.iter().map(|(pid, task)| TaskSpecification {
        name: if task.name.is_empty() { pid.to_string() } else { task.name.clone() },
        id: id(*pid, task),
        parents: others(workflow, |flow| (flow.reader == *pid).then_some(flow.writer)),
        children: others(workflow, |flow| (flow.writer == *pid).then_some(flow.reader)),
        input_files: of(&task.inputs),
        output_files: of(&task.outputs),
    });
    let size = |file: &FileKey| workflow.files.get(file).map_or(0, |file| file.size);
    let file =
        |(file, id): (&&FileKey, &String)| DataFile { id: id.clone(), size_in_bytes: size(file) };
    Specification { tasks: tasks.collect(), files: ids.iter().map(file).collect() }
}

/// The tasks at the other end of flows, each once.
fn others(workflow: &Workflow, other: impl Fn(&Flow) -> Option<u32>) -> Vec<String> {
    let mut pids: Vec<u32> = workflow.flows.iter().filter_map(other).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.iter().filter_map(|pid| Some(id(*pid, workflow.tasks.get(pid)?))).collect()
}

fn execution(summary: &Summary, workflow: &Workflow) -> Option<Execution> {
    let node = &summary.host.node;
    let tasks: Vec<TaskExecution> = workflow
        .tasks
        .iter()
        .filter_map(|(pid, task)| task_execution(id(*pid, task), task.process.as_ref()?, node))
        .collect();
    let wall = summary.metrics.get("wall_seconds").and_then(Value::number)?;
    (!tasks.is_empty()).then(|| Execution {
        makespan_in_seconds: wall,
        executed_at: summary.job.started.to_string(),
        tasks,
        machines: [machine(&summary.host)],
    })
}

/// None of a process whose time is not known.
fn task_execution(id: String, process: &ProcessRow, node: &str) -> Option<TaskExecution> {
    let metric = |name: &str| process.metrics.get(name).copied();
    let started = Timestamp::from_nanosecond(process.started_ns.into());
    Some(TaskExecution {
        id,
        runtime_in_seconds: metric("wall_seconds")?.as_f64(),
        executed_at: started.ok().map(|time| time.to_string()),
        command: command(&process.command),
        average_cpu: metric("cpu_cores_average").map(|cores| cores.as_f64() * 100.0),
        read_bytes: metric("io_read_bytes_total"),
        written_bytes: metric("io_written_bytes_total"),
        memory_in_bytes: metric("memory_peak_process_rss_bytes"),
        machines: [node.to_string()],
    })
}

/// Empty arguments are left out: the format has none.
fn command(joined: &str) -> Option<Command> {
    let mut words = shlex::split(joined)?.into_iter().filter(|word| !word.is_empty());
    Some(Command { program: words.next()?, arguments: words.collect() })
}

fn machine(host: &Host) -> Machine {
    Machine {
        system: "linux",
        node_name: host.node.clone(),
        release: host.kernel.clone(),
        memory_in_bytes: host.memory_bytes,
        cpu: Cpu { core_count: host.cpus },
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A task's name in characters that the format allows.
fn id(pid: u32, task: &Task) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = task.name.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    if name.is_empty() { pid.to_string() } else { format!("{name}-{pid}") }
}

/// A path in characters that the format allows: each byte of another is `#` and its two hexadecimal digits.
fn file_id(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "-_./:".contains(c) => out.push(c),
            _ => out.push_str(&format!("#{byte:02x}")),
        }
    }
    out
}

/// The same for a second file of that path: no two digits follow the `#`.
fn numbered_id(path: &str, number: Option<usize>) -> String {
    let id = file_id(path);
    number.map_or(id.clone(), |number| format!("{id}#n{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_in_the_characters_that_are_allowed() {
        assert_eq!(file_id("/a b/ä#1"), "/a#20b/#c3#a4#231");
        let task = Task { name: "a b/c".to_string(), ..Task::default() };
        assert_eq!(id(7, &task), "a_b_c-7");
        assert_eq!(id(7, &Task::default()), "7");
    }

    #[test]
    fn a_command_is_its_words() {
        let found = command(r"sh -c 'echo '\''x y'\''' ''").unwrap();
        assert_eq!(
            (found.program.as_str(), found.arguments),
            ("sh", vec!["-c".into(), "echo 'x y'".into()])
        );
        assert!(command("sh 'cut off").is_none() && command("").is_none());
    }
}
