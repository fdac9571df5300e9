//! What the tools say, read from what they leave. A figure that is not there is absent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::tools::Quantity;

/// What a tool left of one run.
pub struct Report {
    /// Its files, by their names.
    files: BTreeMap<String, String>,
    /// What it said on its standard output.
    output: String,
}

impl Report {
    /// Takes up what lies in a folder and in the file of the standard output.
    pub fn read(folder: &Path, output: &Path) -> Report {
        let text = |path: &Path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let files = entries.map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, text(&entry.path()))
        });
        Report { files: files.collect(), output: text(output) }
    }

    fn file(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }
}

/// A list of calls, each line opened by the PID.
pub fn strace(report: &Report, quantity: Quantity) -> Option<f64> {
    strace_list(report.file("said")?, quantity)
}

fn strace_list(list: &str, quantity: Quantity) -> Option<f64> {
    let name = match quantity {
        Quantity::Read => "read",
        Quantity::Written => "write",
        Quantity::Processes => {
            let pids: BTreeSet<&str> =
                list.lines().filter_map(|line| line.split_whitespace().next()).collect();
            return Some(pids.len() as f64);
        }
        Quantity::Memory | Quantity::Cpu => return None,
    };
    let bytes = |line: &str| -> Option<u64> {
        let call = line.split_once(' ')?.1.trim_start();
        let is_it = call.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
            || call.strip_prefix("<... ")?.strip_prefix(name)?.starts_with(" resumed>");
        // An error is -1, and no number of bytes.
        is_it.then(|| call.rsplit_once(" = ")?.1.trim().parse().ok())?
    };
    Some(list.lines().filter_map(bytes).sum::<u64>() as f64)
}

/// Lines of `value,unit,event,…`.
pub fn perf(report: &Report, quantity: Quantity) -> Option<f64> {
    perf_table(report.file("said")?, quantity)
}

fn perf_table(table: &str, quantity: Quantity) -> Option<f64> {
    let value = |event: &str| -> Option<f64> {
        let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        rows.find(|row| row.get(2) == Some(&event))?.first()?.parse().ok()
    };
    match quantity {
        Quantity::Cpu => Some(value("task-clock")? / 1e3),
        // The command itself was not forked under its eyes.
        Quantity::Processes => Some(value("sched:sched_process_fork")? + 1.0),
        Quantity::Memory | Quantity::Read | Quantity::Written => None,
    }
}

/// One line of `kilobytes,user,system`.
pub fn time(report: &Report, quantity: Quantity) -> Option<f64> {
    time_line(report.file("said")?.lines().last()?, quantity)
}

fn time_line(line: &str, quantity: Quantity) -> Option<f64> {
    let numbers: Vec<f64> = line.split(',').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [kilobytes, user, system] = numbers[..] else { return None };
    match quantity {
        Quantity::Memory => Some(kilobytes * 1024.0),
        Quantity::Cpu => Some(user + system),
        Quantity::Read | Quantity::Written | Quantity::Processes => None,
    }
}

/// Lines of `key=value` on standard output.
pub fn runexec(report: &Report, quantity: Quantity) -> Option<f64> {
    runexec_lines(&report.output, quantity)
}

fn runexec_lines(lines: &str, quantity: Quantity) -> Option<f64> {
    let value = |key: &str, unit: char| -> Option<f64> {
        let line = lines.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim_end_matches(unit).parse().ok()
    };
    match quantity {
        Quantity::Memory => value("memory=", 'B'),
        Quantity::Cpu => value("cputime=", 's'),
        Quantity::Read | Quantity::Written | Quantity::Processes => None,
    }
}

/// A table of samples; memory in MiB.
pub fn psrecord(report: &Report, quantity: Quantity) -> Option<f64> {
    psrecord_table(report.file("said")?, quantity)
}

fn psrecord_table(table: &str, quantity: Quantity) -> Option<f64> {
    if quantity != Quantity::Memory {
        return None;
    }
    let mut lines = table.lines();
    let column = lines.next()?.split(',').position(|name| name == "mem_real")?;
    let sizes = lines.filter_map(|line| line.split(',').nth(column)?.parse::<f64>().ok());
    sizes.reduce(f64::max).map(|mebibytes| mebibytes * f64::from(1 << 20))
}

