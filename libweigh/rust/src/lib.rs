//! What a program's own system calls cost in each part of the kernel, read while it runs: libweigh for
//! Rust. What is not said here stands in `weigh.h` and in docs/libweigh.md.
//!
//! ```no_run
//! let thread = libweigh::Thread::open();
//! let file = std::fs::File::open("/etc/hostname")?;
//! thread.measure(17, libweigh::ALL, || file.sync_all())?;
//! if let Some(account) = thread.read(17) {
//!     println!("{} ns at the device", account.block.device_ns.get());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Everything works, and says why nothing is measured, where no agent of weigh answers.

mod account;
mod event;
mod peer;
mod raw;
mod region;
mod reports;
mod stream;

use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

pub use account::*;
pub use event::{FieldKind, Header};
pub use peer::Peer;
pub use region::{
    Control, Region, RegionName, Sent, metadata, poll_control, publish, publish_every, regions_why,
    send_control,
};
pub use reports::Reports;
pub use stream::{Event, Field, Lost, Stream, StreamOptions};

/// A number of an account: it may change at any time.
#[derive(Debug)]
#[repr(transparent)]
pub struct Number(AtomicU64);

impl Number {
    /// What it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A limit that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The account's token.
    pub token: u64,
    /// What its number had to reach.
    pub value: u64,
    /// What it was when that was told.
    pub reached: u64,
    number: usize,
}

impl Passed {
    /// Whether it is of this number, as of [`Thread::limit`].
    pub fn is_of(&self, account: &Account, number: impl FnOnce(&Account) -> &Number) -> bool {
        let number = std::ptr::from_ref(number(account)).addr();
        number.checked_sub(std::ptr::from_ref(account).addr()) == Some(self.number)
    }
}

impl Account {
    /// What a counter of the CPU has counted, or would have if it had done so all the time; none if it was
    /// not asked for, or could not be had: `unmeasured` tells which.
    pub fn counter(&self, counter: Counter) -> Option<u64> {
        let (counting, counted) = (self.counting_ns.get(), self.counted_ns.get());
        if self.touched.get() & counter.bit() == 0 || counted == 0 {
            return None;
        }
        let count = self.raw_counter(counter).get();
        if counted >= counting {
            return Some(count);
        }
        let scaled = u128::from(count) * u128::from(counting) / u128::from(counted);
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

impl Reason {
    fn check(number: u32) -> Result<(), Reason> {
        match Reason::numbered(number) {
            Some(Reason::Measured) => Ok(()),
            Some(reason) => Err(reason),
            // Of a newer library.
            None => Err(Reason::OtherVersion),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: any number will do, and the text is a constant of the library.
        let text = unsafe { CStr::from_ptr(raw::weigh_text(*self as u32)) };
        to.write_str(&text.to_string_lossy())
    }
}

impl std::error::Error for Reason {}

/// The calling thread, as it is measured. Each of its clones and the thread itself know it; no other
/// thread may use it, and so it cannot be sent to one.
pub struct Thread {
    handle: NonNull<raw::Handle>,
    _of_this_thread: PhantomData<*mut ()>,
}

impl Thread {
    /// The calling thread's handle; [`Thread::why`] says whether it is measured.
    pub fn open() -> Thread {
        // SAFETY: it has no conditions, and never returns a null pointer.
        let handle = unsafe { raw::weigh_open() };
        let handle = NonNull::new(handle).unwrap_or(NonNull::dangling());
        Thread { handle, _of_this_thread: PhantomData }
    }

    pub(crate) fn raw(&self) -> *mut raw::Handle {
        self.handle.as_ptr()
    }

    /// Why the thread is not measured; none if it is.
    pub fn why(&self) -> Option<String> {
        // SAFETY: the handle is this thread's; the text is a constant of the library.
        let text = unsafe { raw::weigh_why(self.raw()) };
        // SAFETY: it is a null pointer or that text.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// The parts of the kernel, and counters, that the agent can see, as bits.
    pub fn subsystems(&self) -> u64 {
        // SAFETY: the handle is this thread's.
        unsafe { raw::weigh_subsystems(self.raw()) }
    }

    /// Whether the ends of calls are known, which makes [`Thread::next`] exact.
    pub fn follows(&self) -> bool {
        // SAFETY: the handle is this thread's.
        unsafe { raw::weigh_follows(self.raw()) != 0 }
    }

    /// Says which parts of the kernel the program wants from now on.
    pub fn want(&self, parts: u64) -> Result<(), Reason> {
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_want(self.raw(), parts) })
    }

    /// Why a part is not measured now.
    pub fn why_part(&self, part: Subsystem) -> Result<(), Reason> {
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_why_part(self.raw(), part as u32) })
    }

