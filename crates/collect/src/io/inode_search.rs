//! Where an inode has a name: in one folder, or anywhere on a file system that is small enough to be looked through.
//!
//! Reads folders; emits paths. Says that an inode has no name only where all folders of the file system could be
//! read: never of one that is larger, of which a part alone is mounted, or where a folder is closed to this user.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::procfs::Mount;

/// Entries that are looked through of a folder.
const OF_FOLDER: usize = 4_000;
/// Entries that are looked through of a file system: some 20 ms.
const OF_FILE_SYSTEM: usize = 20_000;

/// Types of file systems whose files are found by the numbers that programs are told: no layer gives them others.
const PLAIN: [&str; 2] = ["tmpfs", "ramfs"];

/// What was found of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InodeName {
    /// A name.
    At(PathBuf),
    /// It has none.
    Nowhere,
    /// Nobody knows.
    Unknown,
}

/// The names of a file system's inodes.
struct Index {
    names: HashMap<u64, PathBuf>,
    is_whole: bool,
}

/// Searches; what was looked through once is kept.
#[derive(Default)]
pub struct InodeSearch {
    indexes: RefCell<HashMap<PathBuf, Rc<Index>>>,
    folders: RefCell<HashMap<PathBuf, Rc<Index>>>,
}

impl InodeSearch {
    /// Looks in the folder where it had a name, then on the whole file system, which is mounted like this.
    pub fn find(&self, inode: u64, folder: &Path, mount: &Mount) -> InodeName {
        let own = cached(&self.folders, folder, || Index::of_folder(folder));
        if let Some(path) = own.names.get(&inode) {
            return InodeName::At(path.clone());
        }
        if !PLAIN.contains(&mount.kind.as_str()) {
            return InodeName::Unknown;
        }
        let all = cached(&self.indexes, &mount.point, || Index::of_file_system(&mount.point));
        match all.names.get(&inode) {
            Some(path) => InodeName::At(path.clone()),
            None if all.is_whole && mount.root == Path::new("/") => InodeName::Nowhere,
            None => InodeName::Unknown,
        }
    }
}

fn cached(
    kept: &RefCell<HashMap<PathBuf, Rc<Index>>>,
    path: &Path,
    make: impl FnOnce() -> Index,
) -> Rc<Index> {
    Rc::clone(kept.borrow_mut().entry(path.to_path_buf()).or_insert_with(|| Rc::new(make())))
}

impl Index {
    fn of_folder(folder: &Path) -> Index {
        let mut index = Index { names: HashMap::new(), is_whole: true };
        index.take_in(folder, OF_FOLDER);
        index
    }

    fn of_file_system(root: &Path) -> Index {
        let mut index = Index { names: HashMap::new(), is_whole: true };
        let device = root.symlink_metadata().ok().map(|about| about.dev());
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop().filter(|_| index.is_whole) {
            let about = folder.symlink_metadata().ok();
            index.is_whole &= about.is_some();
            // Another file system is mounted there.
            if about.is_some_and(|about| Some(about.dev()) == device) {
                folders.extend(index.take_in(&folder, OF_FILE_SYSTEM));
            }
        }
        index
    }

    /// The entries of a folder, until there are so many in all; returns the folders among them.
    fn take_in(&mut self, folder: &Path, most: usize) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let Ok(entries) = std::fs::read_dir(folder) else {
            self.is_whole = false;
            return folders;
        };
        for entry in entries {
            let Some(entry) = entry.ok().filter(|_| self.names.len() < most) else {
                self.is_whole = false;
                break;
            };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            self.names.insert(entry.ino(), entry.path());
        }
        folders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(point: &Path, kind: &str, root: &str) -> Mount {
        let (point, root) = (point.to_path_buf(), PathBuf::from(root));
        Mount { device: (0, 1), root, point, kind: kind.into(), options: String::new() }
    }

    #[test]
    fn an_inode_is_nowhere_only_where_all_could_be_read() {
        let all = tempfile::tempdir().unwrap();
        let [here, there] = ["here", "there"].map(|name| all.path().join(name));
        [&here, &there].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let (file, moved) = (here.join("file"), there.join("moved"));
        std::fs::write(&file, "x").unwrap();
        // Open: its number is given to no other file.
        let open = std::fs::File::open(&file).unwrap();
        let inode = open.metadata().unwrap().ino();
        let find = |mount: &Mount| InodeSearch::default().find(inode, &here, mount);
        let [small, other, part] = [("tmpfs", "/"), ("ext4", "/"), ("tmpfs", "/a")]
            .map(|(kind, root)| mounted(all.path(), kind, root));
        assert_eq!(find(&small), InodeName::At(file.clone()));
        std::fs::rename(&file, here.join("renamed")).unwrap();
        assert_eq!(find(&other), InodeName::At(here.join("renamed")), "in its own folder");
        std::fs::rename(here.join("renamed"), &moved).unwrap();
        assert_eq!(
            [find(&small), find(&other)],
            [InodeName::At(moved.clone()), InodeName::Unknown]
        );
        std::fs::remove_file(&moved).unwrap();
        let found = [find(&small), find(&other), find(&part)];
        assert_eq!(found, [InodeName::Nowhere, InodeName::Unknown, InodeName::Unknown]);
        // As many that nobody knows what else there is.
        for number in 0..=OF_FILE_SYSTEM {
            std::fs::File::create(there.join(number.to_string())).unwrap();
        }
        assert_eq!(find(&small), InodeName::Unknown);
    }
}
