//! The process tree: one row for each process that ever was.

use std::collections::{BTreeMap, HashMap, VecDeque};

use weigh_schema::byte_text;
use weigh_schema::event::ProcessEnd;
use weigh_schema::metric_name;
use weigh_schema::recording::ProcessRow;
use weigh_schema::{Counter, Formula};

use crate::summary::{cpu_split, number_of_sum, sum_of};

/// Ended processes whose command is remembered for children that never call exec.
const REMEMBERED: usize = 4096;

/// Joins what is known of each process until it ends.
#[derive(Default)]
pub struct Tree {
    commands: HashMap<u32, Vec<String>>,
    ended: VecDeque<u32>,
}

impl Tree {
    /// A process began to execute a program.
    pub fn exec(&mut self, pid: u32, command: Vec<String>) {
        self.commands.insert(pid, command);
    }

    /// What a process is known to execute: its own command, or that of the one that started it.
    fn command(&mut self, process: &ProcessEnd) -> Vec<String> {
        if !process.command.is_empty() {
            return process.command.clone();
        }
        let known = self
            .commands
            .get(&process.pid)
            .or_else(|| self.commands.get(&process.parent_pid))
            .cloned()
            .unwrap_or_default();
        self.commands.insert(process.pid, known.clone());
        known
    }

    /// The row of a process, ended or still alive; `epoch_ns` is the job's start since the Unix
    /// epoch and `now_ns` the time of the reading since the job's start.
    pub fn row(&mut self, process: &ProcessEnd, epoch_ns: i64, now_ns: u64) -> ProcessRow {
        let command = self.command(process);
        if process.ended_ns.is_some() {
            self.ended.push_back(process.pid);
            if self.ended.len() > REMEMBERED
                && let Some(forgotten) = self.ended.pop_front()
            {
                self.commands.remove(&forgotten);
            }
        }
        let at = |ns: u64| epoch_ns.saturating_add_unsigned(ns);
        let (exit_code, exit_signal) = match process.wait_status {
            Some(status) if status & 0x7f == 0 => (Some(status >> 8 & 0xff), None),
            Some(status) => (None, Some(status & 0x7f)),
            None => (None, None),
        };
        ProcessRow {
            pid: process.pid,
            parent: process.parent_pid,
            name: byte_text::shown(&process.name),
            name_base64: byte_text::base64(&process.name),
            command: shell_words(
                &command.iter().map(|word| byte_text::shown(word)).collect::<Vec<_>>(),
            ),
            command_base64: byte_text::base64_of_words(&command),
            uid: process.uid,
            started_ns: at(process.started_ns),
            // Of two clocks that tell start and end one may count in ticks.
            ended_ns: process.ended_ns.map(|ended| at(ended.max(process.started_ns))),
            exit_code,
            exit_signal,
            metrics: process_metrics(process, now_ns),
        }
    }
}

fn process_metrics(process: &ProcessEnd, now_ns: u64) -> BTreeMap<String, weigh_schema::Number> {
    let wall_ns = process.ended_ns.unwrap_or(now_ns).saturating_sub(process.started_ns);
    let wall = wall_ns as f64 * 1e-9;
    let (user, system) = cpu_split(&process.counters);
    // Of no process that has an address space it is nothing.
    let known = |bytes: u64| (bytes > 0).then_some(bytes as f64);
    let mut metrics = BTreeMap::new();
    for metric in ProcessRow::metric_columns() {
        let value = match (metric.formula, metric.name) {
            (Formula::Sum { plus, .. }, _) if process.is_io_lost && is_of_io(plus) => None,
            (Formula::Sum { .. }, _) => sum_of(metric, &process.counters),
            (_, metric_name::wall_seconds) => Some(wall),
            (_, metric_name::cpu_user_seconds) => Some(user),
            (_, metric_name::cpu_system_seconds) => Some(system),
            (_, metric_name::cpu_cores_average) => (wall > 0.0).then(|| (user + system) / wall),
            (_, metric_name::memory_peak_process_rss_bytes) => known(process.rss_peak_bytes),
            (_, metric_name::memory_peak_virtual_bytes) => known(process.virtual_peak_bytes),
            (_, metric_name::memory_peak_swap_bytes) => {
                known(process.virtual_peak_bytes).map(|_| process.swap_peak_bytes as f64)
            }
            _ => None,
        };
        if let Some(value) = value {
            let sum = number_of_sum(metric, &process.counters);
            let number = sum.unwrap_or_else(|| metric.unit.number(value));
            metrics.insert(metric.name.to_string(), number);
        }
    }
    metrics
}

