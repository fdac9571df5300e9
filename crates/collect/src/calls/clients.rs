//! Programs with libweigh: each has a page of its own, an array of the kernel's that both map, in
//! which its threads say what is to be accounted and find the accounts.
//!
//! Makes pages, puts them before the kernel side, has it take in threads, and gives descriptors of
//! pages. What a page holds is its program's to write: it is read here as numbers of no meaning.
//! The server decides which client may ask for what.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::libbpf_sys as sys;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags as Mapping, ProtFlags};
use weigh_schema::library::{
    ACCOUNT_WORDS, ACCOUNTS, CLIENTS, ELEMENT_BYTES, ELEMENTS, FIRST_ACCOUNT, LIMITS, PAGE_HEAD,
    account_on_page,
};
use weigh_schema::subsystem::{self, Account};

use super::kernel_calls::KernelCalls;
use super::layout;
use crate::job::{JobError, bpf};
use crate::join;

const BYTES: usize = ELEMENT_BYTES * ELEMENTS;
const WORDS: usize = BYTES / 8;

/// A page: the kernel's array, mapped here too.
pub struct Page {
    array: OwnedFd,
    mapping: Mapped,
}

/// A copy of a page's accounts, for other programs. The kernel maps its arrays for nobody who may not
/// write them (a descriptor that may only read cannot be shared, and only shared ones are mapped).
pub struct Copy {
    file: OwnedFd,
    mapping: Mapped,
    /// The generation of each account as it is there. To look into the file would make the kernel give it memory for
    /// accounts that are nobody's, which are most: that took a millisecond.
    generations: Vec<Cell<u64>>,
}

/// As many bytes as a page has, that others may write at any time.
struct Mapped(NonNull<AtomicU64>);

