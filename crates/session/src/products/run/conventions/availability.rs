//! Which conventions can be heard here, and what is missing for the others.
//!
//! Reads the environment, folders of programs and libraries, and what Python says of its version; emits a finding for each
//! convention of the table.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weigh_collect::tools::ToolsLibrary;
use weigh_schema::availability::Availability;
use weigh_schema::doctor::ConventionFinding;

use super::table::{CONVENTIONS, Convention, Loadable, OPENMP, find_openmp};

/// From this version on functions of other modules cost nothing (`sys.monitoring`).
const PYTHON: (u32, u32) = (3, 12);

/// What was looked for once.
struct Surroundings {
    /// Why the library for programs has no place.
    library: Option<String>,
    has_openmp: bool,
    python: Option<(u32, u32)>,
}

/// All conventions, as they stand here.
pub fn convention_findings() -> Vec<ConventionFinding> {
    let library = ToolsLibrary::new(&std::env::temp_dir()).err().map(|error| error.to_string());
    let surroundings =
        Surroundings { library, has_openmp: find_openmp().is_some(), python: python_version() };
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let finding = |convention: &Convention| ConventionFinding {
        availability: availability(convention, &surroundings, &is_set),
        programs: convention.programs,
        is_usual: convention.is_usual,
        found: convention.commands.iter().find_map(|name| find_command(name)),
        looked_for: convention.commands,
    };
    CONVENTIONS.iter().map(finding).collect()
}

fn availability(
    convention: &Convention,
    here: &Surroundings,
    is_set: &dyn Fn(&str) -> bool,
) -> Availability {
    let &Convention { name, variables, loadable, .. } = convention;
    let unavailable = |why: String| Availability::unavailable(name, why);
    if let Some(why) = &here.library {
        return unavailable(format!("the library for programs has no place: {why}"));
    }
    let is_alone =
        matches!(loadable, Loadable::Alone | Loadable::AloneByFirst | Loadable::Listener);
    if let Some(taken) = variables.iter().find(|name| is_alone && is_set(name)) {
        return unavailable(format!("{taken} is set already; it stands aside"));
    }
    match (loadable, here.python) {
        (Loadable::OpenMp, _) if !here.has_openmp => {
            unavailable(format!("there is no {OPENMP}: install libomp5, or LLVM's OpenMP"))
        }
        (Loadable::Listener, _) => match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
            Ok(_) => Availability::active(name),
            Err(error) => unavailable(format!("127.0.0.1: {error}")),
        },
        (Loadable::PythonModule, None) => unavailable("there is no python3 on PATH".to_string()),
        (Loadable::PythonModule, Some(version)) if version < PYTHON => {
            let (major, minor) = version;
            Availability::degraded(
                name,
                format!(
                    "Python {major}.{minor} has no sys.monitoring, as 3.12 has: sys.setprofile is called for every \
                     function"
                ),
            )
        }
        _ => Availability::active(name),
    }
}

/// Where a command is on PATH.
fn find_command(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_file(file))
}

fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file())
}

fn python_version() -> Option<(u32, u32)> {
    let mut command = Command::new(find_command("python3")?);
    command.args(["-I", "-S", "--version"]).stdin(Stdio::null()).stderr(Stdio::null());
    version(&String::from_utf8_lossy(&command.output().ok()?.stdout))
}

/// Of `Python 3.11.2`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("Python ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, here: &Surroundings, set: &str) -> String {
        let convention = CONVENTIONS.iter().find(|one| one.name == name).expect("a convention");
        let found = availability(convention, here, &|variable| variable == set);
        format!("{:?} {}", found.status, found.reason.unwrap_or_default())
    }

    #[test]
    fn what_is_missing_for_a_convention_is_said() {
        let here = Surroundings { library: None, has_openmp: false, python: Some((3, 11)) };
        assert_eq!(at("nvtx", &here, ""), "Active ");
        assert!(
            at("nvtx", &here, "NVTX_INJECTION64_PATH").contains("NVTX_INJECTION64_PATH is set")
        );
        assert!(at("otlp", &here, "OTEL_EXPORTER_OTLP_ENDPOINT").starts_with("Unavailable"));
        assert!(at("mpi", &here, "LD_PRELOAD").starts_with("Active"));
        assert!(at("gomp", &here, "").contains("libomp5"));
        assert!(at("python", &here, "").starts_with("Degraded Python 3.11"));
        let none = Surroundings { library: Some("no room".into()), python: None, ..here };
        assert!(at("mpi", &none, "").contains("no room"));
        assert_eq!(version("Python 3.12.1\n"), Some((3, 12)));
        assert_eq!(version("Pyston"), None);
    }
}