    /// Why a counter of the CPU is not there now.
    pub fn why_counter(&self, counter: Counter) -> Result<(), Reason> {
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_why_part(self.raw(), counter as u32) })
    }

    /// The number of a part by its name, one of [`Subsystem`] or of those that the agent's configuration defines: its
    /// bit is `1 << number`, and its times are there in `parts` of an account. It stays the same in this process.
    pub fn part(&self, name: &str) -> Option<u32> {
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is this thread's; the name ends with a zero.
        u32::try_from(unsafe { raw::weigh_part(self.raw(), name.as_ptr()) }).ok()
    }

    /// A part's name, by its number.
    pub fn part_name(&self, part: u32) -> Option<String> {
        // SAFETY: the handle is this thread's.
        let name = unsafe { raw::weigh_part_name(self.raw(), part) };
        // SAFETY: it is a null pointer, or a text that does not change as long as the process lives.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// Where a number of a configuration's part is in `own` of an account: see `weigh_own()`.
    pub fn own(&self, part: u32, name: &str) -> Option<usize> {
        let (part, name) = (i32::try_from(part).ok()?, CString::new(name).ok()?);
        // SAFETY: the handle is this thread's; the name ends with a zero.
        usize::try_from(unsafe { raw::weigh_own(self.raw(), part, name.as_ptr()) }).ok()
    }

    /// Why a part, by its number, is not measured now, with what the agent says of it; none if it is.
    pub fn why_not(&self, part: u32) -> Option<String> {
        let mut text = [0u8; 1024];
        // SAFETY: the handle is this thread's, and the text has so much room.
        let length =
            unsafe { raw::weigh_why_text(self.raw(), part, text.as_mut_ptr().cast(), text.len()) };
        let said = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        (length > 0).then(|| said.to_string_lossy().into_owned())
    }

    /// Accounts for what the thread does until [`Thread::end`]. An error says why it is not measured; but
    /// for [`Reason::NoAccount`] and [`Reason::Busy`] the interval is open all the same.
    pub fn begin(&self, token: u64, wanted: u64) -> Result<(), Reason> {
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_begin(self.raw(), token, wanted) })
    }

    /// Ends the interval.
    pub fn end(&self) -> Result<(), Reason> {
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_end(self.raw()) })
    }

    /// Accounts for what a function does, even if it panics. Whether it was measured
    /// [`Thread::why`] says, and `unmeasured` of the account.
    pub fn measure<T>(&self, token: u64, wanted: u64, what: impl FnOnce() -> T) -> T {
        struct Ends<'a>(&'a Thread);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                let _ = self.0.end();
            }
        }
        let began = self.begin(token, wanted);
        // One that is another's, because it was open already, is not this one's to end.
        let _ends = (began != Err(Reason::Busy)).then(|| Ends(self));
        what()
    }

    /// Accounts for the next so many system calls: see `weigh_next_n()`.
    pub fn next(&self, token: u64, wanted: u64, calls: u32) -> Result<(), Reason> {
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_next_n(self.raw(), token, wanted, calls) })
    }

    /// The account of a token, in memory that the kernel side adds to while it is read; it stays
    /// readable until the process ends, and is the token's until [`Thread::release`].
    pub fn read(&self, token: u64) -> Option<&'static Account> {
        // SAFETY: the handle is this thread's.
        let account = unsafe { raw::weigh_read(self.raw(), token) };
        // SAFETY: a null pointer or an account, which is never unmapped; it is atomic numbers all
        // over, whatever others write to it meanwhile, and laid out so if both sides say the same.
        unsafe { account.as_ref() }.filter(|_| is_of_this_layout())
    }

    /// What the code of each part did itself, of an account whose intervals wanted [`BY_PART`]; none if it has none: see
    /// `weigh_read_parts()`.
    pub fn read_parts(&self, token: u64) -> Option<&'static Parts> {
        // SAFETY: the handle is this thread's.
        let parts = unsafe { raw::weigh_read_parts(self.raw(), token) };
        // SAFETY: as in `read`.
        unsafe { parts.as_ref() }.filter(|_| is_of_this_layout())
    }

    /// Gives the account back.
    pub fn release(&self, token: u64) -> Result<(), Reason> {
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_release(self.raw(), token) })
    }

    /// How many times a token found no account.
    pub fn refused(&self) -> u64 {
        // SAFETY: the handle is this thread's.
        unsafe { raw::weigh_refused(self.raw()) }
    }

    /// Whether all that comes later has come; none if the token has no account.
    pub fn settled(&self, token: u64) -> Option<bool> {
        // SAFETY: the handle is this thread's.
        match unsafe { raw::weigh_settled(self.raw(), token) } {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Wants to be told when a token has settled.
    pub fn watch(&self, token: u64) -> Result<(), Reason> {
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_watch(self.raw(), token) })
    }

    /// Readable when watched tokens have settled, or limits are passed; libweigh's to close.
    pub fn descriptor(&self) -> Option<RawFd> {
        // SAFETY: the handle is this thread's.
        let descriptor = unsafe { raw::weigh_descriptor(self.raw()) };
        (descriptor >= 0).then_some(descriptor)
    }

    /// Has [`Thread::descriptor`] be readable when a number of an account has reached a value, as `thread.limit(17, |a|
    /// &a.block.written_bytes, 100 << 20)`; [`Thread::passed`] tells of it, once. Of the same number there is one limit.
    pub fn limit(
        &self,
        token: u64,
        number: impl FnOnce(&Account) -> &Number,
        value: u64,
    ) -> Result<(), Reason> {
        let place = self.place_of(token, number).ok_or(Reason::NoToken)?;
        // SAFETY: the handle is this thread's.
        Reason::check(unsafe { raw::weigh_limit(self.raw(), token, place, value) })
    }

    /// Takes a limit back.
    pub fn unlimit(&self, token: u64, number: impl FnOnce(&Account) -> &Number) {
        if let Some(place) = self.place_of(token, number) {
            // SAFETY: the handle is this thread's.
            unsafe { raw::weigh_unlimit(self.raw(), token, place) }
        }
    }

    /// Where a number lies in an account.
    fn place_of(&self, token: u64, number: impl FnOnce(&Account) -> &Number) -> Option<usize> {
        let account = self.read(token)?;
        let number = std::ptr::from_ref(number(account)).addr();
        number.checked_sub(std::ptr::from_ref(account).addr())
    }

    /// A limit that was passed, which is none any more; makes the descriptor unreadable. None if there is none (left).
    pub fn passed(&self) -> Option<Passed> {
        let mut passed = raw::Passed::default();
        // SAFETY: the handle is this thread's, and there is room for one.
        let told = unsafe { raw::weigh_passed(self.raw(), &raw mut passed, 1) };
        let raw::Passed { token, value, reached, number } = passed;
        (told > 0).then_some(Passed { token, value, reached, number })
    }

    /// Calls a function for each watched token that has settled since the last time. How many. A panic
    /// of the function ends the program.
    pub fn dispatch<F: FnMut(u64, &Account)>(&self, mut settled: F) -> usize {
        extern "C" fn one<F: FnMut(u64, &Account)>(
            token: u64,
            account: *const Account,
            settled: *mut c_void,
        ) {
            // SAFETY: libweigh hands on what it got, which is that function, and an account.
            let (settled, account) = unsafe { (&mut *settled.cast::<F>(), account.as_ref()) };
            if let Some(account) = account.filter(|_| is_of_this_layout()) {
                settled(token, account);
            }
        }
        let data = (&raw mut settled).cast();
        // SAFETY: the handle is this thread's; the function is called before this one returns.
        let told = unsafe { raw::weigh_dispatch(self.raw(), one::<F>, data) };
        usize::try_from(told).unwrap_or(0)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: it was opened once for this value, by this thread.
        unsafe { raw::weigh_close(self.raw()) }
    }
}

/// Whether the library that was linked lays accounts out as this crate does.
fn is_of_this_layout() -> bool {
    // SAFETY: it has no conditions.
    unsafe { raw::weigh_layout() == LAYOUT }
}
