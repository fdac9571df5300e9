//! One walk through the watched directories.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, Statx, StatxFlags, fstat, openat, statx,
};
use rustix::io::Errno;

use super::progress::ScanPulse;
use super::{FileIdentity, FootprintError, Scan, open_error};

/// What identifies a file: device (major, minor) and inode.
type Identity = (u32, u32, u64);

/// Bytes of directory entries fetched at once.
const BATCH_BYTES: usize = 64 * 1024;
/// Characters of a path in a message.
const PATH_SHOWN: usize = 120;
/// Entries looked at between two looks at the interrupt flag: well below 1 ms.
const ENTRIES_PER_CHECK: usize = 64;
/// Opening and closing a directory takes as long as looking at so many entries.
const ENTRIES_PER_FOLDER: u64 = 4;
/// Of a directory with more entries than that as many again are expected as were read.
const MANY_ENTRIES: u64 = 1000;
/// The next directories are expected to be like so many that were read last.
const ENOUGH_FOLDERS: usize = 16;
/// As long as no more directories are to be read the next one is any of them, so that those that were read are like those
/// that were not. Of more it is the one found last, for their paths take room.
const MANY_FOLDERS: usize = 1000;
/// So many directories are read in the order of what is known to be in them.
const WIDEST_FIRST: u64 = 32;
/// A prime: multiples of it lie anywhere.
const SPREAD: usize = 2_654_435_761;
/// Before so many entries nothing is expected.
const ENOUGH_ENTRIES: u64 = 256;

impl FileIdentity {
    fn of_statx(&self) -> Identity {
        (rustix::fs::major(self.device), rustix::fs::minor(self.device), self.inode)
    }
}

/// ext2 to ext4, and tmpfs.
const KEEPING: [i64; 2] = [0xef53, 0x0102_1994];

struct Root {
    path: PathBuf,
    folder: OwnedFd,
    identity: Identity,
}

/// A directory that is to be read.
struct Pending {
    path: CString,
    /// So many are in it, by its links: at least, for some file systems do not count them.
    folders: u64,
}

/// The watched directories, kept open: what they are stays fixed when they are renamed.
pub struct Walker {
    roots: Vec<Root>,
    excluded: HashSet<Identity>,
    /// Seconds and nanoseconds since the Unix epoch: files born later are new.
    opened: (i64, u32),
}

impl Walker {
    /// Opens the directories; one that is named twice is kept once. Files and directories of
    /// `excluded` are left out with all that is in them, by device and inode.
    pub fn open(paths: &[PathBuf], excluded: &[FileIdentity]) -> Result<Walker, FootprintError> {
        let mut roots: Vec<Root> = Vec::new();
        for path in paths {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = rustix::fs::open(path, flags, Mode::empty())
                .map_err(|errno| open_error(path, errno))?;
            let stat = fstat(&folder).map_err(|errno| open_error(path, errno))?;
            let identity =
                (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev), stat.st_ino);
            if roots.iter().all(|r| r.identity != identity) {
                roots.push(Root { path: path.clone(), folder, identity });
            }
        }
        let excluded = excluded.iter().map(FileIdentity::of_statx).collect();
        roots.retain(|root| !HashSet::contains(&excluded, &root.identity));
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Ok(Walker { roots, excluded, opened: (now.tv_sec, now.tv_nsec as u32) })
    }

    /// Whether files keep their space on all the file systems until a call frees it.
    pub fn is_freed_by_calls(&self) -> bool {
        let is_so = |root: &Root| {
            rustix::fs::fstatfs(&root.folder).is_ok_and(|system| KEEPING.contains(&system.f_type))
        };
        self.roots.iter().all(is_so)
    }

    /// Walks through everything; `None` if it was interrupted meanwhile.
    pub fn scan(&self, pulse: &ScanPulse<'_>) -> Option<Scan> {
        let mut walk = Walk::new(self, pulse);
        for root in &self.roots {
            walk.tree(root)?;
        }
        Some(walk.scan)
    }
}

struct Walk<'a> {
    scan: Scan,
    /// Files with several names that were met already.
    linked: HashSet<Identity>,
    /// A watched directory inside another has its own walk.
    roots: HashSet<Identity>,
    walker: &'a Walker,
    pulse: &'a ScanPulse<'a>,
    done: WorkDone,
    buffer: Vec<MaybeUninit<u8>>,
}

/// What a scan has read so far.
#[derive(Clone, Copy, Default)]
struct WorkDone {
    /// Directories that were read to their end, but for watched ones, which are unlike those in them; and the entries of
    /// the last of them.
    folders: usize,
    last_entries: [u64; ENOUGH_FOLDERS],
    /// All directories and entries, those of the present one too.
    all_folders: u64,
    all_entries: u64,
    /// Directories that are to be read, and those that are known to be in them.
    folders_left: u64,
}

