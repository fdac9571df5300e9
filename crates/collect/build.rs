//! Builds the BPF programs and the Rust skeletons for them, and the library that is loaded into the
//! job's programs where BPF may not be used.
//!
//! The slots of the counters, and the fields of `task_struct` they are read from, are derived from
//! the schema, and the layout of the file that weigh shares with the library from the Rust types,
//! so that both sides have one declaration.

use libbpf_cargo::SkeletonBuilder;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use weigh_schema::Counter;

/// What weigh and the library share.
#[allow(dead_code)]
#[path = "src/preload/layout.rs"]
mod layout;

/// What they share beside it of files.
#[allow(dead_code)]
#[path = "src/preload/uses_layout.rs"]
mod uses_layout;

/// What weigh and the library for calls share.
#[allow(dead_code)]
#[path = "src/calls/shim/layout.rs"]
mod calls_layout;

/// Where the sources of the library for calls are, and those of libweigh, which is a part of it.
const CALLS_LIBRARY: &str = "../../libweigh/calls";
const LIBWEIGH: &str = "../../libweigh";

/// Where the sources of the libraries are that take what annotated programs say.
const TOOLS_LIBRARY: &str = "../../libweigh/tools";

/// Where the library's sources are.
const LIBRARY: &str = "../../libweigh/preload";

/// How a skeleton declares the bytes of its object.
const DATA: &str = "    static DATA:";

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join("counters.h"), counters_header()).expect("OUT_DIR is writable");
    std::fs::write(out.join("records.h"), weigh_schema::record::c_header())
        .expect("OUT_DIR is writable");
    std::fs::write(out.join("stages.h"), weigh_schema::membership::c_header())
        .expect("OUT_DIR is writable");
    std::fs::write(out.join("subsystems.h"), weigh_schema::subsystem::c_header())
        .expect("OUT_DIR is writable");
    std::fs::write(out.join("call_table.h"), weigh_schema::call::c_header())
        .expect("OUT_DIR is writable");
    std::fs::write(out.join("page.h"), weigh_schema::library::page_header())
        .expect("OUT_DIR is writable");
    std::fs::write(out.join("weigh_account.h"), weigh_schema::library::public_header())
        .expect("OUT_DIR is writable");
    std::fs::write(out.join("io_numbers.h"), weigh_schema::io::c_header())
        .expect("OUT_DIR is writable");
    for object in ["job", "functions", "calls", "io", "trace"] {
        build(object, &out);
    }
    std::fs::write(out.join("layout.h"), layout::c_header()).expect("OUT_DIR is writable");
    std::fs::write(out.join("uses_layout.h"), uses_layout::c_header())
        .expect("OUT_DIR is writable");
    for level in ["2", "3", "4"] {
        build_library(level, &out);
    }
    std::fs::write(out.join("shim_layout.h"), calls_layout::c_header())
        .expect("OUT_DIR is writable");
    build_calls_library(&out);
    build_tools_library("tools", TOOLS, &out);
    build_tools_library("perfstubs", PERFSTUBS, &out);
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed={CALLS_LIBRARY}");
    println!("cargo:rerun-if-changed={TOOLS_LIBRARY}");
    println!("cargo:rerun-if-changed={LIBWEIGH}/weigh_region.h");
    println!("cargo:rerun-if-changed={LIBWEIGH}/src");
    println!("cargo:rerun-if-changed={LIBWEIGH}/weigh.h");
    println!("cargo:rerun-if-changed={LIBWEIGH}/weigh_account.h");
    println!("cargo:rerun-if-changed={LIBRARY}");
    println!("cargo:rerun-if-env-changed=CC");
    println!("cargo:rerun-if-env-changed=CLANG");
}

fn build(object: &str, out: &Path) {
    let source = PathBuf::from(format!("bpf/{object}.bpf.c"));
    let arguments = [
        "-I".into(),
        out.as_os_str().to_owned(),
        "-mcpu=v3".into(),
        target_architecture(),
        "-Wall".into(),
    ];
    let mut builder = SkeletonBuilder::new();
    // As an array in the source the object takes longer to compile than all the rest of the crate.
    builder.reference_obj(true);
    if let Some(clang) = find_clang() {
        builder.clang(clang);
    }
    let skeleton = out.join(format!("{object}.skel.rs"));
    if let Err(error) = builder.source(&source).clang_args(arguments).build_and_generate(&skeleton)
    {
        panic!("BPF programs of {} do not build: {error:?}", source.display());
    }
    // Which of the kernel's types an object depends on is read from its bytes.
    let code = std::fs::read_to_string(&skeleton).expect("it was just written");
    assert!(code.contains(DATA), "the skeleton of {object} has no bytes of the object");
    std::fs::write(&skeleton, code.replace(DATA, "    pub static DATA:"))
        .expect("OUT_DIR is writable");
}

