//! The analysis of a kernel: of the one that runs here, kept by its build id, or of an image.
//!
//! Reads the files that [`sources`] names and what [`cache`] has kept; emits `weigh-kernel`'s
//! analysis and where it is from. Refuses a kernel whose image is not here, and says where it was
//! looked for.

mod cache;
mod error;
mod sources;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use weigh_kernel::{Analysis, AnalysisError, Input, Subsystems};
use weigh_schema::nearest;
use weigh_trace::btf::Btf;

use cache::Cache;
pub use cache::MapQuery;
use error::read;
pub use error::{KernelMapError, NoImage, NoSuchName};
use sources::RunningKernel;

/// Refuses the first name that is not among those that there are.
fn refuse_unknown(
    what: &'static str,
    names: &[String],
    known: &[String],
) -> Result<(), KernelMapError> {
    let Some(name) = names.iter().find(|name| !known.contains(name)) else { return Ok(()) };
    let near = nearest(name, known.iter().map(String::as_str));
    let near = near.into_iter().map(str::to_string).collect();
    Err(KernelMapError::NoSuchName(NoSuchName { what, name: name.clone(), near }))
}

/// The same of parts of the kernel, which are the same for all.
fn refuse_unknown_parts(question: &MapQuery) -> Result<(), KernelMapError> {
    let parts: Vec<String> =
        Subsystems::shipped().list().iter().map(|part| part.name.clone()).collect();
    refuse_unknown("part", &question.parts, &parts)
}

/// An analysis and where it is from.
#[derive(Debug)]
pub struct KernelMap {
    /// What was found.
    pub analysis: Analysis,
    /// The image, or the file that it was kept in.
    pub from: PathBuf,
    /// Whether it had been kept.
    pub was_kept: bool,
    /// What went wrong on the way, and does not matter for it.
    pub notes: Vec<String>,
}

/// Analyses an image, with a list of symbols if there is one.
pub fn map_image(
    image: &Path,
    symbols: Option<&Path>,
    question: &MapQuery,
) -> Result<KernelMap, KernelMapError> {
    refuse_unknown_parts(question)?;
    let bytes = read(image)?;
    let symbols = symbols.map(read).transpose()?;
    let subsystems = Subsystems::shipped();
    let input = Input {
        image: &bytes,
        symbols: symbols.as_deref(),
        btf: None,
        typed_functions,
        build_id: None,
        filter_functions: None,
        wanted: &question.calls,
        told_apart: &question.parts,
        subsystems: &subsystems,
    };
    let analysis = analyse(image, &input)?;
    Ok(KernelMap { analysis, from: image.to_owned(), was_kept: false, notes: Vec::new() })
}

/// The running kernel's analysis: what is kept of it, or a new one, which is kept then.
pub fn map_running(question: &MapQuery, fresh: bool) -> Result<KernelMap, KernelMapError> {
    // A wrong name is told before a missing image is: no image would help.
    refuse_unknown_parts(question)?;
    if let Some(calls) = sources::calls().filter(|_| !question.calls.is_empty()) {
        refuse_unknown("system call", &question.calls, &calls)?;
    }
    let running = RunningKernel::look()?;
    let mut notes = Vec::new();
    let cache = Cache::of(&running.build_id, question, running.filter_functions.is_some());
    if let Some(cache) = cache.as_ref().filter(|_| !fresh) {
        match cache.read() {
            Ok(Some(analysis)) => {
                return Ok(KernelMap {
                    analysis,
                    from: cache.path().to_owned(),
                    was_kept: true,
                    notes,
                });
            }
            Ok(None) => {}
            Err(error) => notes.push(format!("{error}; it is made again")),
        }
    }
    let (from, analysis) = analyse_running(&running, question)?;
    if let Some(cache) = &cache
        && let Err(error) = cache.write(&analysis)
    {
        notes.push(format!("the analysis is not kept: {error}"));
    }
    Ok(KernelMap { analysis, from, was_kept: false, notes })
}

fn analyse_running(
    running: &RunningKernel,
    question: &MapQuery,
) -> Result<(PathBuf, Analysis), KernelMapError> {
    let subsystems = Subsystems::shipped();
    let shown = running.shown();
    let mut tried = Vec::new();
    for candidate in sources::candidates(&running.release) {
        let bytes = match read(&candidate.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let said = error.to_string();
                let named = format!("{}: ", candidate.path.display());
                let why = said.strip_prefix(&named).unwrap_or(&said).to_string();
                tried.push((candidate.path, why));
                continue;
            }
        };
        let input = Input {
            image: &bytes,
            symbols: shown.symbols.as_deref().filter(|_| candidate.is_stripped),
            btf: shown.btf.as_deref(),
            typed_functions,
            build_id: Some(&running.build_id),
            filter_functions: shown.filter_functions.as_deref(),
            wanted: &question.calls,
            told_apart: &question.parts,
            subsystems: &subsystems,
        };
        match analyse(&candidate.path, &input) {
            Ok(analysis) => return Ok((candidate.path, analysis)),
            // What was asked for is wrong, not where it was looked for.
            Err(
                error @ KernelMapError::Analysis {
                    source: AnalysisError::NoCall(_) | AnalysisError::NoPart { .. },
                    ..
                },
            ) => return Err(error),
            Err(KernelMapError::Analysis { source, .. }) => {
                tried.push((candidate.path, source.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    let RunningKernel { release, build_id, .. } = running;
    Err(KernelMapError::NoImage(NoImage {
        release: release.clone(),
        build_id: build_id.clone(),
        tried,
    }))
}

fn typed_functions(btf: &[u8]) -> Result<HashSet<String>, String> {
    let types = Btf::new(btf.to_vec()).map_err(|error| error.to_string())?;
    Ok(types.functions().map(|(_, name)| name.to_string()).collect())
}

fn analyse(image: &Path, input: &Input) -> Result<Analysis, KernelMapError> {
    weigh_kernel::analyse(input)
        .map_err(|source| KernelMapError::Analysis { image: image.to_owned(), source })
}