impl WorkDone {
    /// What is to be read yet, in parts of what was: directories, and the rest of one of which `read` entries were read.
    fn share_left(&self, read: u64) -> f64 {
        if self.all_entries < ENOUGH_ENTRIES {
            return 0.0;
        }
        let of_this = if read > MANY_ENTRIES { read } else { 0 };
        let of_each = self.usual_entries() + ENTRIES_PER_FOLDER;
        // Of links a file system may say anything.
        let left = of_this as f64 + self.folders_left as f64 * of_each as f64;
        left / (self.all_entries + self.all_folders * ENTRIES_PER_FOLDER) as f64
    }

    /// The median: one large directory says nothing of others.
    fn usual_entries(&self) -> u64 {
        if self.folders < ENOUGH_FOLDERS {
            return 0;
        }
        let mut entries = self.last_entries;
        entries.sort_unstable();
        entries[ENOUGH_FOLDERS / 2]
    }

    fn read_folder(&mut self, entries: u64) {
        self.last_entries[self.folders % ENOUGH_FOLDERS] = entries;
        self.folders += 1;
    }
}

impl<'a> Walk<'a> {
    fn new(walker: &'a Walker, pulse: &'a ScanPulse<'a>) -> Walk<'a> {
        Walk {
            scan: Scan::default(),
            linked: HashSet::new(),
            roots: walker.roots.iter().map(|root| root.identity).collect(),
            walker,
            pulse,
            done: WorkDone::default(),
            buffer: vec![MaybeUninit::uninit(); BATCH_BYTES],
        }
    }

    /// By paths from the root on: one descriptor at a time, however deep it is.
    fn tree(&mut self, root: &Root) -> Option<()> {
        let mut pending = Vec::new();
        self.put(&mut pending, CString::from(c"."), 0);
        while let Some(path) = self.take(&mut pending) {
            match open_below(root.folder.as_fd(), &path) {
                Ok(folder) => self.folder(root, &path, &folder, &mut pending)?,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => self.unreadable(root, &path, errno),
            }
        }
        Some(())
    }

    fn put(&mut self, pending: &mut Vec<Pending>, path: CString, folders: u64) {
        self.done.folders_left += 1 + folders;
        pending.push(Pending { path, folders });
    }

    fn take(&mut self, pending: &mut Vec<Pending>) -> Option<CString> {
        let place = self.widest(pending).unwrap_or_else(|| self.any(pending.len()));
        let taken = (place < pending.len()).then(|| pending.swap_remove(place))?;
        self.done.folders_left -= 1 + taken.folders;
        Some(taken.path)
    }

    /// Among the first ones, that of most directories: so it is known soon how many there are.
    fn widest(&self, pending: &[Pending]) -> Option<usize> {
        if self.done.all_folders >= WIDEST_FIRST {
            return None;
        }
        let wide = pending.iter().enumerate().filter(|(_, folder)| folder.folders > 0);
        wide.max_by_key(|(_, folder)| folder.folders).map(|(place, _)| place)
    }

    fn any(&self, pending: usize) -> usize {
        match pending {
            1..MANY_FOLDERS => (self.done.all_folders as usize).wrapping_mul(SPREAD) % pending,
            _ => pending.saturating_sub(1),
        }
    }

    fn folder(
        &mut self,
        root: &Root,
        path: &CStr,
        folder: &OwnedFd,
        pending: &mut Vec<Pending>,
    ) -> Option<()> {
        // Taken out so that `self` stays usable while entries are borrowed from it.
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut entries = RawDir::new(folder, &mut buffer);
        let mut seen = 0usize;
        let mut outcome = Some(());
        self.done.all_folders += 1;
        while let Some(entry) = entries.next() {
            let share_left = || self.done.share_left(seen as u64);
            if seen.is_multiple_of(ENTRIES_PER_CHECK) && !self.pulse.goes_on(share_left) {
                outcome = None;
                break;
            }
            seen += 1;
            self.done.all_entries += 1;
            match entry {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                Ok(entry) => self.entry(root, path, folder, entry.file_name(), pending),
                // The directory was removed while it was read.
                Err(Errno::NOENT) => break,
                Err(errno) => {
                    self.unreadable(root, path, errno);
                    break;
                }
            }
        }
        self.buffer = buffer;
        if path != c"." {
            self.done.read_folder(seen as u64);
        }
        outcome
    }

    fn entry(
        &mut self,
        root: &Root,
        path: &CStr,
        folder: &OwnedFd,
        name: &CStr,
        pending: &mut Vec<Pending>,
    ) {
        let wanted = StatxFlags::TYPE
            | StatxFlags::INO
            | StatxFlags::NLINK
            | StatxFlags::BLOCKS
            | StatxFlags::BTIME;
        // Network file systems answer from what they know: no call home per file.
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let stat = match statx(folder, name, flags, wanted) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return,
            Err(errno) => return self.unreadable(root, &join(path, name), errno),
        };
        let identity = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        let is_folder = FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::Directory;
        if self.walker.excluded.contains(&identity) {
            return;
        }
        if is_folder && (is_elsewhere(&stat, root) || self.roots.contains(&identity)) {
            return;
        }
        if !is_folder && stat.stx_nlink > 1 && !self.linked.insert(identity) {
            return;
        }
        self.scan.files += 1;
        self.scan.bytes += stat.stx_blocks * 512;
        if born_after(&stat, self.walker.opened) {
            self.scan.new_bytes += stat.stx_blocks * 512;
        }
        if is_folder {
            // One link from above, and its own; the others are of directories in it.
            self.put(pending, join(path, name), u64::from(stat.stx_nlink).saturating_sub(2));
        }
    }

