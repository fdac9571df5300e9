//! Annotated programs, unchanged, under `weigh run --regions`: what the adapters say, against what each program says
//! that it did. A libweigh of the tests' own (`libweigh/tools/tests/listener.c`), which the adapters find in the
//! program, writes down what it is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::support::library::must;
use crate::support::run::Scratch;
use crate::support::weigh_binary;

/// Variables of a run on one machine, as root, on fewer processors than ranks.
const OPEN_MPI: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// How lines of truth name the columns of what the listener writes.
const COLUMNS: [&str; 9] =
    ["calls", "ns", "phases", "iterations", "ranges", "samples", "events", "unbalanced", "sum"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh/tools/tests")
}

/// Packages of annotated programs, as `scripts/install-dependencies.sh test` installs them.
fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/annotated")
}

/// A program of the tests, or the listener, made once: by the compiler, its options, from the source.
fn build(name: &str, compiler: &str, options: &[&str], source: &str) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(crate::support::library::folder);
    let path = folder.path().join(name);
    let partial = folder.path().join(format!("{name}.{:?}", std::thread::current().id()));
    if !path.exists() {
        let mut compile = Command::new(compiler);
        compile.arg("-o").arg(&partial).arg(sources().join(source));
        must(compile.args(options));
        std::fs::rename(&partial, &path).expect("a folder of our own");
    }
    path
}

fn listener() -> PathBuf {
    build("listener.so", "cc", &["-shared", "-fPIC", "-O1"], "listener.c")
}

/// What a listener was told in all processes: numbers by name.
struct ListenerReport {
    rows: BTreeMap<String, Vec<i64>>,
    unknown: u64,
    published: u64,
    metadata: Vec<String>,
}

impl ListenerReport {
    fn read(folder: &Path) -> ListenerReport {
        let mut report = ListenerReport {
            rows: BTreeMap::new(),
            unknown: 0,
            published: 0,
            metadata: Vec::new(),
        };
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let bytes = std::fs::read(entry.path()).expect("what the listener wrote");
            String::from_utf8_lossy(&bytes).lines().for_each(|line| report.take(line));
        }
        report
    }

    fn take(&mut self, line: &str) {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["metadata", key, value] => self.metadata.push(format!("{key}={value}")),
            ["published", number] => self.published += number.parse::<u64>().expect("a number"),
            ["unknown", number] => self.unknown += number.parse::<u64>().expect("a number"),
            _ => {
                let row = self.rows.entry(fields[0].to_string()).or_default();
                row.resize(COLUMNS.len(), 0);
                let numbers = fields[1..].iter().take(COLUMNS.len());
                for (sum, number) in row.iter_mut().zip(numbers) {
                    *sum += number.parse::<i64>().expect("a number");
                }
            }
        }
    }

    /// A column of all names that are this one, or begin with it and a blank (places follow).
    fn number(&self, column: &str, name: &str) -> i64 {
        let at = COLUMNS.iter().position(|known| *known == column).expect("a column");
        let is_meant = |known: &str| {
            known.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.contains("+0x"))
        };
        self.rows.iter().filter(|(known, _)| is_meant(known)).map(|(_, row)| row[at]).sum()
    }

    /// Each line of the program's that says what it did is what the listener was told.
    #[track_caller]
    fn agrees_with(&self, output: &Output) {
        let said = String::from_utf8_lossy(&output.stdout);
        let mut lines = 0;
        for line in said.lines() {
            let words: Vec<&str> = line.splitn(3, ' ').collect();
            let [column, number, name] = words[..] else { continue };
            let sum = self.number(column, name);
            // `N+M`: so many, and at most so many more.
            let (least, more) = number.split_once('+').unwrap_or((number, "0"));
            let least: i64 = least.parse().expect("a number");
            let most = least + more.parse::<i64>().expect("a number");
            assert!((least..=most).contains(&sum), "{line}: told {sum}\n{:#?}", self.rows);
            lines += 1;
        }
        assert!(lines > 2, "{output:?}");
        let unbalanced: i64 = self.rows.values().map(|row| row[7]).sum();
        let meant = i64::from(self.rows.contains_key("NVTX pop without push"));
        assert_eq!((unbalanced, self.unknown), (meant, 0), "{:#?}", self.rows);
    }
}

