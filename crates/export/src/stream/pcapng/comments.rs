//! The comments of packets: `curl 4242/4243 cpu 1`, each made once.

use std::collections::HashMap;

use super::blocks::{COMMENT, option};
use super::layout::Name;

/// Threads whose comments are kept.
const MOST: usize = 4096;

/// What a comment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommentKey {
    /// The process.
    pub tgid: u32,
    /// The thread.
    pub tid: u32,
    /// The CPU.
    pub cpu: u32,
    /// The thread's name.
    pub name: Name,
}

/// What stands behind packets: a comment, if there is one, the flags, and the end.
pub struct Trailers {
    /// The flags of packets, and the end of options.
    flags: [u8; 12],
    made: HashMap<CommentKey, Box<[u8]>>,
    /// The last one mostly is the next one's, too.
    last: (Option<CommentKey>, Vec<u8>),
}

impl Trailers {
    /// Of packets with these flags.
    pub fn new(flags: [u8; 12]) -> Trailers {
        Trailers { flags, made: HashMap::new(), last: (None, flags.to_vec()) }
    }

    /// That of a packet.
    pub fn find(&mut self, key: Option<CommentKey>) -> &[u8] {
        if self.last.0 != key {
            let flags = self.flags;
            let comment = key.map_or(&[][..], |key| self.comment(key));
            let trailer = [comment, &flags].concat();
            self.last = (key, trailer);
        }
        &self.last.1
    }

    /// An option, whole.
    fn comment(&mut self, key: CommentKey) -> &[u8] {
        if self.made.len() >= MOST && !self.made.contains_key(&key) {
            self.made.clear();
        }
        self.made.entry(key).or_insert_with(|| {
            let CommentKey { tgid, tid, cpu, name } = key;
            let name = String::from_utf8_lossy(&name.text()).into_owned();
            let thread = if tid == tgid { String::new() } else { format!("/{tid}") };
            let mut made = Vec::new();
            option(&mut made, COMMENT, format!("{name} {tgid}{thread} cpu {cpu}").as_bytes());
            made.into()
        })
    }
}
