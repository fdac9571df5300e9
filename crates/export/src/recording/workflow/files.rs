//! Which file is which. Names do not tell: one is given to several files in turn, has another meaning in another mount
//! namespace, or had bytes that are no text.
//!
//! Reads rows of files and processes; emits keys, and a name for each that no other one has.

use std::collections::{BTreeMap, BTreeSet};

use weigh_schema::io::FileUse;

/// One file, whatever it was called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileKey {
    device: u32,
    inode: u64,
    generation: Option<u32>,
    /// In recordings without generations, names are all that tells two files apart that had one inode in turn.
    name: Option<String>,
}

impl FileKey {
    /// Of the file in this row.
    pub fn of(used: &FileUse) -> FileKey {
        let FileUse { device, inode, generation, .. } = *used;
        let name = generation.is_none().then(|| used.name.clone());
        FileKey { device, inode, generation, name }
    }
}

/// A file, and where its last byte lay that was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataFile {
    /// The last path by which it was known.
    pub path: String,
    /// Behind its last byte that was used.
    pub size: u64,
}

/// A name for each file that no other one has: its path, and behind it a number where another file has that.
pub fn unique_names<'a>(
    files: impl Iterator<Item = (&'a FileKey, &'a DataFile)>,
    write: impl Fn(&str, Option<usize>) -> String,
) -> BTreeMap<&'a FileKey, String> {
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    for (key, file) in files {
        let numbered = (2..).map(|number| write(&file.path, Some(number)));
        let candidates = std::iter::once(write(&file.path, None)).chain(numbered);
        // There are more candidates than files.
        let free = candidates.into_iter().find(|name| taken.insert(name.clone()));
        names.insert(key, free.unwrap_or_default());
    }
    names
}
