//! Analyses that are kept, one file for each kernel and question.
//!
//! Reads and writes `/var/cache/weigh/kernel` (root) or `$XDG_CACHE_HOME/weigh/kernel`. The first
//! line of a file says what it is and a sum of the rest, which is JSON. Refuses a file of another
//! user, one whose sum is another, one of another version or kernel: each is made again.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weigh_kernel::{Analysis, VERSION};

const HEAD: &str = "weigh-kernel-analysis";

/// The most that is read: the analysis of Debian's kernel takes 0.6 MB.
const LARGEST: u64 = 64 << 20;

/// Why what is kept is not used, or nothing could be kept.
#[derive(Debug, Error)]
pub enum CacheError {
    /// The file system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// Of which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not what was written there.
    #[error("{}: {what}", path.display())]
    Refused {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Where one analysis is kept.
pub struct Cache {
    path: PathBuf,
    build_id: String,
    question: MapQuery,
}

/// What is asked of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapQuery {
    /// The system calls to begin from; none: all.
    pub calls: Vec<String>,
    /// The parts to be told apart; none: all.
    pub parts: Vec<String>,
}

impl Cache {
    /// The place for a kernel and what is asked of it; none if there is no directory for such things.
    pub fn of(build_id: &str, question: &MapQuery, with_tracefs: bool) -> Option<Self> {
        Some(Self::below(&directory()?, build_id, question, with_tracefs))
    }

    fn below(directory: &Path, build_id: &str, question: &MapQuery, with_tracefs: bool) -> Self {
        let (calls, parts) = (question.calls.join(","), question.parts.join(","));
        let number = sum(format!("{VERSION} {with_tracefs} {calls} {parts}").as_bytes());
        let path = directory.join(format!("{build_id}-{number:016x}"));
        Self { path, build_id: build_id.to_string(), question: question.clone() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is kept, if anything is.
    pub fn read(&self) -> Result<Option<Analysis>, CacheError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        };
        let owner = file.metadata().map_err(|error| self.failed(error))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(self.refused("it is another user's"));
        }
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text).map_err(|error| self.failed(error))?;
        let (head, body) = text.split_once('\n').ok_or(self.refused("it is cut short"))?;
        if head != head_of(body) {
            return Err(self.refused("its content is not what was written"));
        }
        let analysis: Analysis =
            serde_json::from_str(body).map_err(|_| self.refused("it is no analysis"))?;
        let is_asked = analysis.version == VERSION
            && analysis.build_id.as_ref() == Some(&self.build_id)
            && analysis.wanted == self.question.calls
            && analysis.told_apart == self.question.parts;
        if is_asked { Ok(Some(analysis)) } else { Err(self.refused("it answers another question")) }
    }

    /// Keeps an analysis; a reader meanwhile sees the one before.
    pub fn write(&self, analysis: &Analysis) -> Result<(), CacheError> {
        let body = serde_json::to_string(analysis).map_err(|error| self.failed(error.into()))?;
        let text = format!("{}\n{body}", head_of(&body));
        let aside = self.path.with_extension(std::process::id().to_string());
        let write = || {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new("/")))?;
            let mut file = File::create(&aside)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&aside, &self.path)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&aside);
            self.failed(error)
        })
    }

    fn failed(&self, source: std::io::Error) -> CacheError {
        CacheError::Io { path: self.path.clone(), source }
    }

    fn refused(&self, what: &'static str) -> CacheError {
        CacheError::Refused { path: self.path.clone(), what }
    }
}

fn head_of(body: &str) -> String {
    format!("{HEAD} {VERSION} {:016x}", sum(body.as_bytes()))
}

/// FNV-1a: it tells what was damaged, not what was forged; the file's owner does that.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Root's is not taken from the environment, which may be that of the user who called sudo.
fn directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/var/cache/weigh/kernel".into());
    }
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("weigh/kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn analysis(build_id: &str) -> Analysis {
        let text = r#"{"version":1,"kernel":"k","build_id":"BUILD","symbols":"list","placed":{"by_debug":0,
            "by_name":0,"by_choice":0,"by_neighbours":0,"not":0},"code":{"functions":0,"instructions":0,
            "calls":0,"tail_jumps":0,"by_pointer":0},"wanted":[],"told_apart":[],"calls":{},"entries":0,"reached":0,"tables":0,
            "allowed_by":["code"],"subsystems":[]}"#;
        let mut analysis: Analysis =
            serde_json::from_str(&text.replace("BUILD", build_id)).expect("an analysis");
        analysis.version = VERSION;
        analysis
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache =
            Cache::below(&directory.path().join("below"), "abc", &MapQuery::default(), true);
        assert_eq!(cache.read().expect("nothing there is no error"), None);
        cache.write(&analysis("abc")).expect("writes");
        assert_eq!(cache.read().expect("reads"), Some(analysis("abc")));
        let files = fs::read_dir(directory.path().join("below")).expect("a directory").count();
        assert_eq!(files, 1, "nothing is left beside it");
        let question = MapQuery { calls: vec!["read".to_string()], ..MapQuery::default() };
        let other = Cache::below(&directory.path().join("below"), "abc", &question, true);
        assert_ne!(other.path(), cache.path(), "each question has its own");
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::below(directory.path(), "abc", &MapQuery::default(), true);
        cache.write(&analysis("abc")).expect("writes");
        let whole = fs::read(cache.path()).expect("reads");
        for at in [0, 25, 40, 60, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            fs::write(cache.path(), damaged).expect("writes");
            assert!(matches!(cache.read(), Err(CacheError::Refused { .. })), "byte {at}");
        }
        fs::write(cache.path(), &whole[..whole.len() - 9]).expect("writes");
        assert!(cache.read().is_err());
        fs::write(cache.path(), b"").expect("writes");
        assert!(cache.read().is_err());
    }

    #[test]
    fn an_answer_to_another_question_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::below(directory.path(), "abc", &MapQuery::default(), true);
        let mut old = analysis("abc");
        old.version += 1;
        for other in [analysis("def"), old] {
            cache.write(&other).expect("writes");
            let error = cache.read().expect_err("it is refused").to_string();
            assert!(error.contains("another question"), "{error}");
        }
    }
}
