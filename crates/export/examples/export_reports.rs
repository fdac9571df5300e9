//! Sends reports, one JSON object a line on standard input, to the exporter that the argument names, and prints its status;
//! after the word `spans` requests with spans, one a line. `scripts/servers.py` runs it against real servers.

use std::io::BufRead as _;
use std::time::{Duration, Instant};

use weigh_export::metrics::{SpanSender, exporter, openmetrics};

/// How long a server may be unavailable.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args()
        .nth(1)
        .ok_or("usage: export_reports [spans] TARGET|openmetrics < REPORTS")?;
    if target == "spans" {
        return send_spans(&std::env::args().nth(2).unwrap_or_default());
    }
    let lines = std::io::stdin().lock().lines();
    let reports = lines.map(|line| Ok(serde_json::from_str(&line?)?));
    let reports: Vec<_> = reports.collect::<Result<_, Box<dyn std::error::Error>>>()?;
    if target == "openmetrics" {
        let mut text = String::new();
        reports.last().into_iter().for_each(|report| openmetrics(report, &mut text));
        return Ok(print(&text)?);
    }
    let mut exporter = exporter(&target)?;
    reports.iter().for_each(|report| exporter.take(report));
    let until = Instant::now() + PATIENCE;
    exporter.send().unwrap_or_default();
    while let Some(due) = exporter.next_attempt().filter(|_| Instant::now() < until) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        exporter.send().unwrap_or_default();
    }
    Ok(print(&(serde_json::to_string(&exporter.status())? + "\n"))?)
}

fn send_spans(target: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut sender = SpanSender::open(target)?;
    for line in std::io::stdin().lock().lines() {
        sender.send(&line?)?;
    }
    Ok(print(&format!("{{\"sent_spans\": {}}}\n", sender.sent()))?)
}

fn print(text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    std::io::stdout().write_all(text.as_bytes())
}
