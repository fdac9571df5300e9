//! Conventions by which annotated programs tell their regions, and how a command's programs come to load weigh's
//! library for them.
//!
//! Reads the conventions that were asked for and weigh's environment; emits the variables of the command, and a notice
//! for each convention that stands aside for a tool of the user's. Refuses names that are no convention's.

mod availability;
mod table;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use weigh_collect::notice;
use weigh_collect::tools::{ToolsLibrary, cannot_be_preloaded};
use weigh_schema::profile::COSTS_VARIABLE;

pub use availability::convention_findings;
use table::{CONVENTIONS, Convention, Loadable, OPENMP, PRELOAD, find_openmp};

/// The variable that tells the library which conventions were asked for.
const TOOLS: &str = "WEIGH_TOOLS";
/// Those by which Python's side finds the library, and the modules whose functions are regions.
const TOOLS_LIBRARY: &str = "WEIGH_TOOLS_LIBRARY";
const MODULES: &str = "WEIGH_PYTHON_MODULES";

/// What of it is weigh's, for programs that cannot have it.
const OWN_PRELOAD: &str = "WEIGH_TOOLS_PRELOAD";

/// The conventions of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conventions {
    names: Vec<&'static str>,
    /// Python's modules whose functions are regions.
    modules: Vec<String>,
    /// Patterns of regions that get an account of their system calls.
    costs: Vec<String>,
}

impl Conventions {
    /// Of a list of names with commas, of which `auto` stands for those that change nothing in a program, and `all` for
    /// all but Python's, which name a module: `python:MODULE`. `costs:PATTERN` is no convention: regions of such names get an
    /// account of their system calls.
    ///
    /// # Errors
    /// With a text for people if a name is none.
    pub fn parse(text: &str) -> Result<Conventions, String> {
        let mut conventions = Conventions::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            conventions.add(word)?;
        }
        Ok(conventions)
    }

    fn add(&mut self, word: &str) -> Result<(), String> {
        if let Some(pattern) = word.strip_prefix("costs:").filter(|pattern| !pattern.is_empty()) {
            self.costs.push(pattern.to_string());
            return Ok(());
        }
        let (name, module) = word.split_once(':').map_or((word, None), |(name, m)| (name, Some(m)));
        let chosen = |convention: &&Convention| match name {
            "auto" => convention.is_usual,
            "all" => convention.loadable != Loadable::PythonModule,
            name => convention.name == name,
        };
        let mut found =
            CONVENTIONS.iter().filter(chosen).map(|convention| convention.name).peekable();
        let takes_module = name == "python";
        match module {
            _ if found.peek().is_none() => return Err(unknown(name)),
            Some(module) if takes_module && !module.is_empty() && !module.contains(':') => {
                self.modules.push(module.to_string());
            }
            None if !takes_module => {}
            _ => return Err("Python's functions are regions by module: python:MODULE".to_string()),
        }
        self.names.extend(found);
        Ok(())
    }

    fn has(&self, convention: &Convention) -> bool {
        // GCC's programs tell by LLVM's runtime.
        let implied = convention.name == "ompt" && self.names.contains(&"gomp");
        implied || self.names.contains(&convention.name)
    }
}

fn unknown(word: &str) -> String {
    let known: Vec<&str> = CONVENTIONS.iter().map(|convention| convention.name).collect();
    format!(
        "'{word}' is no convention; there are auto, all, {}:MODULE, and costs:PATTERN",
        known.join(", ")
    )
}

/// The library for a run, and what was asked of it.
pub(super) struct Tools {
    library: ToolsLibrary,
    conventions: Conventions,
}

impl Tools {
    /// Puts the library where programs find it. Where it has no place that is said, and the run goes on without.
    pub(super) fn prepare(conventions: Option<&Conventions>, last_resort: &Path) -> Option<Tools> {
        let conventions = conventions?.clone();
        match ToolsLibrary::new(last_resort) {
            Ok(library) => Some(Tools { library, conventions }),
            Err(error) => {
                notice!("--regions: {error}; what annotated programs say is not heard");
                None
            }
        }
    }

