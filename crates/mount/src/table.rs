//! The files that the kernel knows, and how many of them are held.
//!
//! A descriptor (`O_PATH`) keeps a file's inode, and so its number, from being given to another file. So the
//! number of the file below is the number above. But the kernel may remember more files than there are
//! descriptors to have: where there are many it is asked to forget those that nobody uses
//! ([`crate::forgetting`]), and what it does not forget has its descriptor closed. Such a file is referred to
//! again by the name that it was last found by; if that means another file by now the answer is ESTALE, upon
//! which the kernel looks its path up anew.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::FileAttr;
use rustix::fs::{Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat2};
use rustix::io::Errno;
use weigh_schema::io::FileId;

use crate::inodes::{Inode, ROOT, attributes, file_id, object, stat};

/// Files whose own number is taken, as in a subvolume, have one from here on.
const OTHERS: u64 = 1 << 63;
/// The most files that are held by a descriptor each, unless more are open: some 20 MiB here, and some 100 MiB
/// of the kernel's for what they refer to.
const MOST: usize = 65_536;
/// So deep a file is referred to again by names. Deeper ones are looked up anew by the kernel.
const DEEPEST: u32 = 64;

/// By what name a file was found.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryName<'a> {
    /// In which directory.
    pub parent: &'a Inode,
    /// What it is called there.
    pub name: &'a OsStr,
}

/// All files that the kernel knows.
#[derive(Debug)]
pub struct Inodes {
    known: Mutex<InodeIndex>,
    most: AtomicUsize,
    /// Whether a file that is referred to by name again can be told from one that was given its number.
    can_reopen: bool,
    crowded: SyncSender<()>,
    is_asked: AtomicBool,
}

#[derive(Debug, Default)]
struct InodeIndex {
    by_node: HashMap<u64, Entry>,
    by_file: HashMap<(u32, u64), u64>,
    /// Those that can be given up, the one first that was told of the longest ago.
    order: BTreeMap<u64, u64>,
    turn: u64,
    held: usize,
    device: u32,
    others: u64,
}

#[derive(Debug)]
struct Entry {
    /// It, while there is a descriptor of it.
    inode: Option<Arc<Inode>>,
    file: FileId,
    /// How often the kernel was told of it.
    told: u64,
    turn: u64,
    parent: u64,
    name: OsString,
}

/// A descriptor that refers to what a name in a directory means, whatever that is. What is mounted there is
/// of another file system, whose numbers would be mixed up with this one's.
pub fn refer(parent: &Inode, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(&parent.fd, name, flags, Mode::empty(), ResolveFlags::NO_XDEV)
}

impl Inodes {
    /// Nothing but the folder. What comes with it tells each time that there are too many.
    pub fn new(root: OwnedFd) -> Result<(Inodes, Receiver<()>), Errno> {
        let stat = stat(&root)?;
        let can_reopen = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let mut known = InodeIndex { device: file_id(&stat).device, ..InodeIndex::default() };
        known.add(ROOT, root, &stat, None);
        let (crowded, crowd) = sync_channel(1);
        let inodes = Inodes {
            known: Mutex::new(known),
            most: AtomicUsize::new(MOST),
            can_reopen,
            crowded,
            is_asked: AtomicBool::new(false),
        };
        Ok((inodes, crowd))
    }

    fn known(&self) -> MutexGuard<'_, InodeIndex> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There may be so many descriptors: half of them are for what is open.
    pub fn fit(&self, descriptors: u64) {
        let half = usize::try_from(descriptors / 2).unwrap_or(MOST);
        self.most.store(half.clamp(1, MOST), Ordering::Relaxed);
    }

    /// A file that the kernel names.
    pub fn get(&self, node: u64) -> Result<Arc<Inode>, Errno> {
        self.within(node, DEEPEST)
    }

