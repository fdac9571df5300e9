//! Programs that do exact, odd amounts and say so: what is asked of every tool. Pure.

use crate::runs::{Account, Bench};
use crate::targets;
use crate::tools::Quantity;
use crate::ways::Way;

/// One program, and what is asked about it.
pub struct Case {
    /// What it does.
    pub name: &'static str,
    /// How.
    pub command: Vec<String>,
    /// What the tools are asked for.
    pub quantity: Quantity,
    /// What the program says of itself.
    pub truth: Truth,
    /// By how many percent a way of weigh may be off, if that is promised.
    pub target: fn(Way) -> Option<f64>,
    /// Whether what was told is complete; it may come after the tool has ended.
    pub complete: fn(&str) -> bool,
}

/// Where the truth is from.
#[derive(Clone, Copy)]
pub enum Truth {
    /// The program's own figure.
    Told(&'static str),
    /// The same, in nanoseconds.
    ToldNanoseconds(&'static str),
    /// The same, with so many bytes more, and those of telling it.
    ToldAndTelling(&'static str, f64),
    /// How it was made.
    Known(f64),
}

impl Truth {
    /// The figure, if the program came to tell it.
    pub fn of(self, account: &Account) -> Option<f64> {
        match self {
            Truth::Told(key) => account.told(key),
            Truth::ToldNanoseconds(key) => Some(account.told(key)? / 1e9),
            Truth::ToldAndTelling(key, more) => {
                Some(account.told(key)? + more + account.telling_bytes() as f64)
            }
            Truth::Known(figure) => Some(figure),
        }
    }
}

fn told(text: &str) -> bool {
    !text.is_empty()
}

/// The greatest memory held at one moment.
pub fn memory(bench: &Bench) -> Vec<Case> {
    let one = |way| targets::memory(way, false);
    let still = |way| targets::memory(way, true);
    // Promised of BPF only: the others bound what several processes hold at one moment.
    let many = |way: Way| (way.following.name == "bpf").then_some(1.0);
    let case = |name, line: &str, truth, target: fn(Way) -> Option<f64>| Case {
        name,
        command: bench.workload(line),
        quantity: Quantity::Memory,
        truth: Truth::Told(truth),
        target,
        complete: told,
    };
    let fill = bench.workload("fill").join(" ");
    let daemon = format!(
        "setsid sh -c 'sleep 0.3; exec {fill} 257000000 exit' </dev/null >/dev/null 2>&1 &"
    );
    vec![
        case("257 MB, exit", "fill 257000000 exit", "peak_rss_bytes", one),
        case("257 MB, static, exit", "fill-static 257000000 exit", "peak_rss_bytes", still),
        case("257 MB, `_exit`", "fill 257000000 _exit", "peak_rss_bytes", one),
        case("257 MB, SIGKILL", "fill 257000000 kill", "peak_rss_bytes", one),
        case("257 MB, freed before exit", "fill 257000000 free", "peak_rss_bytes", one),
        case("400 MB by 64 threads", "threads 64 400000001", "peak_rss_bytes", many),
        case("2 × 300 MB together", "children 2 300000000 together", "rss_sum_peak_bytes", many),
        case("2 × 300 MB in turn", "children 2 300000000 turn", "rss_sum_peak_bytes", many),
        case(
            "3 × 200 MB for 50 ms",
            "children 3 200000000 together 50",
            "rss_sum_peak_bytes",
            many,
        ),
        case("4 forks share 500 MB", "shared 4 500000000 cow", "pss_sum_peak_bytes", many),
        Case {
            command: ["sh", "-c", &daemon].map(String::from).to_vec(),
            ..case("257 MB in a daemon", "fill", "peak_rss_bytes", one)
        },
    ]
}

/// Bytes by calls: so many, by buffers of that size, in that direction.
pub fn moving(bench: &Bench, program: &str, kind: &str, bytes: u64, buffer: u64) -> Case {
    let (quantity, truth) = match kind {
        "read" => (Quantity::Read, "io_read_bytes"),
        _ => (Quantity::Written, "io_written_bytes"),
    };
    Case {
        name: "bytes by calls",
        command: bench.workload(&format!("{program} {kind} {bytes} {buffer}")),
        quantity,
        truth: Truth::Told(truth),
        target: |_| None,
        complete: told,
    }
}

/// Processes, what outlives its parent, and CPU time.
pub fn others(bench: &Bench) -> Vec<Case> {
    let seen = |way| targets::all_processes(way).then_some(0.0);
    let file = bench.path("daemon").display().to_string();
    let mut daemon = bench.workload("daemon 300");
    daemon.push(file);
    let count = if bench.quick { 50 } else { 500 };
    let loops = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done");
    let case = |name, command, quantity, truth, target: fn(Way) -> Option<f64>| Case {
        name,
        command,
        quantity,
        truth,
        target,
        complete: told,
    };
    vec![
        Case {
            // It tells nothing.
            complete: |_| true,
            ..case(
                "500 × /bin/true: processes",
                ["sh", "-c", &loops].map(String::from).to_vec(),
                Quantity::Processes,
                Truth::Known(f64::from(count + 1)),
                seen,
            )
        },
        case(
            "a daemon: processes",
            daemon.clone(),
            Quantity::Processes,
            Truth::Told("processes_total"),
            seen,
        ),
        case(
            "a daemon: bytes written",
            daemon,
            Quantity::Written,
            // The PID of the daemon goes through a pipe.
            Truth::ToldAndTelling("daemon_written_bytes", 4.0),
            |_| None,
        ),
        case(
            "computing for 1 s: CPU time",
            bench.workload("spin 1000"),
            Quantity::Cpu,
            Truth::ToldNanoseconds("cpu_ns"),
            |_| None,
        ),
    ]
}
