//! A job as a workflow: what its tasks took in and made, and whose children they are.
#![allow(clippy::unwrap_used)]

#[path = "../../show/tests/rendering/common/sample.rs"]
mod sample;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weigh_export::recording::workflow::Workflow;
use weigh_export::recording::{dot, wfformat};
use weigh_schema::io::{FileUse, Flow, Object, Totals, Transfer, Transferred};
use weigh_schema::{Number, Quality};

fn used(pid: u32, name: &str, read_bytes: u64, written_bytes: u64) -> FileUse {
    let by_calls = Transferred { read_bytes, written_bytes, ..Transferred::default() };
    let furthest = Number::Whole(read_bytes.max(written_bytes));
    let numbers = BTreeMap::from([("highest_bytes".to_string(), furthest)]);
    FileUse {
        object: Object::Regular,
        process: format!("task {pid}"),
        inode: 1,
        totals: Totals { by_calls, numbers, ..Totals::default() },
        again_quality: Quality::Exact,
        readahead_quality: Quality::Exact,
        ..FileUse::followed(pid, name.to_string())
    }
}

fn flow(writer: u32, reader: u32, name: &str, object: Object) -> Flow {
    let names = (format!("task {writer}"), format!("task {reader}"));
    let bytes = (object == Object::Regular).then_some(1009);
    let (writer_name, reader_name, name) = (names.0, names.1, name.to_string());
    Flow { name, object, writer, writer_name, reader, reader_name, bytes, ..Flow::default() }
}

/// 1 makes a file that 2 reads, 2 writes into a pipe to 3, and 3 back; 2 has a file for itself that it deletes.
fn three() -> Workflow {
    let mut workflow = Workflow::default();
    let scratch = FileUse { is_deleted: true, ..used(2, "/tmp/scratch", 11, 11) };
    let shared = FileUse { is_deleted: true, ..used(1, "/tmp/shared", 0, 13) };
    let mut empty = used(3, "/srv/empty", 0, 0);
    empty.totals.numbers.insert("truncates_total".to_string(), Number::Whole(1));
    let mut library = used(3, "/lib/mapped", 0, 0);
    library.totals.numbers.insert("maps_total".to_string(), Number::Whole(1));
    let came = Transferred { read_bytes: 40_960, ..Transferred::default() };
    library.totals.by_kind.insert(Transfer::Mapped.name().to_string(), came);
    let looked_at = used(3, "/srv/looked-at", 0, 0);
    let pipe = FileUse { object: Object::Pipe, ..used(3, "pipe:[7]", 5, 5) };
    for row in [
        used(1, "/srv/a b\"c", 0, 1_000_003),
        used(2, "/srv/a b\"c", 1009, 0),
        shared,
        used(2, "/tmp/shared", 13, 0),
        scratch,
        empty,
        library,
        looked_at,
        pipe,
    ] {
        workflow.add_use(&row);
    }
    let flows = [
        flow(1, 2, "/srv/a b\"c", Object::Regular),
        flow(2, 3, "pipe:[7]", Object::Pipe),
        flow(3, 2, "pipe:[8]", Object::Pipe),
    ];
    workflow.add_flows(flows.iter());
    workflow
}

fn document(workflow: &Workflow) -> Value {
    let summary = sample::limited(4).summary;
    let found = summary.io.as_deref().unwrap();
    serde_json::from_str(&wfformat::render(&summary, found, workflow)).unwrap()
}

#[test]
fn each_task_has_its_inputs_its_outputs_and_its_parents() {
    let workflow = three();
    let document = document(&workflow);
    let tasks = document["workflow"]["specification"]["tasks"].as_array().unwrap();
    let of = |task: &Value, key: &str| -> BTreeSet<String> {
        let names = task[key].as_array().unwrap().iter();
        names.map(|name| name.as_str().unwrap().to_string()).collect()
    };
    let set = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
    let ids: Vec<_> = tasks.iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["task_1-1", "task_2-2", "task_3-3"]);
    let expected: [[&[&str]; 4]; 3] = [
        [&[], &["/srv/a#20b#22c", "/tmp/shared"], &[], &["task_2-2"]],
        [&["/srv/a#20b#22c", "/tmp/shared"], &[], &["task_1-1"], &["task_3-3"]],
        [&["/lib/mapped"], &["/srv/empty"], &["task_2-2"], &[]],
    ];
    for (task, expected) in tasks.iter().zip(expected) {
        for (key, names) in
            ["inputFiles", "outputFiles", "parents", "children"].iter().zip(expected)
        {
            assert_eq!(of(task, key), set(names), "{key} of {task}");
        }
    }
    let files = document["workflow"]["specification"]["files"].as_array().unwrap();
    let size = |id: &str| {
        files.iter().find(|file| file["id"] == id).and_then(|file| file["sizeInBytes"].as_u64())
    };
    assert_eq!((files.len(), size("/srv/a#20b#22c")), (4, Some(1_000_003)));
    assert_eq!(size("/lib/mapped"), Some(40_960));
    let said = document["description"].as_str().unwrap();
    assert!(
        said.contains("1 of these were left out") && said.contains("1 files that one"),
        "{said}"
    );
    // Of none of them there is a process: nothing is said of how it ran.
    assert!(document["workflow"].get("execution").is_none());
}

