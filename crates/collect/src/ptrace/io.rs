//! What threads read and write, by file: looked at where they enter a call and where they leave it.
//!
//! Reads the call, what its descriptors refer to, and what came of it; emits what is counted by the rules
//! that the BPF programs count by. What is done without a call is not seen and is named: mapped memory,
//! requests of io_uring and AIO.

mod counts;
mod describe;
mod files;
mod frees;
mod names;
pub(super) mod short;
pub(super) mod table;
mod witness;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weigh_schema::byte_text;
use weigh_schema::io::{Deed, FileId, Object, Span, Who};

use super::calls::stops::Stops;
use super::calls::table::{ABIS, Abi, X32};
use super::library::Library;
use super::program::Program;
use super::sys::{Call, LastCall};
use crate::clock::monotonic_ns;
use crate::host;
use crate::io::layout::skeleton::types::io_call as CallKind;
pub use counts::Counts;
use counts::Done;
use describe::{End, FileOffset};
use files::{Referred, Unknown};
use short::{LONG, Words};
use table::Does;

/// What is counted, for the thread that traces and for who tells of it.
#[derive(Clone)]
pub struct SharedCounts(Arc<Mutex<Counts>>);

impl SharedCounts {
    /// Of these.
    pub fn new(counts: Counts) -> SharedCounts {
        SharedCounts(Arc::new(Mutex::new(counts)))
    }

