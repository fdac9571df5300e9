//! Programs with libweigh: each has a page of its own, an array of the kernel's that both map, in
//! which its threads say what is to be accounted and find the accounts.
//!
//! Makes pages, puts them before the kernel side, has it take in threads, and gives descriptors of
//! pages. What a page holds is its program's to write: it is read here as numbers of no meaning.
//! Who may ask for what is for the server to decide.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore as _, MapFlags};
use rustix::mm::{MapFlags as Mapping, ProtFlags};
use weigh_schema::library::{
    ACCOUNT_WORDS, CLIENTS, ELEMENT_BYTES, ELEMENTS, FIRST_ACCOUNT, PAGE_HEAD,
};
use weigh_schema::subsystem;

use super::{KernelCalls, join, layout};
use crate::job::{JobError, bpf};

const BYTES: usize = ELEMENT_BYTES * ELEMENTS;
const WORDS: usize = BYTES / 8;

/// A page: the kernel's array, mapped here too.
pub struct Page {
    array: OwnedFd,
    mapping: NonNull<AtomicU64>,
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
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the kernel likes; nothing of this program lies there.
        let mapping = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), BYTES, rights, Mapping::SHARED, &array, 0)?
        };
        let mapping = NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Page { array, mapping })
    }

    /// The descriptor that its own program gets.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.array.as_fd()
    }

    /// A descriptor by which nobody can write.
    pub fn read_only(&self) -> io::Result<OwnedFd> {
        let mut about = sys::bpf_map_info::default();
        let mut length = size_of::<sys::bpf_map_info>() as u32;
        // SAFETY: the descriptor is open, and `about` is as long as is said.
        let status =
            unsafe { sys::bpf_map_get_info_by_fd(self.array.as_raw_fd(), &mut about, &mut length) };
        if status < 0 {
            return Err(io::Error::from_raw_os_error(-status));
        }
        let options = sys::bpf_get_fd_by_id_opts {
            sz: size_of::<sys::bpf_get_fd_by_id_opts>() as sys::size_t,
            open_flags: sys::BPF_F_RDONLY,
            ..Default::default()
        };
        // SAFETY: the options outlive the call.
        join::descriptor(unsafe { sys::bpf_map_get_fd_by_id_opts(about.id, &options) })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long, aligned to a page, and lives as long as `self`; others
        // write it at any time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr(), WORDS) }
    }

    /// Numbers of its head.
    fn head(&self, name: &str) -> &[AtomicU64] {
        let mut at = 0;
        for (field, count, _) in PAGE_HEAD {
            if *field == name {
                return &self.words()[at..at + count];
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

    fn pending(&self, account: usize) -> u64 {
        let at = (FIRST_ACCOUNT + account) * ELEMENT_BYTES / 8 + subsystem::pending_at();
        self.words()[at].load(Ordering::Acquire)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.mapping.as_ptr().cast(), BYTES) };
    }
}

impl KernelCalls {
    /// Puts a page before the kernel side. None if there is no place.
    pub fn admit(&mut self, page: &Page) -> Result<Option<Serial>, JobError> {
        let Some(serial) = self.free_serial() else { return Ok(None) };
        let index = serial.0.get() % CLIENTS;
        let array = page.array.as_raw_fd().to_ne_bytes();
        let clients = &self.skeleton.maps.clients;
        clients
            .update(&index.to_ne_bytes(), &array, MapFlags::ANY)
            .map_err(bpf("admitting a program"))?;
        self.set_serial(index, serial.0.get());
        Ok(Some(serial))
    }

    /// Takes a page away: nothing is accounted to it any more.
    pub fn expel(&mut self, serial: Serial) {
        let index = serial.0.get() % CLIENTS;
        self.set_serial(index, 0);
        let _ = self.skeleton.maps.clients.delete(&index.to_ne_bytes());
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

    /// Bit set of the subsystems that are seen.
    pub fn subsystems(&self) -> u64 {
        self.skeleton.maps.rodata_data.as_deref().map_or(0, |c| c.chosen)
    }

    /// Whether system calls themselves are followed.
    pub fn follows_calls(&self) -> bool {
        self.skeleton.maps.rodata_data.as_deref().is_some_and(|c| c.follows_calls != 0)
    }

    fn free_serial(&mut self) -> Option<Serial> {
        let taken = |calls: &KernelCalls, serial: NonZeroU32| {
            let variables = calls.skeleton.maps.bss_data.as_deref();
            let index = serial.get() % CLIENTS;
            variables.is_none_or(|v| v.serials[index as usize] != 0)
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