impl Mapped {
    fn new(file: &OwnedFd) -> io::Result<Mapped> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the kernel likes; nothing of this program lies there.
        let mapping = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), BYTES, rights, Mapping::SHARED, file, 0)?
        };
        Ok(Mapped(NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory)?))
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long, aligned to a page, and lives as long as `self`; others
        // write it at any time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), WORDS) }
    }

    fn account(&self, number: usize) -> &[AtomicU64] {
        let start = (FIRST_ACCOUNT + number) * ELEMENT_BYTES / 8;
        &self.words()[start..start + account_on_page()]
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

impl Copy {
    /// An empty one.
    pub fn new() -> io::Result<Copy> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("weigh_copy", flags)?;
        ftruncate(&file, BYTES as u64)?;
        let mapping = Mapped::new(&file)?;
        // This mapping is the last that may write.
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Copy { file, mapping, generations: vec![Cell::new(0); ACCOUNTS] })
    }

    /// A descriptor by which nobody can write.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Takes the accounts as they are now, each number for itself.
    pub fn renew(&self, page: &Page) {
        let generation = subsystem::generation_at();
        for (number, copied) in self.generations.iter().enumerate() {
            let (from, to) = (page.mapping.account(number), self.mapping.account(number));
            let found = from[generation].load(Ordering::Acquire);
            // Accounts that are nobody's, and were so, are most.
            if found % 2 == 0 && copied.replace(found) == found {
                continue;
            }
            copied.set(found);
            for (from, to) in from.iter().zip(to) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}

/// What the kernel side knows a program by. No two programs that are served at once, and none within
/// four thousand million others, have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Serial(NonZeroU32);

impl Page {
    /// A new one, all zero.
    pub fn new() -> io::Result<Page> {
        let options = sys::bpf_map_create_opts {
            sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
            map_flags: sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        // SAFETY: the name ends with a zero, and the options outlive the call.
        let array = unsafe {
            sys::bpf_map_create(
                sys::BPF_MAP_TYPE_ARRAY,
                c"weigh_page".as_ptr(),
                size_of::<u32>() as u32,
                ELEMENT_BYTES as u32,
                ELEMENTS as u32,
                &options,
            )
        };
        let array = join::descriptor(array)?;
        let mapping = Mapped::new(&array)?;
        Ok(Page { array, mapping })
    }

    /// The descriptor that its own program gets.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.array.as_fd()
    }

    /// What the kernel knows it by.
    pub fn number(&self) -> Option<u32> {
        let path = format!("/proc/self/fdinfo/{}", self.array.as_raw_fd());
        let about = std::fs::read_to_string(path).ok()?;
        about.lines().find_map(|line| line.strip_prefix("map_id:")?.trim().parse().ok())
    }

    /// Numbers of its head.
    fn head(&self, name: &str) -> &[AtomicU64] {
        let mut at = 0;
        for (field, count, _) in PAGE_HEAD {
            if *field == name {
                return &self.mapping.words()[at..at + count];
            }
            at += count;
        }
        &[]
    }

    /// Tells the program whether anybody serves it.
    pub fn set_served(&self, served: bool) {
        for word in self.head("served") {
            word.store(u64::from(served), Ordering::Release);
        }
    }

    /// Tells the program which parts of the kernel can be seen, and which are seen now.
    pub fn set_parts(&self, available: u64, attached: u64) {
        for (name, parts) in [("available", available), ("attached", attached)] {
            for word in self.head(name) {
                word.store(parts, Ordering::SeqCst);
            }
        }
    }

    /// Whether anything is under way for any account.
    pub fn has_pending(&self) -> bool {
        (0..ACCOUNTS).any(|account| self.pending(account) != 0)
    }

    /// Takes the accounts that the program watches and that have settled out of those watched, and
    /// puts them to those settled. How many, and how many are watched still. The program finds how
    /// often it is looked, in milliseconds; 0: not any more.
    pub fn settle(&self, every_ms: u64) -> (u32, u32) {
        for word in self.head("looked") {
            word.store(every_ms, Ordering::SeqCst);
        }
        let (mut done, mut left) = (0, 0);
        let (watched, settled) = (self.head("watched"), self.head("settled"));
        for word in 0..ACCOUNT_WORDS {
            let bits = watched[word].load(Ordering::SeqCst);
            let mut ready = 0;
            for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
                if self.pending(word * 64 + bit) == 0 {
                    ready |= 1 << bit;
                }
            }
            left += (bits & !ready).count_ones();
            if ready != 0 {
                done += ready.count_ones();
                settled[word].fetch_or(ready, Ordering::AcqRel);
                watched[word].fetch_and(!ready, Ordering::AcqRel);
            }
        }
        (done, left)
    }

    /// Takes the limits that are passed out of those that there are. How many, and how many are left. What the program has
    /// written there may be anything.
    pub fn pass_limits(&self) -> (u32, u32) {
        let (limited, at) = (self.head("limited"), self.head("limit_at"));
        let value = self.head("limit_value");
        let (mut done, mut left) = (0, 0);
        for limit in 0..LIMITS {
            let account = limited[limit].load(Ordering::SeqCst);
            if account == 0 {
                continue;
            }
            let reached = self.number_of(account, at[limit].load(Ordering::Relaxed));
            if reached.is_none_or(|reached| reached < value[limit].load(Ordering::Relaxed)) {
                left += 1;
                continue;
            }
            for word in self.head("passed") {
                word.fetch_or(1 << limit, Ordering::SeqCst);
            }
            // One that the program has set anew meanwhile stays.
            let gone =
                limited[limit].compare_exchange(account, 0, Ordering::SeqCst, Ordering::Relaxed);
            done += u32::from(gone.is_ok());
        }
        (done, left)
    }

    /// A number of an account, as the program names both.
    fn number_of(&self, account: u64, at: u64) -> Option<u64> {
        let account = usize::try_from(account).ok()?.checked_sub(1).filter(|n| *n < ACCOUNTS)?;
        let at = usize::try_from(at).ok().filter(|at| *at < subsystem::account_length())?;
        Some(self.mapping.account(account)[at].load(Ordering::Acquire))
    }

    /// The accounts that are anybody's, with their tokens.
    pub fn accounts(&self) -> Vec<Account> {
        let account = |number: usize| {
            let words = self.mapping.account(number);
            let is_taken = words[subsystem::generation_at()].load(Ordering::Acquire) % 2 == 1;
            let bytes = || words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
            is_taken.then(|| Account::from_bytes(&bytes().collect::<Vec<u8>>())).flatten()
        };
        (0..ACCOUNTS).filter_map(account).collect()
    }

    fn pending(&self, account: usize) -> u64 {
        self.mapping.account(account)[subsystem::pending_at()].load(Ordering::Acquire)
    }
}

