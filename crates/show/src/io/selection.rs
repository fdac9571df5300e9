//! Which files have a row of their own: those of the job. System files, and pipes, sockets and terminals, are folded.
//!
//! Reads rows in any order; keeps those that took most time, and sums of the others.

use serde::{Deserialize, Serialize};
use weigh_schema::io::{FileUse, Object};

/// Folders of the system.
const FOLDERS: [&str; 11] = [
    "/usr/",
    "/lib/",
    "/lib32/",
    "/lib64/",
    "/bin/",
    "/sbin/",
    "/etc/",
    "/proc/",
    "/sys/",
    "/nix/store/",
    "/snap/",
];

/// Parts of paths that only libraries of languages have.
pub(super) const PARTS: [&str; 4] =
    ["/__pycache__/", "/lib/python3", "/site-packages", "/node_modules/"];

/// Rows are sorted out when there are so many times more than are wanted.
const SLACK: usize = 8;

/// Where a row stands: its own, or in one line with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// A row of its own.
    #[default]
    Own,
    /// With files of the system, libraries and bytecode.
    System,
    /// With pipes, sockets and terminals.
    Waited,
}

impl Fold {
    /// Of a file, as far as it is known what was done with it.
    pub(crate) fn of_use(file: &FileUse) -> Fold {
        match file {
            _ if file.object.is_waited_at() && !has_own_name(file) => Fold::Waited,
            _ if is_system(file) => Fold::System,
            _ => Fold::Own,
        }
    }
}

/// Rows that stand in one line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Folded {
    /// How many.
    pub uses: u64,
    /// Time in their calls.
    pub seconds: f64,
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Calls that read and write.
    pub calls: [u64; 2],
}

impl Folded {
    pub(super) fn add(&mut self, file: &FileUse) {
        let by = &file.totals.by_calls;
        self.uses += 1;
        self.seconds += file.totals.seconds();
        self.bytes[0] += by.read_bytes;
        self.bytes[1] += by.written_bytes;
        self.calls[0] += by.read_calls;
        self.calls[1] += by.write_calls;
    }
}

/// How much of a table is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many lines in all.
    Lines(usize),
    /// So many rows, and all that is below them.
    Rows(usize),
    /// So many rows, of whatever files.
    All(usize),
}

impl Extent {
    /// The most rows.
    pub fn rows(self) -> usize {
        match self {
            Extent::Lines(lines) => lines / 3,
            Extent::Rows(rows) | Extent::All(rows) => rows,
        }
    }
}

/// The rows of a table.
#[derive(Clone, Debug)]
pub struct Selection {
    pub(super) extent: Extent,
    /// Those with a row, most time first, when all have been added.
    pub files: Vec<FileUse>,
    /// How many there are of these.
    pub total: u64,
    /// Files of the system, libraries and bytecode.
    pub system: Folded,
    /// Pipes, sockets and terminals.
    pub waited: Folded,
    /// Time at pipes, sockets and terminals, folded or not.
    pub waited_seconds: f64,
}

impl Selection {
    /// Nothing yet.
    pub fn new(extent: Extent) -> Selection {
        Selection {
            extent,
            files: Vec::new(),
            total: 0,
            system: Folded::default(),
            waited: Folded::default(),
            waited_seconds: 0.0,
        }
    }

    /// Of these.
    pub fn of(extent: Extent, files: impl IntoIterator<Item = FileUse>) -> Selection {
        let mut selection = Selection::new(extent);
        files.into_iter().for_each(|file| selection.add(file));
        selection.finish()
    }

    /// How much of the table is wanted.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Adds a row.
    pub fn add(&mut self, file: FileUse) {
        let is_waited_at = file.object.is_waited_at();
        if is_waited_at {
            self.waited_seconds += file.totals.seconds();
        }
        let is_folding = !matches!(self.extent, Extent::All(_));
        match if is_folding { Fold::of_use(&file) } else { Fold::Own } {
            Fold::Waited => self.waited.add(&file),
            Fold::System => self.system.add(&file),
            Fold::Own => self.push(file),
        }
    }

    pub(super) fn push(&mut self, file: FileUse) {
        self.total += 1;
        self.files.push(file);
        if self.files.len() > self.extent.rows().saturating_mul(SLACK).saturating_add(SLACK) {
            self.sort_out();
        }
    }

    /// All have been added.
    pub fn finish(mut self) -> Selection {
        self.sort_out();
        self
    }

    fn sort_out(&mut self) {
        self.files.sort_by(FileUse::by_time);
        self.files.truncate(self.extent.rows());
    }
}

/// Whether it can be known again by its name: a connection, or a pipe in a folder.
fn has_own_name(file: &FileUse) -> bool {
    match file.object {
        Object::Socket => file.name.contains(" -> "),
        Object::Pipe => file.name.starts_with('/'),
        _ => false,
    }
}

/// Whether it is a file that programs read whatever they do.
fn is_system(file: &FileUse) -> bool {
    match file.object {
        Object::Terminal | Object::Device => true,
        Object::Disk => false,
        _ => file.totals.by_calls.written_bytes == 0 && is_system_path(&file.name),
    }
}

fn is_system_path(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    FOLDERS.iter().any(|folder| name.starts_with(folder))
        || PARTS.iter().any(|part| name.contains(part))
        || name.starts_with("/dev/") && !name.starts_with("/dev/shm/")
        || last.ends_with(".pyc")
        || last.ends_with(".so")
        || last.contains(".so.")
        || last.ends_with(".pyo")
}

/// What a table is made of beside the report's sums.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The rows.
    pub files: &'a Selection,
    /// What else is known of each stands below its line.
    pub details: bool,
    /// The job's directory: paths below it are shown from there.
    pub folder: Option<&'a str>,
}

/// A path from the folder on, if it is below it.
pub(super) fn below<'a>(path: &'a str, folder: Option<&str>) -> &'a str {
    let inside =
        folder.filter(|folder| *folder != "/").and_then(|folder| path.strip_prefix(folder));
    inside.and_then(|rest| rest.strip_prefix('/')).filter(|rest| !rest.is_empty()).unwrap_or(path)
}