/// A command by itself, and under `weigh run --regions=LIST`: standard output and error are the same. Returns what the
/// listener wrote, too.
#[track_caller]
fn listen_to(list: &str, variables: &[(&str, &str)], command: &[&str]) -> (Output, ListenerReport) {
    let scratch = Scratch::new();
    let bare = run(&scratch, variables, None, command);
    assert!(bare.status.success(), "{bare:?}");
    let output = run(&scratch, variables, Some(list), command);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output), text(&bare), "{list}: {command:?}");
    let report = ListenerReport::read(&scratch.path("report"));
    (output, report)
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn run(
    scratch: &Scratch,
    variables: &[(&str, &str)],
    list: Option<&str>,
    words: &[&str],
) -> Output {
    let report = scratch.path("report");
    let mut command = Command::new(words[0]);
    if let Some(list) = list {
        std::fs::create_dir_all(&report).expect("a folder");
        command = Command::new(weigh_binary());
        command.args(["run", "-q", "--mechanism", "poll", "-o"]).arg(scratch.path("recording"));
        command.arg(format!("--regions={list}")).arg("--").arg(words[0]);
        command.env("LD_PRELOAD", listener()).env("LISTENER", &report);
    }
    command.args(&words[1..]).current_dir(scratch.path("work")).stdin(std::process::Stdio::null());
    command.envs(variables.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
    command.output().expect("it starts")
}

fn python(script: &str) -> [String; 2] {
    [packages().join("bin/python"), sources().join(script)].map(|path| path.display().to_string())
}

#[test]
fn ranges_of_nvtx_are_told() {
    let [python, script] = python("nvtx_ranges.py");
    let (output, report) = listen_to("auto", &[], &[&python, &script]);
    report.agrees_with(&output);
    assert_eq!(report.number("unbalanced", "NVTX pop without push"), 1);
}

#[test]
fn tasks_of_itt_are_told() {
    let [python, script] = python("itt_tasks.py");
    let (output, report) = listen_to("itt", &[], &[&python, &script]);
    report.agrees_with(&output);
}

#[test]
fn parallel_regions_of_openmp_are_told() {
    let program = build("openmp", "clang", &["-O1", "-fopenmp"], "openmp.c").display().to_string();
    let (output, report) = listen_to("auto", &[], &[&program]);
    report.agrees_with(&output);
    assert_eq!(report.number("calls", "omp loop"), 111, "{:#?}", report.rows);
}

/// GCC's runtime tells nothing: LLVM's is in its place, where that was asked for.
#[test]
fn programs_of_gcc_tell_by_the_runtime_of_llvm() {
    let program = build("gomp", "gcc", &["-O1", "-fopenmp"], "openmp.c").display().to_string();
    let (_, report) = listen_to("auto", &[], &[&program]);
    assert!(report.rows.is_empty(), "{:#?}", report.rows);
    let (_, report) = listen_to("auto,gomp", &[], &[&program]);
    for (name, calls) in [("omp critical wait", 111), ("omp lock wait", 111), ("omp task", 41)] {
        assert_eq!(report.number("calls", name), calls, "{name}: {:#?}", report.rows);
    }
}

#[test]
fn calls_of_open_mpi_are_told() {
    let program = build("mpi", "mpicc", &["-O1"], "mpi_calls.c").display().to_string();
    let (output, report) = listen_to("auto", &OPEN_MPI, &["mpirun", "-n", "2", &program]);
    report.agrees_with(&output);
    let ranks = report.metadata.iter().filter(|text| text.starts_with("mpi_rank="));
    let mut ranks: Vec<&String> = ranks.collect();
    ranks.sort();
    assert_eq!(ranks, ["mpi_rank=0", "mpi_rank=1"]);
    assert_eq!(report.published, 2);
}

#[test]
fn calls_of_mpi_in_fortran_are_told() {
    let program = build("fortran", "mpifort", &["-O1"], "mpi_calls.f90").display().to_string();
    let (output, report) = listen_to("mpi", &OPEN_MPI, &["mpirun", "-n", "2", &program]);
    report.agrees_with(&output);
}

#[test]
fn calls_by_the_module_mpi_f08_are_told() {
    let program = build("f08", "mpifort", &["-O1"], "mpi_f08.f90").display().to_string();
    let (output, report) = listen_to("mpi", &OPEN_MPI, &["mpirun", "-n", "2", &program]);
    report.agrees_with(&output);
}

/// However the program waits for them, and whether it wants to know more of them or not.
#[test]
fn bytes_of_receives_that_are_waited_for_are_told() {
    let program = build("requests", "mpicc", &["-O1"], "mpi_requests.c").display().to_string();
    let (output, report) = listen_to("mpi", &OPEN_MPI, &["mpirun", "-n", "2", &program]);
    report.agrees_with(&output);
}

#[test]
fn calls_of_mpich_and_of_the_standard_abi_are_told() {
    let bin = packages().join("bin");
    let start = bin.join("mpiexec").display().to_string();
    for compiler in ["mpicc", "mpicc_abi"] {
        let by = bin.join(compiler).display().to_string();
        let library = format!("-Wl,-rpath,{}", packages().join("lib").display());
        for source in ["mpi_calls.c", "mpi_requests.c"] {
            let name = format!("{compiler} {source}");
            let program = build(&name, &by, &["-O1", &library], source).display().to_string();
            let (output, report) = listen_to("mpi", &[], &[&start, "-n", "2", &program]);
            report.agrees_with(&output);
        }
    }
}

#[test]
fn kernels_of_kokkos_are_told() {
    let options = [
        "-std=c++17",
        "-O0",
        "-fopenmp",
        "-I/usr/include/trilinos",
        "-ltrilinos_kokkoscore",
        "-ldl",
    ];
    let program = build("kokkos", "g++", &options, "kokkos_kernels.cpp").display().to_string();
    let (output, report) = listen_to("auto", &[], &[&program]);
    report.agrees_with(&output);
}

/// Kokkos 5, against a tool that counts. Its own warning of OpenMP is there as without weigh, and no other.
#[test]
fn kernels_of_a_newer_kokkos_are_told_as_another_tool_counts_them() {
    let [python, script] = python("kokkos_pores.py");
    let scratch = Scratch::new();
    let truth = scratch.path("truth").display().to_string();
    let witness = build("witness.so", "cc", &["-shared", "-fPIC"], "kokkos_witness.c");
    let witness = witness.display().to_string();
    let counted = [("KOKKOS_TOOLS_LIBS", witness.as_str()), ("WITNESS", truth.as_str())];
    assert!(run(&scratch, &counted, None, &[&python, &script]).status.success());
    let (output, report) = listen_to("auto", &[], &[&python, &script]);
    assert!(text(&output).1.contains("OMP_PROC_BIND"), "{output:?}");
    let truth = std::fs::read_to_string(truth).expect("what the other tool counted");
    for line in truth.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [_, number, name] = words[..] else { panic!("{line}") };
        assert_eq!(report.number("calls", name).to_string(), number, "{name}: {:#?}", report.rows);
    }
    assert!(truth.lines().count() > 10, "{truth}");
}