    /// Adds what the command's environment must have to `variables`. Whether weigh itself has to listen for spans.
    pub(super) fn add_variables(
        &self,
        command: &OsStr,
        variables: &mut Vec<(OsString, OsString)>,
    ) -> bool {
        let given = |name: &str| {
            let own = variables.iter().find(|(known, _)| known == name);
            own.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(name))
        };
        let mut plan = Plan::new(&self.conventions, &self.library_paths(), given);
        plan.refused.iter().for_each(|refused| notice!("--regions: {refused}"));
        if cannot_be_preloaded(command) {
            plan.variables.retain(|(name, _)| name != PRELOAD);
        }
        variables.retain(|(name, _)| plan.variables.iter().all(|(planned, _)| planned != name));
        variables.append(&mut plan.variables);
        plan.hears_spans
    }

    fn library_paths(&self) -> LibraryPaths {
        let has = |name: &str| self.conventions.names.contains(&name);
        LibraryPaths {
            library: self.library.library().to_path_buf(),
            perfstubs: has("perfstubs").then(|| self.library.add_perfstubs().ok()).flatten(),
            python: has("python").then(|| self.library.add_python().ok()).flatten(),
            openmp: has("gomp").then(find_openmp).flatten(),
        }
    }

    /// What was made for it.
    pub(super) fn folder(&self) -> PathBuf {
        self.library.folder()
    }
}

/// Where what programs load is; none: it is not there.
struct LibraryPaths {
    library: PathBuf,
    perfstubs: Option<PathBuf>,
    python: Option<PathBuf>,
    openmp: Option<PathBuf>,
}

/// What is set, and what is not done.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    variables: Vec<(OsString, OsString)>,
    /// For people.
    refused: Vec<String>,
    /// Whether weigh listens for spans.
    hears_spans: bool,
}

impl Plan {
    fn new(
        conventions: &Conventions,
        paths: &LibraryPaths,
        given: impl Fn(&str) -> Option<OsString>,
    ) -> Plan {
        let given = |name: &str| given(name).filter(|value| !value.is_empty());
        let mut plan = Plan::default();
        let (mut heard, mut preloads): (Vec<&str>, Vec<PathBuf>) = Default::default();
        for convention in CONVENTIONS.iter().filter(|convention| conventions.has(convention)) {
            match plan.add(convention, paths, &given) {
                Ok(libraries) => {
                    if convention.loadable != Loadable::Listener {
                        heard.push(convention.name);
                    }
                    preloads.extend(libraries);
                }
                Err(refused) => plan.refused.push(refused),
            }
        }
        preloads.dedup();
        if !preloads.is_empty() {
            plan.set(PRELOAD, joined(&preloads, given(PRELOAD)));
            plan.set(OWN_PRELOAD, joined(&preloads, None));
        }
        if heard.contains(&"python") {
            plan.set(TOOLS_LIBRARY, paths.library.clone().into());
            plan.set(MODULES, conventions.modules.join(":").into());
        }
        plan.set(TOOLS, heard.join(",").into());
        if !conventions.costs.is_empty() {
            plan.set(COSTS_VARIABLE, conventions.costs.join(",").into());
        }
        plan
    }

    /// Sets a convention's own variables. Returns what is to be loaded before programs.
    fn add(
        &mut self,
        convention: &Convention,
        paths: &LibraryPaths,
        given: &impl Fn(&str) -> Option<OsString>,
    ) -> Result<Vec<PathBuf>, String> {
        let Convention { name, variables, loadable, .. } = convention;
        let missing = |what: &str| format!("{name}: {what}; it stands aside");
        let library = paths.library.clone();
        match loadable {
            Loadable::Alone | Loadable::AloneByFirst => {
                if let Some(taken) = variables.iter().find(|name| given(name).is_some()) {
                    return Err(missing(&format!(
                        "{taken} is set already, and names another tool"
                    )));
                }
                let is_by_first = *loadable == Loadable::AloneByFirst;
                let own = if is_by_first { &variables[..1] } else { variables };
                own.iter().for_each(|variable| self.set(variable, library.clone().into()));
                Ok(is_by_first.then_some(library).into_iter().collect())
            }
            Loadable::Listener => match variables.iter().find(|name| given(name).is_some()) {
                Some(taken) => Err(missing(&format!("{taken} is set already"))),
                None => {
                    self.hears_spans = true;
                    Ok(Vec::new())
                }
            },
            Loadable::Library => Ok(vec![library]),
            Loadable::PerfStubs => {
                let own = paths.perfstubs.clone();
                Ok(vec![library, own.ok_or_else(|| missing("its library could not be written"))?])
            }
            Loadable::OpenMp => {
                let own = paths.openmp.clone();
                Ok(vec![
                    own.ok_or_else(|| missing(&format!("there is no {OPENMP} (libomp5) here")))?,
                ])
            }
            Loadable::PythonModule => {
                let own = paths.python.clone();
                let folder = own.ok_or_else(|| missing("its module could not be written"))?;
                variables
                    .iter()
                    .for_each(|v| self.set(v, joined(std::slice::from_ref(&folder), given(v))));
                Ok(Vec::new())
            }
        }
    }