/// Level 2 hears of processes, level 3 of what they do with files and sockets too, level 4 counts that by
/// file.
fn build_library(level: &str, out: &Path) {
    let sources = LEVEL_2
        .iter()
        .chain(if level >= "3" { LEVEL_3 } else { &[] })
        .chain(if level >= "4" { LEVEL_4 } else { &[] });
    let sources = sources.map(|name| format!("{LIBRARY}/{name}.c"));
    compile(
        &out.join(format!("libweigh_preload_{level}.so")),
        &["-s", "-nostartfiles", &format!("-DLEVEL={level}"), "-I", "bpf"],
        out,
        sources,
    );
}

/// The library that marks calls: none of libweigh's names is to be seen in it. It has the headers as
/// they are derived now: by older ones of libweigh's folder it would be a library of another layout,
/// which weigh serves as little as any other version's.
fn build_calls_library(out: &Path) {
    let derived = ["weigh_account.h", "page.h"].map(|name| out.join(name).display().to_string());
    let [account, page] = &derived;
    let own = CALLS.iter().map(|name| format!("{CALLS_LIBRARY}/{name}.c"));
    let library = LIBWEIGH_PARTS.iter().map(|name| format!("{LIBWEIGH}/src/{name}.c"));
    let options = [
        ["-s", "-DWEIGH_INSIDE", "-D_GNU_SOURCE", "-pthread", "-Wl,-z,nodelete"].as_slice(),
        &["-I", LIBWEIGH, "-include", account, "-include", page],
    ]
    .concat();
    compile(&out.join("libweigh_calls.so"), &options, out, own.chain(library));
}

/// A library for annotated programs: libweigh is in it, with its regions, and none of its names is to be seen.
fn build_tools_library(name: &str, parts: &[&str], out: &Path) {
    let derived = ["weigh_account.h", "page.h"].map(|name| out.join(name).display().to_string());
    let [account, page] = &derived;
    let hides = format!("-Wl,--version-script={TOOLS_LIBRARY}/tools.map");
    // Beside the library of all conventions another one has no libweigh of its own.
    let with_regions = parts == TOOLS;
    let mut options =
        ["-s", "-D_GNU_SOURCE", "-pthread", "-Wl,-z,nodelete", &hides, "-I", LIBWEIGH].to_vec();
    options.extend(["-include", account, "-include", page]);
    let inside = ["-DWEIGH_WITH_REGIONS", "-Wl,--wrap=fstat"];
    options.extend(inside.into_iter().filter(|_| with_regions));
    let own = parts.iter().map(|part| format!("{TOOLS_LIBRARY}/{part}.c"));
    let parts = region_parts().chain(LIBWEIGH_PARTS.iter().map(|part| part.to_string()));
    let library = parts.filter(|_| with_regions).map(|part| format!("{LIBWEIGH}/src/{part}.c"));
    compile(&out.join(format!("libweigh_{name}.so")), &options, out, own.chain(library));
}

/// The parts of libweigh for regions.
fn region_parts() -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(format!("{LIBWEIGH}/src")).expect("libweigh's sources");
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let parts = names.filter_map(|name| name.strip_suffix(".c").map(str::to_string));
    let mut parts: Vec<String> = parts.filter(|part| part.starts_with("region")).collect();
    parts.sort();
    parts.into_iter()
}

fn compile(to: &Path, options: &[&str], out: &Path, sources: impl Iterator<Item = String>) {
    let compiler = compiler();
    let status = Command::new(&compiler)
        .args(["-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
        .args(["-include", &format!("{LIBWEIGH}/src/old_glibc.h")])
        // It is in threads whose stacks are as small as may be.
        .args(["-Wframe-larger-than=1536", "-Wvla", "-Walloca"])
        .args(["-fvisibility=hidden", "-fno-plt", "-ftls-model=initial-exec", "-U_FORTIFY_SOURCE"])
        // The loader maps each segment, and protects it once more if it is to be read-only after it
        // has been filled: each time in each program of the job. So there are two only, and nothing
        // of the compiler's own beginnings and ends of a library, where it has no need of them.
        .args([
            "-Wl,-z,noseparate-code",
            "-Wl,-z,norelro",
            "-Wl,--build-id=none",
            "-Wl,-z,now",
            "-Wl,-z,noexecstack",
            "-Wl,--no-undefined",
            "-Wl,--hash-style=gnu",
        ])
        .args(options)
        .arg("-I")
        .arg(out)
        .arg("-o")
        .arg(to)
        .args(sources)
        .args(old_libraries(to))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{} does not build: {status}", to.display()),
        Err(error) => panic!("{} cannot be run: {error}", compiler.display()),
    }
}

/// Libraries in which a glibc below 2.34 has what the library calls. They are struck out where a newer one runs: see
/// `src/preload/old_libraries.rs`.
fn old_libraries(library: &Path) -> Vec<&'static str> {
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return Vec::new();
    }
    let mut named = vec!["-Wl,--no-as-needed", "-l:libdl.so.2"];
    if !library.to_string_lossy().contains("preload") {
        named.push("-l:libpthread.so.0");
    }
    named
}