/// A Kokkos that cannot load a tool is not told of one; it hears of another that the job itself names.
#[test]
fn a_kokkos_that_cannot_load_a_tool_warns_of_none() {
    let program = build("without_dlopen", "cc", &[], "kokkos_without_dlopen.c");
    let program = program.display().to_string();
    let (output, _) = listen_to("auto", &[], &[&program]);
    assert_eq!(text(&output).1, "");
    let theirs =
        ["env", "KOKKOS_TOOLS_LIBS=/theirs.so", "KOKKOS_PROFILE_LIBRARY=/old.so", &program];
    let (output, _) = listen_to("auto", &[], &theirs);
    let said = text(&output).1;
    assert!(said.contains("=/theirs.so") && said.contains("=/old.so"), "{said}");
}

#[test]
fn timers_of_perfstubs_are_told_where_that_was_asked_for() {
    let program = build("perfstubs", "cc", &["-ldl"], "perfstubs_timers.c").display().to_string();
    let (output, report) = listen_to("auto,perfstubs", &[], &[&program]);
    report.agrees_with(&output);
    assert_eq!(report.published, 19);
    let (_, report) = listen_to("auto", &[], &[&program]);
    assert!(report.rows.is_empty(), "{:#?}", report.rows);
}

/// Their own library hears of them as before.
#[test]
fn markers_of_other_libraries_are_told() {
    let library = build("libmarkers.so", "cc", &["-shared", "-fPIC", "-DLIBRARY"], "markers.c");
    let library = library.display().to_string();
    let program = build("markers", "cc", &[&library], "markers.c").display().to_string();
    let (output, report) = listen_to("auto", &[], &[&program]);
    report.agrees_with(&output);
}

