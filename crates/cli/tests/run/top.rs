//! `weigh top`: the node and its processes, held to the kernel's own files; the screen in a terminal.

use std::process::{Command, Output, Stdio};

use weigh_schema::rule::RuleStanding;
use weigh_schema::top::{TOP, TopReport};
use weigh_schema::top_detail::{TOP_JOB, TopDetail};
use weigh_schema::update::Scope;

use crate::support::run::{Scratch, set_surroundings};
use crate::support::terminal::Terminal;
use crate::support::{patience, wait_until, weigh_binary};

const NOBODY: u32 = 65534;

fn top(options: &[&str]) -> Output {
    let output =
        Command::new(weigh_binary()).arg("top").args(options).stdin(Stdio::null()).output();
    output.expect("weigh")
}

#[track_caller]
fn report(options: &[&str]) -> TopReport {
    let output = top(&[&["--once", "--json"][..], options].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON of its schema")
}

/// A field of a line of the kernel's.
fn kernel_count(path: &str, line: &str, field: usize) -> f64 {
    let text = std::fs::read_to_string(path).expect("a file of /proc");
    let line =
        text.lines().find_map(|found| found.trim_start().strip_prefix(line)).expect("its line");
    line.split_ascii_whitespace().nth(field).and_then(|word| word.parse().ok()).expect("a number")
}

fn value(report: &TopReport, scope: &Scope, metric: &str) -> f64 {
    let value = report.metrics.get(scope).and_then(|metrics| metrics.get(metric));
    value.and_then(|value| value.value).unwrap_or_else(|| panic!("no {metric} of {scope}")).as_f64()
}

#[test]
fn one_look_is_between_two_of_the_kernels() {
    let counts = || {
        [
            kernel_count("/proc/stat", "ctxt ", 0),
            kernel_count("/proc/stat", "processes ", 0),
            kernel_count("/proc/vmstat", "pgfault ", 0),
            kernel_count("/proc/net/dev", "lo:", 0),
        ]
    };
    let before = counts();
    let report = report(&["--interval", "0.1s"]);
    let after = counts();
    let (node, lo) = (Scope::Node, Scope::Interface("lo".into()));
    let found = [
        value(&report, &node, "node_context_switches_total"),
        value(&report, &node, "node_forks_total"),
        value(&report, &node, "node_page_faults_total"),
        value(&report, &lo, "node_net_received_bytes_total"),
    ];
    for (at, found) in found.into_iter().enumerate() {
        assert!(
            (before[at]..=after[at]).contains(&found),
            "{at}: {} {found} {}",
            before[at],
            after[at]
        );
    }
    assert_eq!(
        value(&report, &node, "node_memory_total_bytes"),
        1024.0 * kernel_count("/proc/meminfo", "MemTotal:", 0)
    );
    assert_eq!(report.schema, TOP);
    assert!(
        report.interval_seconds.is_some_and(|seconds| seconds > 0.09),
        "{:?}",
        report.interval_seconds
    );
    let cores = std::fs::read_to_string("/proc/stat").expect("stat");
    let cores =
        cores.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    assert_eq!(report.cores.len(), cores);
}

/// What this machine has not is null with a reason, or is not there: never 0.
#[test]
fn what_is_not_there_is_no_zero() {
    let report = report(&["--interval", "0.1s"]);
    let without: Vec<_> =
        report.collectors.iter().filter(|collector| collector.reason.is_some()).collect();
    for collector in &without {
        assert!(collector.failures > 0, "{collector:?}");
    }
    let sensors = report
        .collectors
        .iter()
        .find(|collector| collector.name == "sensors")
        .expect("a collector");
    let has_values = report.metrics.keys().any(|scope| matches!(scope, Scope::Sensor(_)));
    assert_eq!(sensors.reason.is_none(), has_values, "{sensors:?}");
}

#[test]
fn a_process_that_burns_cpu_is_listed_with_its_job() {
    let scratch = Scratch::new();
    // A name that steers a terminal, in JSON as it is.
    let evil = "while :; do :; done # \x1b[2J";
    let mut weigh = Command::new(weigh_binary());
    weigh.args(["run", "-q", "--mechanism", "poll", "--", "bash", "-c", evil]);
    set_surroundings(&mut weigh, &scratch);
    let mut weigh = weigh.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("weigh");
    let is_burning = |process: &&weigh_schema::top::TopProcess| {
        process.command.iter().any(|word| word == evil) && process.name == "bash"
    };
    let mut found = None;
    wait_until("it is listed", 30.0, || {
        let report = report(&["--interval", "0.5s"]);
        let process =
            report.processes.iter().find(is_burning).filter(|found| found.cpu_cores > Some(0.05));
        found = process.cloned().map(|process| (process, report.jobs.clone()));
        found.is_some()
    });
    let (process, jobs) = found.expect("it was found");
    let text = top(&["--once", "--interval", "0.2s"]);
    // Its job is ended before anything is judged.
    let _ = Command::new("kill").arg(process.pid.to_string()).status();
    let _ = weigh.wait();
    assert_eq!(process.job, Some(weigh.id()), "{process:?}");
    let job = jobs.iter().find(|job| job.pid == weigh.id()).expect("the job");
    assert!(
        job.processes >= 1 && job.memory_rss_sum_bytes > 0 && job.cpu_cores > Some(0.0),
        "{job:?}"
    );
    assert!(!text.stdout.contains(&0x1b), "{}", String::from_utf8_lossy(&text.stdout));
}

/// Control groups that are removed in the end.
struct TestGroups(Vec<std::path::PathBuf>);

impl TestGroups {
    /// As Slurm makes them, in each hierarchy that has CPU time or memory.
    fn of_job(job: u32) -> TestGroups {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let has = |line: &str| {
            let options = line.rsplit(' ').next().unwrap_or_default();
            let is_version_1 = options.split(',').any(|o| matches!(o, "cpuacct" | "memory"));
            line.contains(" - cgroup2 ") || (line.contains(" - cgroup ") && is_version_1)
        };
        let points =
            mounts.lines().filter(|line| has(line)).filter_map(|line| line.split(' ').nth(4));
        let folders = points.map(|point| format!("{point}/slurm/uid_7/job_{job}").into());
        let groups = TestGroups(folders.collect());
        groups.0.iter().for_each(|folder| std::fs::create_dir_all(folder).expect("a group"));
        groups
    }

    fn take(&self, pid: u32) {
        for folder in &self.0 {
            std::fs::write(folder.join("cgroup.procs"), pid.to_string()).expect("a member");
        }
    }

    /// CPU time by the kernel's own file, in seconds.
    fn cpu_seconds(&self) -> f64 {
        let number =
            |text: String| text.split_whitespace().find_map(|word| word.parse::<f64>().ok());
        let read = |name: &str| {
            self.0.iter().find_map(|folder| std::fs::read_to_string(folder.join(name)).ok())
        };
        let nanoseconds = read("cpuacct.usage").and_then(number).map(|ns| ns * 1e-9);
        nanoseconds.or_else(|| read("cpu.stat").and_then(number).map(|us| us * 1e-6)).expect("time")
    }
}

impl Drop for TestGroups {
    fn drop(&mut self) {
        for folder in &self.0 {
            // Its last process is gone a moment after it has ended.
            for _ in 0..100 {
                if std::fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            let above = folder.ancestors().skip(1).take(2);
            above.for_each(|folder| drop(std::fs::remove_dir(folder)));
        }
    }
}

/// Real control groups, laid out as Slurm does; no slurmd runs here.
#[test]
fn a_job_is_found_by_its_control_group() {
    needs_root!();
    let job = std::process::id();
    let groups = TestGroups::of_job(job);
    let mut burner =
        Command::new("sh").args(["-c", "ulimit -t 60; while :; do :; done"]).spawn().expect("sh");
    groups.take(burner.id());
    let before = groups.cpu_seconds();
    let mut found = None;
    let is_it = |job: u32| {
        move |row: &weigh_schema::top::TopJob| {
            row.group.as_ref().is_some_and(|group| group.name == job.to_string())
        }
    };
    wait_until("it has used CPU", 30.0, || {
        let report = report(&["--all", "--interval", "1s"]);
        let row = report.jobs.iter().find(|row| is_it(job)(row)).cloned();
        found = row.filter(|row| row.cpu_cores > Some(0.01)).map(|row| (row, report));
        found.is_some()
    });
    let after = groups.cpu_seconds();
    let _ = burner.kill();
    let _ = burner.wait();
    let (row, report) = found.expect("it was found");
    assert_eq!(row.kind, weigh_schema::top::TopJobKind::Slurm);
    assert_eq!((row.pid, row.processes), (burner.id(), 1));
    let group = row.group.expect("its group");
    assert_eq!(group.scope.to_string(), format!("group:/slurm/uid_7/job_{job}"));
    let cpu = value(&report, &group.scope, "node_group_cpu_seconds_total");
    assert!((before..=after).contains(&cpu), "{before} {cpu} {after}");
    let memory = report.metrics[&group.scope].get("node_group_memory_bytes").expect("a value");
    // Where the controller is not mounted, it is not known, and says why.
    assert_eq!(memory.value.is_none(), group.missing.contains_key("node_group_memory_bytes"));
    for why in group.missing.values() {
        assert!(!why.is_empty());
    }
}

#[test]
fn an_ordinary_user_sees_the_node_and_its_own_processes() {
    needs_root!();
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(crate::support::weigh_for_everybody());
    command.args(["top", "--once", "--json", "--interval", "0.1s"]).uid(NOBODY).gid(NOBODY);
    let output = command.output().expect("weigh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: TopReport = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(value(&report, &Scope::Node, "node_context_switches_total") > 0.0);
    let user = report.user.expect("its own");
    assert!(report.processes.iter().all(|process| process.user == user), "{:?}", report.processes);
    assert!(
        report.processes.iter().any(|process| process.name == "weigh"),
        "{:?}",
        report.processes
    );
}

#[test]
fn without_a_terminal_it_says_what_to_type() {
    for options in [&[][..], &["--all"][..]] {
        let output = top(options);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("needs a terminal") && said.contains("--once"), "{said}");
        assert!(output.stdout.is_empty());
    }
    let output = top(&["--json"]);
    assert_eq!(output.status.code(), Some(125));
}

/// A program in a terminal that can move its cursor.
fn in_terminal(scratch: &Scratch, term: &str) -> Terminal {
    let weigh = weigh_binary().display().to_string();
    let term = format!("TERM={term}");
    let command = ["env", term.as_str(), weigh.as_str(), "top", "--interval", "0.2s"];
    Terminal::start(scratch, 24, 80, &command)
}

#[test]
fn the_screen_is_24_rows_of_80_columns_and_leaves_the_terminal_as_it_was() {
    let scratch = Scratch::new();
    let mut terminal = in_terminal(&scratch, "xterm");
    terminal.wait_for("COMMAND", 1);
    terminal.types("s");
    terminal.wait_for("COLLECTOR", 1);
    terminal.types("s/no such process");
    terminal.wait_for("filter:", 1);
    terminal.types("\r");
    terminal.resize(30, 100);
    std::thread::sleep(patience(0.3));
    terminal.types("\x1bcmtp\x1b[Bq");
    is_put_right(&terminal);
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");
    let [first, rest] =
        shown.split_once("\x1b[?1049h").map(|(a, b)| [a, b]).expect("another screen");
    assert!(first.is_empty(), "{first}");
    assert!(rest.ends_with("\x1b[0m\x1b[?25h\x1b[?1049l"), "{rest}");
    for row in positions(rest) {
        assert!(row.0 <= 30 && row.1 <= 100, "{row:?}");
    }
    let before_resize = rest.split("filter:").next().expect("a text");
    assert!(
        positions(before_resize).all(|(row, column)| row <= 24 && column <= 80),
        "{before_resize}"
    );
}

/// What is shown last is read by a thread of its own.
fn is_put_right(terminal: &Terminal) {
    let is_so = || terminal.shown().ends_with("\x1b[0m\x1b[?25h\x1b[?1049l");
    crate::support::wait_until("the terminal is as it was", 30.0, is_so);
}

/// Where the cursor was moved to: row, column.
fn positions(shown: &str) -> impl Iterator<Item = (u32, u32)> + '_ {
    shown.split("\x1b[").filter_map(|part| {
        let (at, _) = part.split_once('H')?;
        let (row, column) = at.split_once(';')?;
        Some((row.parse().ok()?, column.parse().ok()?))
    })
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_put_right() {
    let scratch = Scratch::new();
    let mut terminal = in_terminal(&scratch, "xterm");
    terminal.wait_for("COMMAND", 1);
    // In a raw terminal it is a key.
    terminal.types("\x03");
    is_put_right(&terminal);
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");
    assert!(shown.ends_with("\x1b[?1049l"), "{shown}");
    let terminal = in_terminal(&scratch, "xterm");
    terminal.wait_for("COMMAND", 1);
    crate::support::processes::signal(terminal.child.id(), 15);
    is_put_right(&terminal);
    let (_, shown) = terminal.end();
    assert!(shown.ends_with("\x1b[?1049l"), "{shown}");
}

#[test]
fn ctrl_z_gives_the_terminal_back_to_the_shell_until_fg() {
    let scratch = Scratch::new();
    let shell = ["env", "TERM=xterm", "bash", "--norc", "--noprofile", "-i"];
    let mut terminal = Terminal::start(&scratch, 24, 80, &shell);
    terminal.types(&format!("{} top --interval 0.2s\r", weigh_binary().display()));
    terminal.wait_for("COMMAND", 1);
    terminal.types("\x1a");
    terminal.wait_for("Stopped", 1);
    assert_eq!(terminal.count("\x1b[?1049l"), 1);
    terminal.types("stty -a\r");
    terminal.wait_for(" icanon", 1);
    terminal.types("fg\r");
    terminal.wait_for("COMMAND", 2);
    terminal.types("q");
    terminal.wait_for("\x1b[?1049l", 2);
    terminal.types("exit\r");
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_refused() {
    let scratch = Scratch::new();
    let (status, shown) = in_terminal(&scratch, "dumb").end();
    assert_eq!(status.code(), Some(125), "{shown}");
    assert!(shown.contains("TERM is dumb") && !shown.contains('\x1b'), "{shown}");
}

/// Two looks cannot tell whether a rule holds that has to be true for longer; one that need not be does.
#[test]
fn rules_of_a_file_are_judged_and_a_wrong_one_is_refused_with_its_place() {
    let scratch = Scratch::new();
    let file = scratch.path("rules.toml");
    let rules = "[rule.now]\nseverity = \"critical\"\nwhen = \"node_threads > 0\"\ntext = \"{node_threads} threads\"\n\
                 [rule.later]\nwhen = \"node_threads > 0\"\nfor = \"1h\"\ntext = \"t\"\n\
                 [rule.never]\nwhen = \"gone > 0\"\ntext = \"t\"\n[metric.gone]\nunit = \"bytes\"\n";
    std::fs::write(&file, rules).expect("a file");
    let file = file.display().to_string();
    let report = report(&["--interval", "0.1s", "--rules", &file]);
    let state = |rule: &str| {
        let found = report.rules.iter().find(|status| status.rule == rule);
        found.map(|status| status.state).unwrap_or_else(|| panic!("{rule}: {:?}", report.rules))
    };
    assert_eq!(state("now"), RuleStanding::Holds);
    assert_eq!(state("later"), RuleStanding::Pending);
    assert_eq!(state("never"), RuleStanding::Unavailable);
    // The shipped ones are in it, too.
    let has_gpu = report.metrics.keys().any(|scope| matches!(scope, Scope::Gpu(_)));
    assert!(has_gpu || state("gpu_idle") == RuleStanding::Unavailable);
    let now = report.rules.iter().find(|status| status.rule == "now").expect("it holds");
    assert!(now.text.ends_with(" threads") && now.value > Some(0.0), "{now:?}");
    let text = top(&["--once", "--interval", "0.1s", "--rules", &file]).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        text.lines().any(|line| line.starts_with("critical: ") && line.ends_with(" threads")),
        "{text}"
    );
    std::fs::write(&file, "\n[rule.r]\nwhen = \"node_thread > 0\"\ntext = \"t\"\n")
        .expect("a file");
    let output = top(&["--once", "--rules", &file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("rules.toml:3: rule.r.when: there is no metric 'node_thread'"), "{said}");
    assert!(said.contains("did you mean node_threads"), "{said}");
}

/// A job's processes with threads, open files, limits and I/O, each held to what the job does.
#[test]
fn a_job_is_shown_in_detail() {
    let scratch = Scratch::new();
    let written = scratch.path("written");
    // An exact odd amount, an open file, and a limit of its own.
    let script = "ulimit -Sn 77; exec 7> \"$1\"; printf %123457s x >&7; cat; :";
    let mut weigh = Command::new(weigh_binary());
    weigh.args(["run", "-q", "--mechanism", "poll", "--", "bash", "-c", script, "bash"]);
    weigh.arg(&written);
    set_surroundings(&mut weigh, &scratch);
    let mut weigh = weigh
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("weigh");
    wait_until("it has written", 30.0, || {
        std::fs::metadata(&written).is_ok_and(|about| about.len() == 123_457)
    });
    let pid = weigh.id().to_string();
    let output = top(&["--once", "--json", "--job", &pid, "--interval", "0.2s"]);
    let text = top(&["--once", "--job", &pid, "--interval", "0.2s"]);
    let nobody = top(&["--once", "--json", "--job", "999999999", "--interval", "0.1s"]);
    let screen = drill_down(&scratch, &pid);
    // Its job is ended before anything is judged.
    drop(weigh.stdin.take());
    let _ = weigh.wait();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let detail: TopDetail = serde_json::from_slice(&output.stdout).expect("JSON of its schema");
    assert_eq!(detail.schema, TOP_JOB);
    assert_eq!(detail.job.as_ref().map(|job| job.pid.to_string()), Some(pid.clone()));
    let bash = detail.processes.iter().find(|found| found.process.name == "bash").expect("bash");
    let io = bash.io.value.expect("it is our own");
    assert!(io.written_bytes >= 123_457 && io.read_bytes_per_second.is_some(), "{io:?}");
    let files = bash.open_files.value.as_ref().expect("our own");
    let target = written.canonicalize().expect("it is there").display().to_string();
    assert!(
        files.list.iter().any(|file| file.descriptor == 7 && file.target == target),
        "{files:?}"
    );
    let limits = bash.limits.value.as_ref().expect("our own");
    let open_files = limits.iter().find(|limit| limit.name == "open_files").expect("a limit");
    assert_eq!(open_files.soft, Some(77));
    let threads = bash.thread_list.value.as_ref().expect("our own");
    assert_eq!((threads.len(), threads[0].tid), (1, bash.process.pid));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("job {pid} of ")) && text.contains("open_files 77/"), "{text}");
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(125), "{said}");
    assert!(said.contains("no job and no process") && said.contains("jobs of weigh run"), "{said}");
    assert!(screen.contains("open_files 77/"), "{screen}");
}