/// Whether a sum has counters in it that the kernel keeps in `/proc/PID/io`.
fn is_of_io(plus: &[Counter]) -> bool {
    use Counter::{ReadCalls, ReadChars, StorageCancelled, StorageRead, StorageWritten};
    use Counter::{WriteCalls, WriteChars};
    let io = [
        ReadChars,
        WriteChars,
        ReadCalls,
        WriteCalls,
        StorageRead,
        StorageWritten,
        StorageCancelled,
    ];
    plus.iter().any(|counter| io.contains(counter))
}

/// Arguments as a person would type them to a shell.
pub fn shell_words(arguments: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%^".contains(c);
    let words: Vec<String> = arguments
        .iter()
        .map(|word| {
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', r"'\''"))
            }
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ended(pid: u32, parent_pid: u32, wait_status: u32) -> ProcessEnd {
        ProcessEnd {
            pid,
            parent_pid,
            started_ns: 10,
            ended_ns: Some(1_000_000_010),
            wait_status: Some(wait_status),
            ..Default::default()
        }
    }

    #[test]
    fn a_child_that_never_calls_exec_bears_its_parents_command() {
        let mut tree = Tree::default();
        tree.exec(1, vec!["sh".into(), "-c".into(), "(a; b)".into()]);
        let row = tree.row(&ended(2, 1, 0), 1000, 0);
        assert_eq!(row.command, "sh -c '(a; b)'");
        assert_eq!((row.started_ns, row.ended_ns), (1010, Some(1_000_001_010)));
    }

    #[test]
    fn nobody_ends_before_he_begins() {
        let mut tree = Tree::default();
        let odd = ProcessEnd { started_ns: 50, ended_ns: Some(40), ..ended(2, 1, 0) };
        let row = tree.row(&odd, 1000, 0);
        assert_eq!((row.started_ns, row.ended_ns), (1050, Some(1050)));
    }

    #[test]
    fn io_that_was_lost_is_no_0() {
        let has = |process: &ProcessEnd, metric: &str| {
            Tree::default().row(process, 0, 0).metrics.contains_key(metric)
        };
        let lost = ProcessEnd { is_io_lost: true, ..ended(2, 1, 0) };
        for metric in ["io_written_bytes_total", "storage_written_bytes_total"] {
            assert!(has(&ended(2, 1, 0), metric) && !has(&lost, metric), "{metric}");
        }
        assert!(has(&lost, "cpu_seconds"));
    }

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        let mut tree = Tree::default();
        let row = tree.row(&ended(1, 0, 3 << 8), 0, 0);
        assert_eq!((row.exit_code, row.exit_signal), (Some(3), None));
        let row = tree.row(&ended(1, 0, 0x89), 0, 0);
        assert_eq!((row.exit_code, row.exit_signal), (None, Some(9)));
    }

    #[test]
    fn every_process_metric_has_a_rule() {
        let process =
            ProcessEnd { rss_peak_bytes: 4096, virtual_peak_bytes: 8192, ..ended(1, 0, 0) };
        let row = Tree::default().row(&process, 0, 0);
        for metric in ProcessRow::metric_columns() {
            assert!(row.metrics.contains_key(metric.name), "{} has no rule", metric.name);
        }
    }

    #[test]
    fn memory_that_nobody_saw_is_not_nothing() {
        let row = Tree::default().row(&ended(1, 0, 0), 0, 0);
        for name in
            ["memory_peak_process_rss_bytes", "memory_peak_virtual_bytes", "memory_peak_swap_bytes"]
        {
            assert!(!row.metrics.contains_key(name), "{name}");
        }
    }

    #[test]
    fn the_memory_of_commands_is_bounded() {
        let mut tree = Tree::default();
        for pid in 0..20_000 {
            tree.exec(pid, vec!["true".into()]);
            tree.row(&ended(pid, 0, 0), 0, 0);
        }
        assert!(tree.commands.len() <= REMEMBERED + 1);
    }

    proptest! {
        #[test]
        fn a_shell_reads_the_same_words(words in prop::collection::vec("[ -~]{0,12}", 1..5)) {
            let line = shell_words(&words);
            let output = std::process::Command::new("/bin/sh")
                .arg("-c")
                .arg(format!("printf '%s\\n' {line}"))
                .output()
                .unwrap();
            let read = String::from_utf8(output.stdout).unwrap();
            prop_assert_eq!(read, words.iter().map(|w| format!("{w}\n")).collect::<String>());
        }
    }
}