#[test]
fn functions_of_chosen_modules_are_told() {
    let script = sources().join("functions.py").display().to_string();
    let works = |python: &&str| {
        Command::new(python).args(["-c", ""]).output().is_ok_and(|o| o.status.success())
    };
    for python in ["python3", "python3.12", "python3.13"].into_iter().filter(works) {
        let (output, report) = listen_to("python:annotated_module", &[], &[python, &script]);
        report.agrees_with(&output);
        assert!(report.rows.keys().all(|name| name.starts_with("annotated") || name == "python"));
    }
}

#[test]
fn a_tool_of_the_users_own_stays() {
    let [python, script] = python("nvtx_ranges.py");
    let theirs = [("NVTX_INJECTION64_PATH", "/nowhere/theirs.so")];
    let scratch = Scratch::new();
    let output = run(&scratch, &theirs, Some("nvtx"), &[&python, &script]);
    let said = text(&output).1;
    assert!(said.contains("NVTX_INJECTION64_PATH is set already"), "{said}");
    assert!(ListenerReport::read(&scratch.path("report")).rows.is_empty());
}

/// Of 32 bits, and with a sanitizer's runtime: by the shell, too, which has the library.
#[test]
fn programs_that_cannot_load_the_library_go_on_as_they_would() {
    let short = build("short", "cc", &["-m32", "-ldl"], "perfstubs_timers.c").display().to_string();
    let sanitized = build("sanitized", "cc", &["-fsanitize=address", "-ldl"], "perfstubs_timers.c");
    let sanitized = sanitized.display().to_string();
    for program in [&short, &sanitized] {
        let scratch = Scratch::new();
        for command in [vec![program.as_str()], vec!["sh", "-c", "\"$0\"; true", program]] {
            let mut weigh = Command::new(weigh_binary());
            weigh.args(["run", "-q", "--mechanism", "poll", "-o"]).arg(scratch.path("recording"));
            let output = weigh.arg("--regions=all").arg("--").args(&command).output();
            let (_, said) = text(&output.expect("it starts"));
            assert_eq!(said, "", "{command:?}");
            std::fs::remove_dir_all(scratch.path("recording")).expect("a recording");
        }
    }
}

/// The regions of a command's recording, as `weigh show --regions --json` has them, by the libweigh in weigh's library.
#[track_caller]
fn recorded(variables: &[(&str, &str)], command: &[&str]) -> serde_json::Value {
    record(variables, command).1
}