/// A summary in JSON, and one line of JSON for each interval with the processes it saw.
pub fn duct(report: &Report, quantity: Quantity) -> Option<f64> {
    match quantity {
        Quantity::Memory => {
            let summary: Value = serde_json::from_str(report.file("info.json")?).ok()?;
            summary["execution_summary"]["peak_rss"].as_f64()
        }
        Quantity::Processes => duct_processes(report.file("usage.jsonl")?),
        Quantity::Cpu | Quantity::Read | Quantity::Written => None,
    }
}

fn duct_processes(lines: &str) -> Option<f64> {
    let mut pids = BTreeSet::new();
    for line in lines.lines() {
        let interval: Value = serde_json::from_str(line).ok()?;
        pids.extend(interval["processes"].as_object()?.keys().cloned());
    }
    Some(pids.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_what_lay_there_at_that_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        std::fs::write(&file, "1024,0.5,0.25").unwrap();
        let report = Report::read(folder.path(), &folder.path().join("none"));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(time(&report, Quantity::Memory), Some(1_048_576.0));
        assert_eq!(perf(&report, Quantity::Cpu), None);
    }

    #[test]
    fn strace_lists_calls() {
        let list = "\
26396 execve(\"/bin/io\", [\"/bin/io\"], 0x7ffc /* 21 vars */) = 0
26396 read(3, \"\"..., 4096)             = 4096
26397 read(3,  <unfinished ...>
26396 pread64(3, \"\"..., 784, 64)       = 784
26397 <... read resumed>\"\"..., 4096)   = 576
26396 write(2, \"\"..., 162)             = 162
26396 read(9, 0x55, 10)                  = -1 EBADF (Bad file descriptor)
26396 exit_group(0)                     = ?
";
        assert_eq!(strace_list(list, Quantity::Read), Some(4672.0));
        assert_eq!(strace_list(list, Quantity::Written), Some(162.0));
        assert_eq!(strace_list(list, Quantity::Processes), Some(2.0));
        assert_eq!(strace_list(list, Quantity::Memory), None);
    }

    #[test]
    fn perf_prints_a_table() {
        let table = "# started\n\n2,,sched:sched_process_fork,3511899,100.00,569.492,/sec\n\
                     3.50,msec,task-clock,3511899,100.00,0.814,CPUs utilized\n";
        assert_eq!(perf_table(table, Quantity::Processes), Some(3.0));
        assert_eq!(perf_table(table, Quantity::Cpu), Some(0.0035));
        let none = "<not supported>,,sched:sched_process_fork,0,100.00,,\n";
        assert_eq!(perf_table(none, Quantity::Processes), None);
    }

    #[test]
    fn time_and_runexec_and_psrecord() {
        assert_eq!(time_line("252428,0.01,0.13", Quantity::Memory), Some(258_486_272.0));
        assert_eq!(time_line("252428,0.25,0.5", Quantity::Cpu), Some(0.75));
        assert_eq!(time_line("Command terminated by signal 9", Quantity::Cpu), None);

        let lines = "returnvalue=0\ncputime=0.120641137s\nmemory=257855488B\n";
        assert_eq!(runexec_lines(lines, Quantity::Memory), Some(257_855_488.0));
        assert_eq!(runexec_lines(lines, Quantity::Cpu), Some(0.120641137));
        assert_eq!(runexec_lines("terminationreason=failed\n", Quantity::Memory), None);

        let table = "elapsed_time,nproc,cpu,mem_real,mem_virtual\n0,1,0,2,9\n0.1,1,0,3,9\n";
        assert_eq!(psrecord_table(table, Quantity::Memory), Some(3.0 * 1_048_576.0));
        assert_eq!(psrecord_table("elapsed_time,nproc\n", Quantity::Memory), None);
    }

    #[test]
    fn duct_names_the_processes_of_each_interval() {
        let lines = r#"{"processes": {"7": {}, "8": {}}}
{"processes": {"8": {}, "9": {}}}
"#;
        assert_eq!(duct_processes(lines), Some(3.0));
        assert_eq!(duct_processes("no JSON"), None);
    }
}
