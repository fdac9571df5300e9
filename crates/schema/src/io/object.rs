//! What a descriptor can refer to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// A file with contents of its own.
    Regular,
    /// A directory.
    Directory,
    /// A pipe, named or not.
    Pipe,
    /// A socket.
    Socket,
    /// A terminal, real or pseudo.
    Terminal,
    /// A device of characters that is no terminal.
    Device,
    /// A device of blocks.
    Disk,
    /// What has no place in a file system: epoll, eventfd, io_uring.
    Anonymous,
    /// Not known.
    #[default]
    Unknown,
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

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Object::Regular => "regular",
            Object::Directory => "directory",
            Object::Pipe => "pipe",
            Object::Socket => "socket",
            Object::Terminal => "terminal",
            Object::Device => "device",
            Object::Disk => "disk",
            Object::Anonymous => "anonymous",
            Object::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
