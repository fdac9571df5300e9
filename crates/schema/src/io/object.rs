//! What a descriptor can refer to.

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// A kind of object.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Object {
        /// A file with contents of its own.
        Regular = "regular",
        /// A directory.
        Directory = "directory",
        /// A pipe, named or not.
        Pipe = "pipe",
        /// A socket.
        Socket = "socket",
        /// A terminal, real or pseudo.
        Terminal = "terminal",
        /// A device of characters that is no terminal.
        Device = "device",
        /// A device of blocks.
        Disk = "disk",
        /// What has no place in a file system: epoll, eventfd, io_uring.
        Anonymous = "anonymous",
        /// Not known.
        #[default]
        Unknown = "unknown",
    }
}

const TYPE: u32 = 0o170_000;

impl Object {
    /// From the mode of an inode and, of a device, its number as the kernel keeps it.
    pub fn of_mode(mode: u32, device: u32) -> Object {
        match mode & TYPE {
            0o100_000 => Object::Regular,
            0o040_000 => Object::Directory,
            0o010_000 => Object::Pipe,
            0o140_000 => Object::Socket,
            0o060_000 => Object::Disk,
            // Consoles, serial lines, /dev/tty and its like, pseudo terminals.
            0o020_000 if matches!(device >> 20, 3..=5 | 128..=143 | 204) => Object::Terminal,
            0o020_000 => Object::Device,
            _ => Object::Anonymous,
        }
    }

    /// Whether who reads or writes it waits for somebody at the other end: time there is not the object's.
    pub const fn is_waited_at(self) -> bool {
        matches!(self, Object::Pipe | Object::Socket | Object::Terminal | Object::Anonymous)
    }
}

/// Which file: numbers of inodes are given again, so its generation belongs to it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct FileId {
    /// The file system's device, as the kernel has it.
    pub device: u32,
    /// The inode's generation.
    pub generation: u32,
    /// The inode's number.
    pub inode: u64,
}

#[cfg(test)]
mod tests {
    use super::Object;

    #[test]
    fn terminals_are_told_from_other_devices() {
        assert_eq!(Object::of_mode(0o020_620, 136 << 20), Object::Terminal);
        assert_eq!(Object::of_mode(0o020_666, 1 << 20 | 3), Object::Device);
        assert_eq!(Object::of_mode(0o100_644, 0), Object::Regular);
        assert_eq!(Object::of_mode(0o600, 0), Object::Anonymous);
    }
}