    fn set(&mut self, name: &str, value: OsString) {
        self.variables.push((name.into(), value));
    }
}

/// Weigh's before others of a list.
fn joined(own: &[PathBuf], others: Option<OsString>) -> OsString {
    let own = own.iter().map(|path| path.as_os_str().to_owned());
    own.chain(others).collect::<Vec<OsString>>().join(OsStr::new(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(list: &str, given: &[(&str, &str)]) -> Plan {
        let paths = LibraryPaths {
            library: "/w/tools.so".into(),
            perfstubs: Some("/w/perfstubs.so".into()),
            python: Some("/w/python".into()),
            openmp: None,
        };
        Plan::new(&Conventions::parse(list).unwrap(), &paths, |name| {
            given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[track_caller]
    fn value(plan: &Plan, name: &str) -> String {
        let found = plan.variables.iter().find(|(known, _)| known == name);
        found.map_or("(not set)", |(_, value)| value.to_str().unwrap()).to_string()
    }

    #[test]
    fn a_tool_of_the_users_own_stays() {
        let plan = plan("auto", &[("KOKKOS_PROFILE_LIBRARY", "/theirs.so")]);
        assert_eq!(plan.refused.len(), 1);
        assert!(plan.refused[0].contains("KOKKOS_PROFILE_LIBRARY"), "{:?}", plan.refused);
        assert_eq!(value(&plan, "KOKKOS_PROFILE_LIBRARY"), "(not set)");
        assert_eq!(value(&plan, "KOKKOS_TOOLS_LIBS"), "(not set)");
        assert_eq!(value(&plan, "NVTX_INJECTION64_PATH"), "/w/tools.so");
        assert_eq!(value(&plan, TOOLS), "nvtx,itt,ompt,mpi,likwid,papi,roctx");
    }

    /// A Kokkos that knows the newer one warns of the older.
    #[test]
    fn of_variables_for_versions_the_newer_one_is_set() {
        let plan = plan("kokkos", &[]);
        assert_eq!(value(&plan, "KOKKOS_TOOLS_LIBS"), "/w/tools.so");
        assert_eq!(value(&plan, "KOKKOS_PROFILE_LIBRARY"), "(not set)");
        assert_eq!(value(&plan, PRELOAD), "/w/tools.so");
    }

    #[test]
    fn lists_have_each_library_once_and_keep_the_users() {
        let given = [(PRELOAD, "/theirs.so"), ("PYTHONPATH", "/their/path")];
        let plan = plan("mpi,perfstubs,python:a,python:b.c", &given);
        assert_eq!(value(&plan, PRELOAD), "/w/tools.so:/w/perfstubs.so:/theirs.so");
        assert_eq!(value(&plan, OWN_PRELOAD), "/w/tools.so:/w/perfstubs.so");
        assert_eq!(value(&plan, "PYTHONPATH"), "/w/python:/their/path");
        assert_eq!(value(&plan, MODULES), "a:b.c");
        assert!(plan.refused.is_empty());
    }

    #[test]
    fn spans_go_where_the_user_has_said() {
        assert!(plan("auto", &[]).hears_spans && !plan("nvtx", &[]).hears_spans);
        let plan = plan("otlp", &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector")]);
        assert!(!plan.hears_spans);
        assert!(plan.refused[0].contains("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"));
    }

    #[test]
    fn a_runtime_that_is_not_there_is_told_of() {
        let plan = plan("gomp", &[]);
        assert_eq!(value(&plan, TOOLS), "ompt");
        assert!(plan.refused[0].contains(OPENMP), "{:?}", plan.refused);
    }

    #[test]
    fn patterns_of_regions_with_an_account_stand_beside_conventions() {
        let asked = plan("mpi,costs:halo *,costs:MPI_Wait*", &[]);
        assert_eq!(value(&asked, COSTS_VARIABLE), "halo *,MPI_Wait*");
        assert_eq!(value(&asked, TOOLS), "mpi");
        assert_eq!(value(&plan("mpi", &[]), COSTS_VARIABLE), "(not set)");
        assert!(Conventions::parse("costs:").is_err());
    }

    #[test]
    fn what_changes_a_program_is_named() {
        let auto = Conventions::parse("auto").unwrap().names;
        assert_eq!(
            auto,
            ["nvtx", "itt", "kokkos", "ompt", "mpi", "likwid", "papi", "roctx", "otlp"]
        );
        assert!(Conventions::parse("all").unwrap().names.contains(&"perfstubs"));
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for (text, why) in
            [("nvtx,foo", "'foo'"), ("python", "python:MODULE"), ("mpi:x", "python:")]
        {
            assert!(Conventions::parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