impl KernelCalls {
    /// Puts a page before the kernel side. None if there is no place.
    pub fn admit(&mut self, page: &Page) -> Result<Option<Serial>, JobError> {
        let Some(serial) = self.free_serial() else { return Ok(None) };
        let index = serial.0.get() % CLIENTS;
        self.placing.put(index, page.array.as_fd()).map_err(bpf("admitting a program"))?;
        self.set_serial(index, serial.0.get());
        Ok(Some(serial))
    }

    /// Takes a page away: nothing is accounted to it any more.
    pub fn expel(&mut self, serial: Serial) {
        let index = serial.0.get() % CLIENTS;
        self.set_serial(index, 0);
        self.placing.take_out(index);
    }

    /// What a thread does is accounted as its slot says from now on.
    pub fn join_thread(
        &mut self,
        serial: Serial,
        tid: u32,
        slot: u32,
        ticket: u64,
    ) -> io::Result<()> {
        let request = layout::join_request(serial.0.get(), slot, ticket);
        if let Some(variables) = self.skeleton.maps.bss_data.as_deref_mut() {
            variables.join_request = request;
        }
        let joined = join::thread(&self.skeleton.progs.member__join, tid);
        if let Some(variables) = self.skeleton.maps.bss_data.as_deref_mut() {
            variables.join_request = layout::join_request(0, 0, 0);
        }
        joined
    }

    /// Counters of the CPU for a thread, which it reads itself: those of these that there are, and their
    /// descriptors, the one to be read first.
    pub fn counters_of_thread(&self, tid: u32, bits: u64) -> io::Result<(u64, Vec<OwnedFd>)> {
        self.counting.of_thread(tid, bits)
    }

    /// The pages that there are, of all servers: a program may keep one after it has left, and then its memory.
    pub fn living_pages(&self) -> io::Result<BTreeSet<u32>> {
        let said = join::read_all(&self.skeleton.progs.member__pages)?;
        let (numbers, _) = said.as_chunks::<4>();
        Ok(numbers.iter().map(|number| u32::from_ne_bytes(*number)).collect())
    }

    /// Whether system calls themselves are followed.
    pub fn follows_calls(&self) -> bool {
        self.skeleton.maps.rodata_data.is_some_and(|c| c.follows_calls != 0)
    }

    fn free_serial(&mut self) -> Option<Serial> {
        let taken = |calls: &mut KernelCalls, serial: NonZeroU32| {
            let variables = calls.skeleton.maps.bss_data.as_deref();
            let index = serial.get() % CLIENTS;
            variables.is_none_or(|v| v.serials[index as usize] != 0)
                || !calls.placing.is_free(index)
        };
        for _ in 0..CLIENTS {
            self.last_serial = self.last_serial.wrapping_add(1);
            let serial = NonZeroU32::new(self.last_serial).unwrap_or(NonZeroU32::MIN);
            if !taken(self, serial) {
                return Some(Serial(serial));
            }
        }
        None
    }

    fn set_serial(&mut self, index: u32, serial: u32) {
        if let Some(variables) = self.skeleton.maps.bss_data.as_deref_mut() {
            variables.serials[index as usize] = serial;
        }
    }
}