    fn unreadable(&mut self, root: &Root, path: &CStr, errno: Errno) {
        self.scan.unreadable += 1;
        if self.scan.first_unreadable.is_none() {
            let path = root.path.join(path.to_string_lossy().as_ref());
            let path = shortened(&path.display().to_string());
            self.scan.first_unreadable = Some(format!("{path}: {}", std::io::Error::from(errno)));
        }
    }
}

/// Whether the file system says that a file was born later than that.
fn born_after(stat: &Statx, moment: (i64, u32)) -> bool {
    stat.stx_mask & StatxFlags::BTIME.bits() != 0
        && (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) > moment
}

/// A path of up to 4096 characters as a message can show it.
fn shortened(path: &str) -> String {
    let characters: Vec<char> = path.chars().collect();
    if characters.len() <= PATH_SHOWN {
        return path.to_owned();
    }
    let (head, tail) = (PATH_SHOWN * 2 / 3, PATH_SHOWN / 3);
    let text = |part: &[char]| part.iter().collect::<String>();
    format!("{}…{}", text(&characters[..head]), text(&characters[characters.len() - tail..]))
}

/// Whether a directory belongs to another mount than the root it was met under.
fn is_elsewhere(stat: &Statx, root: &Root) -> bool {
    const MOUNT_ROOT: u64 = libc::STATX_ATTR_MOUNT_ROOT as u64;
    stat.stx_attributes.bits() & MOUNT_ROOT != 0
        || (stat.stx_dev_major, stat.stx_dev_minor) != (root.identity.0, root.identity.1)
}

fn open_below(root: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY
        | OFlags::DIRECTORY
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOATIME
        | OFlags::CLOEXEC;
    match openat(root, path, flags, Mode::empty()) {
        // Only a file's owner may leave its access time alone.
        Err(Errno::PERM) => openat(root, path, flags - OFlags::NOATIME, Mode::empty()),
        other => other,
    }
}

fn join(folder: &CStr, name: &CStr) -> CString {
    let folder = folder.to_bytes();
    let mut path = Vec::with_capacity(folder.len() + 1 + name.count_bytes());
    if folder != b"." {
        path.extend_from_slice(folder);
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
    CString::new(path).expect("both parts were C strings")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::super::progress::ScanProgress;
    use super::*;

    #[test]
    fn what_is_left_is_judged_by_what_was_read() {
        let root = |entries, folders_left| WorkDone {
            all_folders: 1,
            all_entries: entries,
            folders_left,
            ..WorkDone::default()
        };
        assert_eq!(root(200, 150).share_left(200), 0.0, "too little is known");
        // A thousand files and twenty folders of which nothing is known.
        assert!(root(1020, 20).share_left(900) < 0.1);
        assert!(root(40_000, 0).share_left(40_000) > 0.9, "a flat directory without an end");
        let mut tree = WorkDone { all_folders: 17, ..root(16_500, 90) };
        tree.read_folder(8_000);
        assert!(tree.share_left(0) < 0.1, "one is not enough");
        (0..15).for_each(|_| tree.read_folder(540));
        let share = tree.share_left(0);
        assert!((2.8..3.1).contains(&share), "{share}: the large one says nothing of others");
        tree.folders_left = u64::MAX;
        assert!(tree.share_left(u64::MAX).is_finite());
    }
    /// Of a file system that counts them.
    #[test]
    fn directories_are_known_before_the_one_they_are_in_is_read() {
        let tree = tempfile::tempdir().expect("a folder");
        for n in 0..40 {
            let inner = tree.path().join(format!("wide/{n}"));
            std::fs::create_dir_all(inner).expect("a folder");
            std::fs::create_dir(tree.path().join(n.to_string())).expect("a folder");
        }
        let walker = Walker::open(&[tree.path().to_owned()], &[]).expect("a walker");
        let progress = ScanProgress::default();
        let pulse = progress.begin();
        let (root, mut walk, mut pending) =
            (&walker.roots[0], Walk::new(&walker, &pulse), Vec::new());
        walk.folder(
            root,
            c".",
            &open_below(root.folder.as_fd(), c".").expect("open"),
            &mut pending,
        );
        let links = std::fs::metadata(tree.path().join("wide")).expect("a folder").nlink();
        let known = links.saturating_sub(2);
        assert!(known == 0 || known == 40, "{links}");
        assert_eq!(walk.done.folders_left, 41 + known);
        if known > 0 {
            assert_eq!(walk.take(&mut pending).as_deref(), Some(c"wide"));
            assert_eq!((walk.done.folders_left, pending.len()), (40, 40));
        }
        while walk.take(&mut pending).is_some() {}
        assert_eq!(walk.done.folders_left, 0);
    }
}
