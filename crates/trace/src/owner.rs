//! Events that an ordinary user may see: those of the user's own threads, unless they have gained privileges.
//!
//! Reads the kernel's types; emits where a thread's credentials lie in them. The rule is the one by which the
//! kernel lets somebody look into a process (ptrace): all user IDs and group IDs are the user's, there are
//! no capabilities, and the process has not been closed to others (PR_SET_DUMPABLE), as the kernel does itself
//! when a program with more rights is executed.

use crate::btf::Btf;
use crate::cursor::Cursor;
use crate::error::{Refusal, Wrong};
use crate::path::Path;
use crate::path_resolve::{End, Walker};
use crate::signature::of_tracepoint;

/// The user, and how the user's threads are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// In a thread: its own credentials, not those that the kernel lends it for a while.
    pub(crate) credentials: i32,
    /// In a thread: its memory.
    pub(crate) memory: i32,
    /// In that memory: whether others may look into it.
    pub(crate) flags: i32,
    /// Bytes of the credentials that are read, from the first user ID on.
    pub(crate) first: i32,
    pub(crate) bytes: u32,
    /// In these: the user IDs, the group IDs, the capabilities.
    pub(crate) users: [i16; 3],
    pub(crate) groups: [i16; 3],
    pub(crate) capabilities: i16,
}

/// Room for them in the program's stack.
pub(crate) const MOST_CREDENTIALS: u32 = 64;
/// A tracepoint of every kernel that hands over a thread.
const OF_THREAD: &str = "sched_process_exit";

impl Owner {
    /// A user's threads, as this kernel has them.
    pub fn new(btf: &Btf, uid: u32, gid: u32) -> Result<Owner, Refusal> {
        let in_thread = |text: &str| offset(btf, text);
        let (_, uid_at) = in_thread("arg0->real_cred->uid.val")?;
        let (credentials, capabilities) = in_thread("arg0->real_cred->cap_permitted")?;
        let (memory, flags) = in_thread("arg0->mm->flags")?;
        let mut ids = [0; 6];
        let names = ["uid", "suid", "euid", "gid", "sgid", "egid"];
        for (id, name) in ids.iter_mut().zip(names) {
            let (_, at) = in_thread(&format!("arg0->real_cred->{name}.val"))?;
            *id = at - uid_at;
        }
        let bytes = capabilities + 8 - uid_at;
        let is_within = |at: &i32| (0..=bytes - 4).contains(at);
        if !(0..=MOST_CREDENTIALS as i32).contains(&bytes) || !ids.iter().all(is_within) {
            let wrong = "this kernel's credentials lie in another order than is known".to_string();
            return Err(crate::error::Span::default().refuse("", Wrong::Unsupported(wrong)));
        }
        let [uid_, suid, euid, gid_, sgid, egid] = ids.map(|at| at as i16);
        Ok(Owner {
            uid,
            gid,
            credentials,
            memory,
            flags,
            first: uid_at,
            bytes: bytes as u32,
            users: [uid_, suid, euid],
            groups: [gid_, sgid, egid],
            capabilities: (capabilities - uid_at) as i16,
        })
    }
}

/// Where the pointer of a thread lies that a path goes by, and where its end lies behind that.
fn offset(btf: &Btf, text: &str) -> Result<(i32, i32), Refusal> {
    let mut cursor = Cursor::new(text)?;
    let path = Path::parse(&mut cursor)?.ok_or_else(|| cursor.expected("a path"))?;
    let none = |wrong| path.span.refuse(text, wrong);
    let signature = of_tracepoint(btf, OF_THREAD).map_err(|(wrong, _)| none(wrong))?;
    let walker = Walker {
        btf,
        arguments: &signature.arguments,
        event: OF_THREAD,
        text,
        is_in_program: false,
    };
    let place = walker.follow(&path)?;
    let last = match place.end {
        End::Loaded { hop, .. } => hop.offset,
        End::Inside { hop } => hop.offset,
        _ => 0,
    };
    match place.hops[..] {
        [hop] => Ok((hop.offset.cast_signed(), last.cast_signed())),
        _ => Err(none(Wrong::Unsupported("a thread looks otherwise here".to_string()))),
    }
}