/// Whose file another one takes in is its parent, though nobody saw a byte go over; unless it was taken in before.
#[test]
fn who_made_what_a_task_takes_in_is_its_parent_without_a_flow() {
    let at = |mut row: FileUse, first: f64, last: f64| {
        for (key, time) in [("first_seconds", first), ("last_seconds", last)] {
            row.totals.numbers.insert(key.to_string(), Number::Real(time));
        }
        row
    };
    let mut workflow = Workflow::default();
    for row in [
        at(used(1, "/srv/made", 0, 1009), 1.0, 2.0),
        at(used(2, "/srv/made", 1009, 0), 3.0, 4.0),
        at(used(3, "/srv/made", 1009, 0), 0.0, 0.5),
    ] {
        workflow.add_use(&row);
    }
    workflow.add_flows([].iter());
    let document = document(&workflow);
    let tasks = document["workflow"]["specification"]["tasks"].as_array().unwrap();
    let parents: Vec<_> = tasks.iter().map(|task| task["parents"].to_string()).collect();
    assert_eq!(parents, ["[]", r#"["task_1-1"]"#, "[]"]);
    assert_eq!(workflow.circular_total, 0);
}

#[test]
fn what_a_task_took_is_that_of_its_process() {
    let recording = sample::limited(4);
    let mut workflow = Workflow::default();
    let first = recording.processes[0].clone();
    workflow.add_use(&used(first.pid, "/srv/in", 1, 0));
    recording.processes.iter().for_each(|row| workflow.add_process(row.clone()));
    assert_eq!(workflow.tasks.len(), 1, "who used nothing is no task");
    let found = &document(&workflow)["workflow"]["execution"];
    let task = &found["tasks"][0];
    assert_eq!(
        task["runtimeInSeconds"].as_f64(),
        first.metrics.get("wall_seconds").map(|n| n.as_f64())
    );
    assert!(task["runtimeInSeconds"].as_f64().is_some() && task["readBytes"].as_f64().is_some());
    assert_eq!(
        task["readBytes"].as_f64(),
        first.metrics.get("io_read_bytes_total").map(|n| n.as_f64())
    );
    assert_eq!(found["machines"][0]["nodeName"], recording.summary.host.node);
    assert_eq!(task["machines"][0], recording.summary.host.node);
}

#[test]
fn the_graph_has_every_file_once_and_no_text_ends_a_name() {
    let text = dot::render(&three());
    assert!(
        text.contains(r#"p1 -> "/srv/a b\"c";"#) && text.contains(r#""/srv/a b\"c" -> p2;"#),
        "{text}"
    );
    assert!(text.contains(r#"p2 -> p3 [style=dashed, label="pipe:[7]"];"#), "{text}");
    assert!(!text.contains("scratch") && !text.contains("pipe:[8]"), "{text}");
    assert_eq!(text.matches("shape=note").count(), 4);
}

/// One path for three files in turn, and one file by two paths: what tells them apart is what they are.
#[test]
fn files_are_told_apart_by_what_they_are_not_by_what_they_are_called() {
    let file = |mut row: FileUse, inode: u64, generation: u32| {
        (row.inode, row.generation) = (inode, Some(generation));
        row
    };
    let later = |row: FileUse, name: &str| FileUse { later_name: Some(name.to_string()), ..row };
    let mut workflow = Workflow::default();
    for row in [
        later(file(used(1, "/t", 0, 70_000), 5, 1), "/one"),
        later(file(used(2, "/t", 0, 300), 6, 1), "/two"),
        later(file(used(3, "/t", 70_000, 0), 5, 1), "/one"),
        later(file(used(4, "/t", 300, 0), 6, 1), "/two"),
        // An inode that was given again, and a name that was.
        file(used(5, "/again", 0, 900), 7, 1),
        file(used(6, "/again", 0, 321), 7, 2),
        file(used(7, "/again", 321, 0), 7, 2),
    ] {
        workflow.add_use(&row);
    }
    workflow.add_flows([].iter());
    let document = document(&workflow);
    let parts = &document["workflow"]["specification"];
    let sizes: BTreeMap<_, _> = (parts["files"].as_array().unwrap().iter())
        .map(|file| (file["id"].as_str().unwrap(), file["sizeInBytes"].as_u64().unwrap()))
        .collect();
    let expected = [("/again", 900), ("/again#n2", 321), ("/one", 70_000), ("/two", 300)];
    assert_eq!(sizes, BTreeMap::from(expected));
    let tasks = parts["tasks"].as_array().unwrap();
    let of = |task: usize, key: &str| tasks[task][key].to_string();
    assert_eq!(of(2, "parents"), r#"["task_1-1"]"#);
    assert_eq!(of(3, "parents"), r#"["task_2-2"]"#);
    assert_eq!(of(6, "parents"), r#"["task_6-6"]"#);
    assert_eq!(of(6, "inputFiles"), r##"["/again#n2"]"##);
    let graph = dot::render(&workflow);
    assert!(
        graph.contains(r#""/again\n(2)" -> p7;"#) && !graph.contains(r#""/again" -> p7;"#),
        "{graph}"
    );
}
