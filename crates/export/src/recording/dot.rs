//! The graph in Graphviz's language: processes as boxes, files as notes, bytes at the arrows where they are known.

use std::fmt::Write as _;

use weigh_schema::Unit;
use weigh_schema::amount::show_amount;
use weigh_schema::io::Object;

use weigh_schema::printable::printable;

use super::workflow::Workflow;
use super::workflow::files::unique_names;
use super::{Piece, RecordingFormat, RecordingPart, RecordingRows, TextKind};

/// The same graph as WfFormat's, to be drawn.
pub const FORMAT: RecordingFormat = RecordingFormat {
    name: "dot",
    help: "The same graph in Graphviz's language: `weigh export --format dot DIR | dot -Tsvg`",
    text: TextKind::Lines,
    part: RecordingPart::Files,
    write,
};

fn write(rows: &dyn RecordingRows, piece: Piece<'_>) -> anyhow::Result<bool> {
    let Some(workflow) = Workflow::read(rows)? else { return Ok(false) };
    piece(&render(&workflow))?;
    Ok(true)
}

/// The whole graph.
pub fn render(workflow: &Workflow) -> String {
    let mut out = String::from("digraph job {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n");
    for (pid, task) in &workflow.tasks {
        let label = quoted(&format!("{} {pid}", task.name));
        let _ = writeln!(out, "  p{pid} [shape=box, style=rounded, label={label}];");
    }
    let names = unique_names(workflow.files.iter(), numbered);
    for name in names.values() {
        let _ = writeln!(out, "  {name} [shape=note];");
    }
    for (pid, task) in &workflow.tasks {
        for name in task.inputs.iter().filter_map(|file| names.get(file)) {
            let _ = writeln!(out, "  {name} -> p{pid};");
        }
        for name in task.outputs.iter().filter_map(|file| names.get(file)) {
            let _ = writeln!(out, "  p{pid} -> {name};");
        }
    }
    // Files are between their users already.
    for flow in workflow.flows.iter().filter(|flow| flow.object != Object::Regular) {
        let bytes = flow.bytes.map(|bytes| show_amount(bytes as f64, Unit::Bytes));
        let label = [flow.name.clone()].into_iter().chain(bytes).collect::<Vec<_>>().join("\n");
        let _ = writeln!(
            out,
            "  p{} -> p{} [style=dashed, label={}];",
            flow.writer,
            flow.reader,
            quoted(&label)
        );
    }
    out + "}\n"
}

/// A file's name, and of which of several that have it.
fn numbered(path: &str, number: Option<usize>) -> String {
    number.map_or_else(|| quoted(path), |number| quoted(&format!("{path}\n({number})")))
}

/// A text as Graphviz has it. A backslash means something to it, in labels and beside.
fn quoted(text: &str) -> String {
    let line = |line: &str| printable(line).replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.split('\n').map(line).collect::<Vec<_>>().join("\\n"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_does_nothing_to_a_terminal() {
        let quoted = super::quoted("a\u{1b}[2J\"b\"\\\nc");
        assert_eq!(quoted, "\"a\\\\u{1b}[2J\\\"b\\\"\\\\\\nc\"");
    }
}