/// For a machine that is not the one that builds, as the crate `cc` looks for it: `CC_` and the target.
fn compiler() -> std::ffi::OsString {
    let target = std::env::var("TARGET").unwrap_or_default().replace('-', "_");
    let named = [format!("CC_{target}"), "CC".to_string()];
    named.iter().find_map(std::env::var_os).unwrap_or_else(|| "cc".into())
}

/// The parts of the library for calls, and those of libweigh that it has a use for.
const CALLS: &[&str] = &["span", "stripe", "sockets", "transfers", "files", "waits", "exec"];
const LIBWEIGH_PARTS: &[&str] = &[
    "accounts",
    "configured",
    "counting",
    "interval",
    "limits",
    "part_counts",
    "parts",
    "process",
    "settled",
    "talk",
    "threads",
];

/// The conventions of annotated programs, and what they share.
const TOOLS: &[&str] = &[
    "tools",
    "exec",
    "getenv",
    "nvtx",
    "itt",
    "kokkos",
    "ompt",
    "mpi",
    "mpi_control",
    "mpi_requests",
    "mpi_fortran",
    "rank",
    "markers",
    "ranges",
];
const PERFSTUBS: &[&str] = &["tools", "perfstubs"];

/// The parts of the library that both have.
const LEVEL_2: &[&str] = &[
    "clock",
    "begin",
    "mapping",
    "slots",
    "children",
    "look",
    "program",
    "environment",
    "exec",
    "processes",
    "system_calls",
    "filters",
    "lookup",
];

/// The parts of the library that only level 3 has.
const LEVEL_3: &[&str] = &["descriptors", "sockets", "transfers", "opens"];
const LEVEL_4: &[&str] = &["io_table", "io_count", "io_calls", "io_paths", "io_streams"];

/// Debian installs versioned names only.
fn find_clang() -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("CLANG") {
        return Some(chosen.into());
    }
    let path = std::env::var_os("PATH")?;
    ["clang", "clang-19", "clang-18", "clang-17", "clang-16"].iter().find_map(|name| {
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.exists())
    })
}

fn counters_header() -> String {
    let mut header =
        String::from("/* Derived from crates/schema/src/counter.rs. */\nenum counter {\n");
    let (of_task, of_events): (Vec<Counter>, Vec<Counter>) =
        Counter::ALL.iter().copied().partition(|c| c.task_field().is_some());
    assert!(
        Counter::ALL.starts_with(&of_task),
        "counters that the kernel keeps in the task come first in the schema"
    );
    for counter in of_task.iter().chain(&of_events) {
        let _ = writeln!(header, "\tCOUNTER_{} = {},", counter.slot_name(), *counter as usize);
    }
    let _ = writeln!(header, "\tN_COUNTERS = {},", Counter::COUNT);
    let _ = writeln!(header, "\tN_TASK_COUNTERS = {},\n}};", of_task.len());
    header.push_str("#define FOR_EACH_TASK_COUNTER(DO)");
    for counter in of_task {
        let field = counter.task_field().expect("partitioned by it");
        // Behind a pointer it is read with a call: see process_key() in bpf/job.h.
        let read = match field.split_once("->") {
            Some((pointer, field)) => format!("BPF_CORE_READ(task, {pointer}, {field})"),
            None => format!("task->{field}"),
        };
        let _ = write!(header, " \\\n\tDO(COUNTER_{}, {read})", counter.slot_name());
    }
    header.push('\n');
    header
}

/// The macro by which the programs know the machine they are for.
fn target_architecture() -> std::ffi::OsString {
    match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "-D__TARGET_ARCH_x86".into(),
        Ok("aarch64") => "-D__TARGET_ARCH_arm64".into(),
        other => panic!("weigh has no BPF programs for {other:?}; it knows x86_64 and aarch64"),
    }
}