    /// Nothing can be left half done there but by a panic, which keeps the numbers.
    pub fn get(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that a thread is in.
#[derive(Clone, Copy, Debug)]
struct Inside {
    does: Does,
    number: u64,
    words: Words,
    arguments: [u64; 6],
    /// Where the file ends that it appends to, though it names an offset.
    end: Option<u64>,
    /// Which file loses its last name by it.
    loses_name: Option<FileId>,
    /// Whether it may free space of a file system.
    frees: bool,
    began_ns: u64,
}

/// Follows them.
pub struct IoCalls {
    counts: SharedCounts,
    stops: Stops,
    inside: HashMap<u32, Inside>,
    /// One that counts in the programs that it is in.
    library: Option<Library>,
    /// The processes that are left to it.
    left: HashSet<u32>,
}

impl IoCalls {
    /// Of none so far.
    pub fn new(counts: SharedCounts, stops: Stops, library: Option<Library>) -> IoCalls {
        IoCalls { counts, stops, inside: HashMap::new(), library, left: HashSet::new() }
    }

    /// Whether a library counts, too, in the programs that it is in.
    pub fn is_beside_library(&self) -> bool {
        self.library.is_some()
    }

    /// Whether a thread that goes on is to stop again where it next enters or leaves a call.
    pub fn is_next_wanted(&self, tid: u32, pid: impl FnOnce() -> u32) -> bool {
        self.stops == Stops::All && !self.left.contains(&pid()) || self.inside.contains_key(&tid)
    }

    /// A thread is stopped at something else than a call.
    pub fn stopped(&mut self) {
        self.counts.get().price.stops_total += 1;
    }

    /// A thread enters a call.
    pub fn enters(&mut self, tid: u32, pid: u32, call: &Call) {
        let looked_ns = monotonic_ns();
        let counts = self.counts.clone();
        let mut counts = counts.get();
        self.inside.remove(&tid);
        counts.price.stops_total += 1;
        if counts.is_member(pid) && !self.left.contains(&pid) {
            self.looks(&mut counts, tid, pid, call);
        }
        let now_ns = monotonic_ns();
        counts.price.look_seconds += (now_ns - looked_ns) as f64 / 1e9;
        if let Some(inside) = self.inside.get_mut(&tid) {
            inside.began_ns = now_ns;
        }
    }

    fn looks(&mut self, counts: &mut Counts, tid: u32, pid: u32, call: &Call) {
        let is_of = |abi: &Abi| abi.audit_arch == call.audit_arch && call.number < X32;
        let (call, words) = match ABIS.iter().position(is_of) {
            Some(0) => (*call, LONG),
            Some(_) if crate::io::calls::short::is_known_abi(call.audit_arch) => {
                let Some(widened) = short::widened(tid, call) else { return };
                widened
            }
            Some(_) => return counts.foreign(pid),
            None => {
                let name = counts.name_of(pid);
                counts.unknown.insert(name);
                return;
            }
        };
        let Some(does) = table::of(call.number) else { return };
        let [first, second, ..] = call.arguments;
        match does {
            // When it has ended nothing is known of the descriptor any more.
            Does::Call(CallKind::CALL_CLOSE) => {
                return closes(counts, Who { pid, tid }, first as i32, call.number);
            }
            Does::ClosesRange => {
                let range = first as u32..=second as u32;
                let is_meant = |fd: &i32| u32::try_from(*fd).is_ok_and(|fd| range.contains(&fd));
                // They may be marked to be closed at exec, or be copied first: what is there is asked when it is over.
                if !counts.descriptors(pid).iter().any(is_meant) {
                    return;
                }
            }
            Does::Call(CallKind::CALL_MMAP) if call.arguments[4] as i32 == -1 => return,
            Does::Duplicates if !describe::is_copy(call.number, second) => return,
            _ => {}
        }
        let end = match does {
            Does::Call(kind) => describe::end_before(tid, kind, &call, words),
            _ => None,
        };
        let loses_name = match does {
            Does::Call(CallKind::CALL_PATH) => names::loses_last(tid, &call),
            _ => None,
        };
        let frees = matches!(does, Does::Call(kind) if frees::by_arguments(tid, kind, &call));
        let Call { number, arguments, .. } = call;
        let inside = Inside { does, number, words, arguments, end, loses_name, frees, began_ns: 0 };
        self.inside.insert(tid, inside);
    }

    /// Whether a thread is in a call that is counted when it leaves it.
    pub fn is_inside(&self, tid: u32) -> bool {
        self.inside.contains_key(&tid)
    }

    /// A thread ends that was killed in a call.
    pub fn is_cut_off(&mut self, tid: u32, pid: u32, call: LastCall) {
        match call {
            LastCall::Made(result) => self.leaves(tid, pid, result),
            LastCall::NotMade => drop(self.inside.remove(&tid)),
        }
    }

    /// A thread leaves a call.
    pub fn leaves(&mut self, tid: u32, pid: u32, result: Result<u64, i32>) {
        let ended_ns = monotonic_ns();
        let counts = self.counts.clone();
        let mut counts = counts.get();
        counts.price.stops_total += 1;
        if let Some(inside) = self.inside.remove(&tid)
            && counts.is_member(pid)
        {
            let span = Span {
                began_ns: counts.since(inside.began_ns),
                ended_ns: counts.since(ended_ns),
                number: inside.number,
            };
            left(&mut counts, Who { pid, tid }, &inside, span, result);
        }
        counts.price.look_seconds += (monotonic_ns() - ended_ns) as f64 / 1e9;
    }

    /// A thread begins; it may be a process of its own.
    pub fn born(&mut self, tid: u32, parent: u32, is_thread: bool) {
        if !is_thread {
            // Its memory is its parent's, or like it, and the library is in it or not.
            match self.left.contains(&parent) {
                true => self.left.insert(tid),
                false => self.left.remove(&tid),
            };
        }
        let mut counts = self.counts.get();
        let is_counted = counts.is_member(parent);
        if is_counted && !is_thread {
            counts.born(tid, parent, None, monotonic_ns());
            counts.set_traced(tid, !self.left.contains(&tid));
        }
        if is_counted {
            counts.thread_begins();
        }
    }

    /// A process that runs is followed from now on.
    pub fn joins(&mut self, pid: u32, threads: usize) {
        let mut counts = self.counts.get();
        counts.born(pid, 0, host::process_name(pid), monotonic_ns());
        (0..threads).for_each(|_| counts.thread_begins());
    }

    /// A process executes a program: some of its descriptors may be closed by that. The command is followed from here on.
    pub fn executes(&mut self, tid: u32, former: u32, program: Option<&Program>) {
        self.inside.remove(&tid);
        self.inside.remove(&former);
        let name = host::process_name(tid);
        let is_loaded = |library: &Library| {
            program.is_some_and(|program| program.can_have_library) && library.is_loaded_by(tid)
        };
        let is_left = self.library.as_ref().is_some_and(is_loaded);
        let mut counts = self.counts.get();
        counts.set_traced(tid, !is_left);
        match is_left {
            true => {
                self.left.insert(tid);
                counts.witness.leaves_to_library(tid, former);
            }
            false => {
                self.left.remove(&tid);
                let read = program.map(|program| program.header_reads).unwrap_or_default();
                counts.witness.program_begins(tid, former, read);
            }
        }
        if counts.is_member(tid) {
            counts.rename(tid, name);
            return look_again(&mut counts, tid, tid);
        }
        counts.born(tid, 0, name, monotonic_ns());
        counts.thread_begins();
    }

    /// The last thread of a process is about to end; its descriptors are still there.
    pub fn leaves_for_good(&mut self, tid: u32, pid: u32) {
        let mut counts = self.counts.get();
        counts.rename(pid, host::process_name(pid));
        look_again(&mut counts, pid, tid);
    }

    /// A thread is no more.
    pub fn thread_ends(&mut self, tid: u32) {
        let mut counts = self.counts.get();
        if self.inside.remove(&tid).is_some() {
            // Killed in the few microseconds of another stop, it went past the one at its end.
            counts.cut_off += 1;
        }
        counts.witness.thread_ends(tid);
    }

    /// A process is no more.
    pub fn ends(&mut self, pid: u32) {
        self.left.remove(&pid);
        self.counts.get().ends(pid, monotonic_ns());
    }

    /// A process is traced by another from now on.
    pub fn lets_go(&mut self, pid: u32, program: String) {
        let mut counts = self.counts.get();
        // The library goes on counting in it.
        if !self.left.remove(&pid) {
            counts.set_traced(pid, false);
            counts.untraced.insert(program);
        }
        counts.ends(pid, monotonic_ns());
    }
}

/// What a descriptor refers to, kept apart from all that was there before.
fn referred(counts: &mut Counts, tid: u32, fd: i32) -> Result<Referred, Unknown> {
    files::referred(tid, fd).map(|found| counts.kept_apart(found))
}

/// What descriptors refer to now that were used before.
fn look_again(counts: &mut Counts, pid: u32, tid: u32) {
    for fd in counts.descriptors(pid) {
        let now = referred(counts, tid, fd).ok();
        counts.refers(pid, fd, now);
    }
}

fn closes(counts: &mut Counts, who: Who, fd: i32, number: u64) {
    let Ok(referred) = referred(counts, who.tid, fd) else { return };
    give_name(counts, who, fd, &referred);
    let at_ns = counts.since(monotonic_ns());
    let done = Done {
        deed: Deed::Close,
        calls: 1,
        bytes: 0,
        from: None,
        is_direct: false,
        truncates: false,
        error: 0,
        asked: None,
        span: Span { began_ns: at_ns, ended_ns: at_ns, number },
        is_timed: true,
    };
    counts.did(who, Some(&referred), &done);
    counts.refers(who.pid, fd, Some(referred));
    counts.refers(who.pid, fd, None);
}

fn left(counts: &mut Counts, who: Who, inside: &Inside, span: Span, result: Result<u64, i32>) {
    let kind = match inside.does {
        Does::Call(kind) => kind,
        Does::Duplicates => {
            if let Ok(fd) = result {
                let referred = referred(counts, who.tid, fd as i32);
                counts.refers(who.pid, fd as i32, referred.ok());
            }
            return;
        }
        Does::ClosesRange => return look_again(counts, who.pid, who.tid),
        Does::Uring | Does::Aio => {
            let name = counts.name_of(who.pid);
            if result.is_ok() {
                counts.moves_unseen(who.pid);
                match inside.does {
                    Does::Uring => counts.by_uring.insert(name),
                    _ => counts.by_aio.insert(name),
                };
            }
            return;
        }
    };
    if let Some(file) = inside.loses_name.filter(|_| result.is_ok()) {
        counts.loses_name(file);
    }
    if inside.frees && result.is_ok() {
        counts.frees();
    }
    let Inside { words, arguments, end, .. } = inside;
    for end in describe::ends(who.tid, kind, (arguments, *words), *end, result) {
        let End { fd, deed, calls, bytes, place, truncates, is_timed, asked } = end;
        let mut done = Done {
            deed,
            calls,
            bytes,
            from: None,
            is_direct: false,
            truncates,
            error: result.err().unwrap_or(0),
            asked,
            span,
            is_timed,
        };
        let Some(fd) = fd else {
            counts.by_path(who, &done);
            continue;
        };
        let referred = referred(counts, who.tid, fd);
        match &referred {
            Ok(referred) => {
                if result.is_ok() && empties(counts, who.tid, fd, referred, &done, arguments[3]) {
                    counts.frees();
                }
                place_it(&mut done, who.tid, fd, referred, place);
                // It may have been renamed since it was first seen.
                match deed == Deed::Open && referred.object == Object::Regular {
                    true => counts.set_name(referred, files::name(who.pid, who.tid, fd, referred)),
                    false => give_name(counts, who, fd, referred),
                }
            }
            Err(Unknown::Hidden) => {
                let name = counts.name_of(who.pid);
                counts.hidden.insert(byte_text::shown(&name));
            }
            Err(Unknown::Nothing) => {}
        }
        let referred = referred.ok();
        counts.refers(who.pid, fd, referred);
        counts.did(who, referred.as_ref(), &done);
    }
}

/// Whether an open or a map may free space of a file system.
fn empties(
    counts: &Counts,
    tid: u32,
    fd: i32,
    referred: &Referred,
    done: &Done,
    map_flags: u64,
) -> bool {
    match done.deed {
        _ if referred.object != Object::Regular => false,
        Deed::Open if done.truncates => frees::by_open(tid, fd, counts.is_named(&referred.file)),
        Deed::Map => frees::by_map(tid, fd, map_flags),
        _ => false,
    }
}

/// Where it was done, and whether past the page cache.
fn place_it(done: &mut Done, tid: u32, fd: i32, referred: &Referred, place: FileOffset) {
    let is_move = matches!(done.deed, Deed::Read(_) | Deed::Write(_));
    if !is_move || !referred.has_offsets() {
        return;
    }
    let opened = files::opened(tid, fd);
    done.is_direct = opened.flags & libc::O_DIRECT as u32 != 0;
    if done.error == 0 {
        done.from = match place {
            FileOffset::Nowhere => None,
            FileOffset::At(from) => Some(from),
            FileOffset::AtEnd(end) => has_grown(tid, fd, end, done.bytes).then_some(end),
            FileOffset::BeforePosition => opened.position.and_then(|at| at.checked_sub(done.bytes)),
        };
    }
}

/// Whether a file has grown by that much from its former end: else others have written, too, and nobody knows where.
fn has_grown(tid: u32, fd: i32, end: u64, bytes: u64) -> bool {
    files::size(tid, fd).and_then(|size| size.checked_sub(bytes)) == Some(end)
}

fn give_name(counts: &mut Counts, who: Who, fd: i32, referred: &Referred) {
    if !counts.is_named(&referred.file) {
        counts.set_name(referred, files::name(who.pid, who.tid, fd, referred));
    }
}
