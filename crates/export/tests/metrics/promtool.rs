//! Prometheus' own linter, where it is installed.

use std::io::Write as _;
use std::process::{Command, Stdio};

use weigh_export::metrics::{TextFormat, metrics_text};

use crate::reports;

#[path = "../../../../tests/left_out.rs"]
mod left_out;

#[test]
fn promtool_finds_nothing_wrong() {
    let command = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = command else {
        return left_out::leave_out("promtool is not installed (Debian package prometheus)");
    };
    let mut text = String::new();
    metrics_text(&reports()[0], TextFormat::Prometheus, &mut text);
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
