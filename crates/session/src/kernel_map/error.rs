//! Files that are read whole, and why there is no map of a kernel.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weigh_kernel::AnalysisError;

/// The most that is read of a file: Debian's -dbg images have 590 MB.
const LARGEST_FILE: u64 = 4 << 30;

/// Why there is no analysis.
#[derive(Debug, Error)]
pub enum KernelMapError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is larger than any that is expected there.
    #[error("{}: larger than {LARGEST_FILE} bytes, the most that is read of an image or a list", .0.display())]
    TooLarge(PathBuf),
    /// What is in the files is not what was expected.
    #[error("{}: {source}", image.display())]
    Analysis {
        /// The image.
        image: PathBuf,
        /// What is wrong.
        source: AnalysisError,
    },
    /// The running kernel does not say which it is.
    #[error("{}: it holds no build id, by which an image could be known to be this kernel's", .0.display())]
    NoBuildId(PathBuf),
    /// A name that nothing has.
    #[error("{0}")]
    NoSuchName(NoSuchName),
    /// The running kernel's image is nowhere.
    #[error("{0}")]
    NoImage(NoImage),
}

/// Where the running kernel's image was looked for.
#[derive(Debug)]
pub struct NoImage {
    pub(super) release: String,
    pub(super) build_id: String,
    pub(super) tried: Vec<(PathBuf, String)>,
}

impl std::fmt::Display for NoImage {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { release, build_id, tried } = self;
        writeln!(f, "there is no image of the running kernel, {release} (build id {build_id}):")?;
        for (path, why) in tried {
            writeln!(f, "  {}: {why}", path.display())?;
        }
        write!(
            f,
            "Its package (Debian: linux-image-{release}, or the same with -dbg) brings one; --image FILE \
             analyses another."
        )
    }
}

/// A name that nothing has, and those that are like it.
#[derive(Debug)]
pub struct NoSuchName {
    pub(super) what: &'static str,
    pub(super) name: String,
    pub(super) near: Vec<String>,
}

impl std::fmt::Display for NoSuchName {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { what, name, near } = self;
        write!(f, "this kernel has no {what} {name:?}")?;
        if near.is_empty() { Ok(()) } else { write!(f, "; did you mean {}?", near.join(" or ")) }
    }
}

pub(super) fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, KernelMapError> {
    let path = path.as_ref();
    let failed = |source| KernelMapError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(KernelMapError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}