    fn within(&self, node: u64, depth: u32) -> Result<Arc<Inode>, Errno> {
        let (parent, name, file) = {
            let known = self.known();
            let entry = known.by_node.get(&node).ok_or(Errno::STALE)?;
            match &entry.inode {
                Some(inode) => return Ok(Arc::clone(inode)),
                None => (entry.parent, entry.name.clone(), entry.file),
            }
        };
        let parent = self.within(parent, depth.checked_sub(1).ok_or(Errno::STALE)?)?;
        let fd = refer(&parent, &name).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => Errno::STALE,
            other => other,
        })?;
        let stat = stat(&fd)?;
        if file_id(&stat) != file {
            return Err(Errno::STALE);
        }
        let mut known = self.known();
        let inode = known.hold(node, fd, &stat).ok_or(Errno::STALE)?;
        self.give_up(known);
        Ok(inode)
    }

    /// A file that the kernel is told of now: once more than before.
    pub fn told(
        &self,
        fd: OwnedFd,
        at: DirectoryName<'_>,
    ) -> Result<(Arc<Inode>, FileAttr), Errno> {
        let stat = stat(&fd)?;
        let file = file_id(&stat);
        let mut known = self.known();
        let node = match known.node_of(file) {
            Some(node) => node,
            None => known.free_number(file),
        };
        let inode = match known.told_again(node, at) {
            true => known.hold(node, fd, &stat).ok_or(Errno::STALE)?,
            false => known.add(node, fd, &stat, Some(at)),
        };
        self.give_up(known);
        Ok((inode, attributes(node, &stat)))
    }

    /// A file has another name than before.
    pub fn renamed(&self, fd: OwnedFd, at: DirectoryName<'_>) {
        let Ok(stat) = stat(&fd) else { return };
        let mut known = self.known();
        if let Some(node) = known.node_of(file_id(&stat))
            && let Some(entry) = known.by_node.get_mut(&node)
        {
            entry.found(at);
        }
    }

    /// Where there are too many, the kernel is asked to forget some; where it does not, the descriptors of
    /// those that nobody uses are closed.
    fn give_up(&self, mut known: MutexGuard<'_, InodeIndex>) {
        let most = self.most.load(Ordering::Relaxed);
        if known.by_node.len() > self.many() && !self.is_asked.swap(true, Ordering::Relaxed) {
            // It may be told already, or nobody listens: the kernel may not be able to.
            let _ = self.crowded.try_send(());
        }
        let given_up = match self.can_reopen {
            true => known.let_go(most),
            false => Vec::new(),
        };
        // They are closed now, which can take its time.
        drop(known);
        drop(given_up);
    }

    /// More than this are too many to be remembered.
    fn many(&self) -> usize {
        self.most.load(Ordering::Relaxed) / 4 * 3
    }

    /// Those that the kernel should forget, at most so many: the ones that it was told of the longest ago.
    /// None once there is room enough again.
    pub fn forgettable(&self, most: usize) -> Vec<u64> {
        let mut known = self.known();
        let too_many = known.by_node.len().saturating_sub(self.many() / 3 * 2);
        if too_many == 0 {
            self.is_asked.store(false, Ordering::Relaxed);
        }
        known.oldest(too_many.min(most))
    }

    /// How many the kernel knows.
    pub fn count(&self) -> usize {
        self.known().by_node.len()
    }

    /// The kernel cannot be asked to forget any.
    pub fn is_never_forgotten(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// The kernel forgets that it was told so often.
    pub fn forget(&self, node: u64, times: u64) {
        let mut known = self.known();
        let Some(entry) = known.by_node.get_mut(&node) else { return };
        entry.told = entry.told.saturating_sub(times);
        if entry.told > 0 || node == ROOT {
            return;
        }
        let gone = known.remove(node);
        // It may be closed, which can take its time.
        drop(known);
        drop(gone);
    }
}

impl Entry {
    fn found(&mut self, at: DirectoryName<'_>) {
        self.parent = at.parent.node;
        if self.name != at.name {
            self.name = at.name.to_owned();
        }
    }
}

impl InodeIndex {
    /// What the kernel calls a file. One that is held is the same by its number alone; another may have been given
    /// the number of one that is not.
    fn node_of(&self, file: FileId) -> Option<u64> {
        let node = self.by_file.get(&number(file))?;
        let entry = self.by_node.get(node)?;
        (entry.inode.is_some() || entry.file == file).then_some(*node)
    }

    fn free_number(&mut self, file: FileId) -> u64 {
        let own = file.inode;
        if file.device == self.device && own > ROOT && !self.by_node.contains_key(&own) {
            return own;
        }
        self.others += 1;
        OTHERS | self.others
    }