/// Enter on the job, Enter on its first process, Esc twice: what the process' screen shows.
fn drill_down(scratch: &Scratch, job: &str) -> String {
    let mut terminal = in_terminal(scratch, "xterm");
    terminal.wait_for("COMMAND", 1);
    let head = format!("job {job} of ");
    // Jobs of others may come before it.
    for _ in 0..30 {
        terminal.types("\r");
        std::thread::sleep(patience(0.5));
        if screen(&terminal.shown()).contains(&head) {
            break;
        }
        terminal.types("\x1bj");
        std::thread::sleep(patience(0.2));
    }
    wait_on_screen(&terminal, &head);
    terminal.types("p\r");
    wait_on_screen(&terminal, "open_files 77/");
    let shown = screen(&terminal.shown());
    terminal.types("\x1b");
    wait_on_screen(&terminal, &head);
    terminal.types("\x1b");
    wait_on_screen(&terminal, "jobs of weigh run");
    terminal.types("q");
    is_put_right(&terminal);
    let (status, said) = terminal.end();
    assert!(status.success(), "{}", screen(&said));
    shown
}

fn wait_on_screen(terminal: &Terminal, part: &str) {
    wait_until(part, 30.0, || screen(&terminal.shown()).contains(part));
}

/// What a terminal of up to 120 columns has on its screen.
fn screen(shown: &str) -> String {
    let mut rows = vec![vec![' '; 120]; 40];
    let (mut row, mut column, mut rest) = (0, 0, shown);
    while let Some(c) = rest.chars().next() {
        let sequence = rest.strip_prefix("\x1b[").and_then(|sequence| {
            Some(sequence.split_at(sequence.find(|c: char| ('@'..='~').contains(&c))?))
        });
        let Some((parameters, end)) = sequence else {
            if let Some(cell) =
                rows.get_mut(row).and_then(|cells: &mut Vec<char>| cells.get_mut(column))
            {
                *cell = c;
            }
            (column, rest) = (column + 1, &rest[c.len_utf8()..]);
            continue;
        };
        let number =
            |text: &str| text.parse::<usize>().map_or(0, |number| number.saturating_sub(1));
        match (end.chars().next(), parameters.split_once(';')) {
            (Some('H'), Some((to_row, to_column))) => {
                (row, column) = (number(to_row), number(to_column));
            }
            (Some('J'), _) => rows.iter_mut().flatten().for_each(|cell| *cell = ' '),
            _ => {}
        }
        rest = &end[1..];
    }
    rows.iter().map(|cells| cells.iter().collect::<String>() + "\n").collect()
}
