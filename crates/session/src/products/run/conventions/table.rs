//! The conventions, declared: how annotated programs find a tool, and who uses each.

use std::path::{Path, PathBuf};

pub(super) const PRELOAD: &str = "LD_PRELOAD";

/// Where LLVM's OpenMP runtime is, which has the interface of GCC's as well.
pub(super) const OPENMP: &str = "libomp.so.5";

/// What a convention's variables name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loadable {
    /// The library, which is the one tool that the program loads: one of the user's stays, and the convention stands
    /// aside.
    Alone,
    /// The library, by the first variable, as `Alone`; and before programs, for those that know another one alone.
    AloneByFirst,
    /// The library, before others of a list.
    Library,
    /// The library, and that for PerfStubs.
    PerfStubs,
    /// LLVM's OpenMP runtime.
    OpenMp,
    /// A folder with a module.
    PythonModule,
    /// Nothing: weigh itself listens, unless one of the variables is set.
    Listener,
}

/// A way in which annotated programs find a tool.
pub(super) struct Convention {
    pub name: &'static str,
    /// Whether `auto` has it: it changes nothing that a program does or prints.
    pub is_usual: bool,
    pub variables: &'static [&'static str],
    pub loadable: Loadable,
    /// Who uses it.
    pub programs: &'static str,
    /// One of these commands shows that such programs are at home here.
    pub commands: &'static [&'static str],
}

const fn usual(
    name: &'static str,
    variables: &'static [&'static str],
    loadable: Loadable,
    programs: &'static str,
) -> Convention {
    Convention { name, is_usual: true, variables, loadable, programs, commands: &[] }
}

const fn named(
    name: &'static str,
    variables: &'static [&'static str],
    loadable: Loadable,
    programs: &'static str,
) -> Convention {
    Convention { is_usual: false, ..usual(name, variables, loadable, programs) }
}

/// The variables by which a user says where spans of OpenTelemetry go.
const OTLP_VARIABLES: [&str; 6] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
];
/// Kokkos from 3.7 on warns where the second one is set; up to 3.6 it knows no other (`libweigh/tools/getenv.c`).
const KOKKOS: [&str; 2] = ["KOKKOS_TOOLS_LIBS", "KOKKOS_PROFILE_LIBRARY"];

pub(super) const CONVENTIONS: [Convention; 12] = [
    usual("nvtx", &["NVTX_INJECTION64_PATH"], Loadable::Alone, "NVTX 3 in any language"),
    usual(
        "itt",
        &["INTEL_LIBITTNOTIFY64"],
        Loadable::Alone,
        "PyTorch, oneTBB, OpenVINO, OpenCV, Intel OpenMP",
    ),
    usual("kokkos", &KOKKOS, Loadable::AloneByFirst, "Kokkos 3 to 5"),
    usual("ompt", &["OMP_TOOL_LIBRARIES"], Loadable::Alone, "OpenMP of LLVM, Intel, AMD, NVIDIA"),
    Convention {
        commands: &["mpirun", "mpiexec", "srun"],
        ..usual("mpi", &[PRELOAD], Loadable::Library, "MPI in C and Fortran")
    },
    usual("likwid", &[PRELOAD], Loadable::Library, "markers of LIKWID"),
    usual("papi", &[PRELOAD], Loadable::Library, "PAPI's high level"),
    usual("roctx", &[PRELOAD], Loadable::Library, "markers of ROCm"),
    usual("otlp", &OTLP_VARIABLES, Loadable::Listener, "OpenTelemetry, spans by OTLP/HTTP"),
    named("perfstubs", &[PRELOAD], Loadable::PerfStubs, "ADIOS2, PETSc"),
    named("gomp", &[PRELOAD], Loadable::OpenMp, "OpenMP of GCC, by LLVM's runtime"),
    named("python", &["PYTHONPATH"], Loadable::PythonModule, "functions of Python's modules"),
];

/// In the folders that the loader looks through, and those of LLVM's packages.
pub(super) fn find_openmp() -> Option<PathBuf> {
    let triple = triple();
    let fixed = [format!("/usr/lib/{triple}"), "/usr/lib64".into(), "/usr/lib".into()];
    let by_version = (14..=21).rev().map(|version| format!("/usr/lib/llvm-{version}/lib"));
    let folders = fixed.into_iter().chain(by_version);
    folders.map(|folder| Path::new(&folder).join(OPENMP)).find(|file| file.exists())
}

fn triple() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}