    fn next_turn(&mut self, node: u64, former: Option<u64>) -> u64 {
        if let Some(former) = former {
            self.order.remove(&former);
        }
        self.turn += 1;
        self.order.insert(self.turn, node);
        self.turn
    }

    fn add(
        &mut self,
        node: u64,
        fd: OwnedFd,
        stat: &Statx,
        at: Option<DirectoryName<'_>>,
    ) -> Arc<Inode> {
        let inode = made(node, fd, stat);
        let turn = match at {
            Some(_) => self.next_turn(node, None),
            // The folder itself is never given up.
            None => 0,
        };
        let entry = Entry {
            inode: Some(Arc::clone(&inode)),
            file: inode.file,
            told: 1,
            turn,
            parent: at.map_or(ROOT, |at| at.parent.node),
            name: at.map_or_else(OsString::new, |at| at.name.to_owned()),
        };
        self.by_file.insert(number(entry.file), node);
        self.by_node.insert(node, entry);
        self.held += 1;
        inode
    }

    /// Whether it is known already.
    fn told_again(&mut self, node: u64, at: DirectoryName<'_>) -> bool {
        let Some(former) = self.by_node.get(&node).map(|entry| entry.turn) else { return false };
        let turn = if node == ROOT { former } else { self.next_turn(node, Some(former)) };
        if let Some(entry) = self.by_node.get_mut(&node) {
            entry.told += 1;
            entry.turn = turn;
            entry.found(at);
        }
        true
    }

    /// The file of a number, by what refers to it already, or by this.
    fn hold(&mut self, node: u64, fd: OwnedFd, stat: &Statx) -> Option<Arc<Inode>> {
        let entry = self.by_node.get_mut(&node)?;
        if let Some(inode) = &entry.inode {
            return Some(Arc::clone(inode));
        }
        let inode = made(node, fd, stat);
        entry.inode = Some(Arc::clone(&inode));
        self.held += 1;
        let former = entry.turn;
        let turn = self.next_turn(node, Some(former));
        if let Some(entry) = self.by_node.get_mut(&node) {
            entry.turn = turn;
        }
        Some(inode)
    }

    /// The oldest ones; they are the youngest now.
    fn oldest(&mut self, most: usize) -> Vec<u64> {
        let mut oldest = Vec::with_capacity(most);
        while oldest.len() < most
            && let Some((turn, node)) = self.order.pop_first()
        {
            oldest.push((turn, node));
        }
        for (_, node) in &oldest {
            let turn = self.next_turn(*node, None);
            if let Some(entry) = self.by_node.get_mut(node) {
                entry.turn = turn;
            }
        }
        oldest.into_iter().map(|(_, node)| node).collect()
    }

    /// Gives up descriptors until there are no more than this, or all have been looked at: a request that has a file
    /// open, or is about to, holds it.
    fn let_go(&mut self, most: usize) -> Vec<Arc<Inode>> {
        /// So many are looked at each time.
        const LOOKS: usize = 8;
        let mut given_up = Vec::new();
        for _ in 0..LOOKS {
            if self.held <= most {
                break;
            }
            let Some(node) = self.oldest(1).pop() else { break };
            let Some(entry) = self.by_node.get_mut(&node) else { continue };
            if entry.inode.as_ref().is_some_and(|inode| Arc::strong_count(inode) == 1) {
                given_up.extend(entry.inode.take());
                self.held -= 1;
            }
        }
        given_up
    }

    fn remove(&mut self, node: u64) -> Option<Entry> {
        let gone = self.by_node.remove(&node)?;
        self.order.remove(&gone.turn);
        if self.by_file.get(&number(gone.file)) == Some(&node) {
            self.by_file.remove(&number(gone.file));
        }
        self.held -= usize::from(gone.inode.is_some());
        Some(gone)
    }
}

fn number(file: FileId) -> (u32, u64) {
    (file.device, file.inode)
}

fn made(node: u64, fd: OwnedFd, stat: &Statx) -> Arc<Inode> {
    let (file, object) = (file_id(stat), object(stat));
    Arc::new(Inode { node, fd, file, object, open: Mutex::default() })
}

#[cfg(test)]
mod tests;
