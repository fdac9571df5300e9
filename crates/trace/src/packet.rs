//! Where a packet lies: the kernel's `struct sk_buff`, and its function that reads what lies in pages.
//!
//! Reads the kernel's types; refuses what is no `struct sk_buff`.

use crate::btf::{Btf, TypeKind};
use crate::error::Refusal;
use crate::path::{Path, Step};
use crate::path_resolve::{End, PathEnd, Walker};

/// The function that makes a packet readable as a whole. Kernels from 6.12 on let programs at tracepoints call it.
const READER: &str = "bpf_dynptr_from_skb";
/// The function after which a pointer is one that may be loaded from, and that nothing is known of beside its type. For
/// each pointer that is loaded from an argument itself the verifier goes through all of the kernel's types four times.
const CAST: &str = "bpf_rdonly_cast";

/// A packet's places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub(crate) skb: PathEnd,
    pub(crate) head: PathEnd,
    pub(crate) data: PathEnd,
    pub(crate) len: PathEnd,
    pub(crate) data_len: PathEnd,
    pub(crate) mac_header: PathEnd,
    /// The number of [`READER`], where it can be called: with an argument, as the kernel hands it over.
    pub(crate) reader: Option<u32>,
    /// The number of [`CAST`], and of the packet's type, where both functions can be called.
    pub(crate) cast: Option<(u32, u32)>,
    /// How far the end of its first part lies behind the beginning: for its pages, where that function cannot be called.
    pub(crate) end: Option<PathEnd>,
    /// Where the record says how many bytes were kept; 0: nowhere.
    pub(crate) kept_at: u32,
}

impl Packet {
    /// Whether [`READER`] can be called.
    pub(crate) fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// The packet of the `struct sk_buff` that a path leads to.
    pub(crate) fn new(walker: &Walker<'_>, path: &Path) -> Result<Packet, Refusal> {
        let member = |name: &str| {
            let step = (Step::Member(name.to_string()), path.span);
            let steps = path.steps.iter().cloned().chain([step]).collect();
            walker.follow(&Path { steps, ..path.clone() })
        };
        let skb = walker.follow(path)?;
        let is_argument = skb.end == End::Argument && skb.hops.is_empty();
        let reader = function(walker.btf, READER).filter(|_| is_argument && !walker.is_in_program);
        Ok(Packet {
            head: member("head")?,
            data: member("data")?,
            len: member("len")?,
            data_len: member("data_len")?,
            mac_header: member("mac_header")?,
            reader,
            cast: reader.and_then(|_| {
                function(walker.btf, CAST).zip(structure_behind(walker.btf, skb.kind))
            }),
            end: member("end").ok().filter(|end| end.bytes == 4),
            kept_at: 0,
            skb,
        })
    }
}

/// Where a packet's pages stand: the fragments of `struct skb_shared_info`, which lies at the end of its first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// Where it says how many fragments there are, and where the first is: address of the page's `struct page`, of 8
    /// bytes; length and offset, of 4 bytes each.
    pub(crate) count_at: u32,
    pub(crate) first_at: u32,
}

/// Bytes of a fragment.
pub(crate) const FRAGMENT_BYTES: u32 = 16;
/// Bytes of `struct page` where pages are found by its address as here.
const PAGE_BYTES: u64 = 64;

impl Fragments {
    /// None where they cannot be found by what is known here: on other processors than those of x86-64.
    pub fn new(btf: &Btf) -> Option<Fragments> {
        let shared = btf.structure("skb_shared_info")?;
        let members = btf.members(shared);
        let at = |name| Some(members.iter().find(|member| member.name == name)?.bit / 8);
        let page = btf.size(btf.structure("page")?).ok()?;
        let is_known = cfg!(target_arch = "x86_64") && page == PAGE_BYTES;
        let (count_at, first_at) = (at("nr_frags")?, at("frags")?);
        is_known.then_some(Fragments { count_at, first_at })
    }
}

/// The structure that a pointer is to.
fn structure_behind(btf: &Btf, pointer: u32) -> Option<u32> {
    let Ok((_, TypeKind::Pointer(to))) = btf.bare(pointer) else { return None };
    let (id, kind) = btf.bare(to).ok()?;
    matches!(kind, TypeKind::Struct { .. }).then_some(id)
}

/// Functions that programs may call have a number among the kernel's own types.
fn function(btf: &Btf, name: &str) -> Option<u32> {
    btf.module().is_none().then(|| btf.function(name)).flatten()
}