/// The same, and what the command said.
#[track_caller]
fn record(variables: &[(&str, &str)], command: &[&str]) -> (String, serde_json::Value) {
    let scratch = Scratch::new();
    let recording = scratch.path("recording");
    let mut weigh = Command::new(weigh_binary());
    weigh.args(["run", "-q", "--mechanism", "poll", "--regions", "-o"]).arg(&recording).arg("--");
    weigh.args(command).envs(variables.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = must(weigh.current_dir(scratch.path("work")));
    let mut show = Command::new(weigh_binary());
    let shown = must(show.args(["show", "--regions", "--json"]).arg(&recording));
    (text(&said).0, serde_json::from_slice(&shown.stdout).expect("JSON"))
}

fn calls(report: &serde_json::Value, name: &str, rank: Option<u64>) -> u64 {
    let regions = report["regions"].as_array().expect("regions").iter();
    let is_meant = |row: &&serde_json::Value| {
        row["name"] == name && rank.is_none_or(|rank| row["rank"].as_u64() == Some(rank))
    };
    regions.filter(is_meant).map(|row| row["calls"].as_u64().expect("a number")).sum()
}

#[test]
fn regions_of_annotated_programs_are_in_the_recording() {
    let [python, script] = python("nvtx_ranges.py");
    let report = recorded(&[], &[&python, &script]);
    for name in ["solve", "lib:inner", "decorated"] {
        assert_eq!(calls(&report, name, None), 42, "{name}: {report:#}");
    }
    let program = build("mpi", "mpicc", &["-O1"], "mpi_calls.c").display().to_string();
    let report = recorded(&OPEN_MPI, &["mpirun", "-n", "2", &program]);
    for (name, of_ranks) in [("MPI_Send", [37, 0]), ("MPI_Recv", [11, 37]), ("solve", [1, 1])] {
        let told = [0, 1].map(|rank| calls(&report, name, Some(rank)));
        assert_eq!(told, of_ranks, "{name}: {report:#}");
    }
}

/// The last region of threads that wait for more ends with the runtime; where the program does not end in order it is open.
#[test]
fn the_last_parallel_region_ends_with_the_program() {
    let program = build("openmp", "clang", &["-O1", "-fopenmp"], "openmp.c").display().to_string();
    let report = recorded(&[], &[&program]);
    let regions = report["regions"].as_array().expect("regions").iter();
    let is_parallel = |name: &str| name.starts_with("omp parallel");
    let parallel = regions.filter(|row| row["name"].as_str().is_some_and(is_parallel));
    let calls: u64 = parallel.map(|row| row["calls"].as_u64().expect("a number")).sum();
    assert_eq!((calls, &report["open_calls_total"]), (38 * 3, &0.into()), "{report:#}");
    let report = recorded(&[], &[&program, "at once"]);
    assert!(report["open_calls_total"].as_u64().is_some_and(|calls| calls > 0), "{report:#}");
}

/// A stencil, with regions of libweigh and unannotated MPI in one call tree: calls, bytes and phases are those of the program.
#[test]
fn a_stencil_is_told_as_it_counts_itself() {
    let libweigh = crate::support::library::program("regions_run");
    let libweigh = libweigh.parent().expect("a folder").display();
    let options = [
        format!("-I{libweigh}/include"),
        format!("-L{libweigh}/lib"),
        format!("-Wl,-rpath,{libweigh}/lib"),
    ];
    let options: Vec<&str> =
        options.iter().map(String::as_str).chain(["-std=gnu17", "-O2", "-lweigh", "-lm"]).collect();
    let program = build("stencil", "mpicc", &options, "stencil.c").display().to_string();
    let command = ["mpirun", "-n", "2", &program];
    let scratch = Scratch::new();
    let bare = run(&scratch, &OPEN_MPI, None, &command);
    let (said, report) = record(&OPEN_MPI, &command);
    let seconds = |text: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix("seconds "));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    let (without, with) = (seconds(&text(&bare).0), seconds(&said));
    println!("iterations: {without} s alone, {with} s with regions, {:.3} times", with / without);
    let mut lines = 0;
    for line in said.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [kind, number, name] = words[..] else { continue };
        let number: u64 = number.parse().expect("a number");
        let told = match kind {
            "calls" => calls(&report, name, None),
            "phases" => named(&report, "phases", name).count() as u64,
            _ => named(&report, "counters", name)
                .map(|counter| counter["value"].as_f64().expect("a number") as u64)
                .sum(),
        };
        assert_eq!(told, number, "{line}: {report:#}");
        lines += 1;
    }
    assert!(lines > 10, "{said}");
    let regions = report["regions"].as_array().expect("regions");
    let path = serde_json::json!(["iteration", "halo", "MPI_Irecv"]);
    assert_eq!(regions.iter().filter(|row| row["path"] == path).count(), 2, "{report:#}");
}

fn named<'a>(
    report: &'a serde_json::Value,
    list: &str,
    name: &str,
) -> impl Iterator<Item = &'a serde_json::Value> {
    let rows = report[list].as_array().expect("a list").iter();
    rows.filter(move |row| row["name"] == name)
}
