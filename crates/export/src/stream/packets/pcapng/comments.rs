//! The comments of packets: `curl 4242/4243 cpu 1`, each made once.

use std::collections::HashMap;

use super::super::layout::Name;
use super::blocks::{COMMENT, option};

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

/// Those that were made.
#[derive(Default)]
pub struct Comments(HashMap<CommentKey, Box<[u8]>>);

impl Comments {
    /// An option, whole.
    pub fn option(&mut self, key: CommentKey) -> &[u8] {
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            self.0.clear();
        }
        self.0.entry(key).or_insert_with(|| {
            let CommentKey { tgid, tid, cpu, name } = key;
            let name = String::from_utf8_lossy(&name.text()).into_owned();
            let thread = if tid == tgid { String::new() } else { format!("/{tid}") };
            let mut made = Vec::new();
            option(&mut made, COMMENT, format!("{name} {tgid}{thread} cpu {cpu}").as_bytes());
            made.into()
        })
    }
}
