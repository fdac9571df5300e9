//! Asks the kernel to forget files that nobody uses, where it remembers too many.
//!
//! Linux 6.18 and later (FUSE 7.45) let go of names and inodes that nobody refers to when they are told to
//! (`FUSE_NOTIFY_PRUNE`), and take no lock for it. An older kernel could be told that a name is no longer true;
//! but it waits then for a thread that does something in that directory, which waits for weigh, and if weigh is
//! killed meanwhile nobody ever goes on. So there it is left to the kernel what to remember.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::io::Errno;

use crate::table::Inodes;

/// `FUSE_NOTIFY_PRUNE`: fuser has no name for it.
const PRUNE: i32 = 9;
/// So many are named at once.
const BATCH: usize = 512;
/// So long the kernel may take to say what it has forgotten, before it is asked for more.
const ANSWER: Duration = Duration::from_millis(1);
/// So long it is left in peace when all that it knows seems to be in use.
const REST: Duration = Duration::from_millis(200);

/// Waits until there are too many, for as long as there is a mount.
pub fn run(inodes: &Weak<Inodes>, kernel: &OwnedFd, crowd: &Receiver<()>) {
    while crowd.recv().is_ok() {
        let Some(inodes) = inodes.upgrade() else { return };
        if forget_some(&inodes, kernel).is_err() {
            inodes.is_never_forgotten();
            return;
        }
    }
}

/// Until there is room, or the kernel cannot forget, or is not there any more.
fn forget_some(inodes: &Arc<Inodes>, kernel: &OwnedFd) -> Result<(), Errno> {
    let mut asked = 0;
    loop {
        let batch = inodes.forgettable(BATCH);
        if batch.is_empty() {
            return Ok(());
        }
        rustix::io::write(kernel, &message(&batch))?;
        asked += batch.len();
        std::thread::sleep(ANSWER);
        if asked >= inodes.count() {
            asked = 0;
            std::thread::sleep(REST);
        }
    }
}

/// As the kernel wants it: its length, what it is, to no request; then how many, and which.
fn message(nodes: &[u64]) -> Vec<u8> {
    let length = 32 + 8 * nodes.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(PRUNE.to_ne_bytes());
    message.extend(0_u64.to_ne_bytes());
    message.extend((nodes.len() as u32).to_ne_bytes());
    message.extend([0; 12]);
    nodes.iter().for_each(|node| message.extend(node.to_ne_bytes()));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_long_as_it_says() {
        let message = message(&[7, 8, 9]);
        assert_eq!(message.len(), 16 + 16 + 3 * 8);
        assert_eq!(message[..4], 56_u32.to_ne_bytes());
        assert_eq!(message[16..20], 3_u32.to_ne_bytes());
        assert_eq!(message[48..], 9_u64.to_ne_bytes());
    }
}
