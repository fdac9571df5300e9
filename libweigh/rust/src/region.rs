//! Regions: a program tells its own phases, timers, counters and events to the listener that measures it. What is not said here
//! stands in `weigh_region.h`.
//!
//! ```
//! fn step(cells: i64) {
//!     let _region = libweigh::region!("solve");
//!     libweigh::name!("cells").count(cells);
//! }
//! for iteration in 0..3 {
//!     let _phase = libweigh::name!("iteration").phase(iteration);
//!     step(4096);
//!     libweigh::publish();
//! }
//! ```

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::raw;

fn is_active() -> bool {
    // SAFETY: libweigh alone writes it, as a whole; it is there from the program's begin on.
    unsafe { raw::weigh_regions_active.load(Ordering::Relaxed) != 0 }
}

/// A name of regions, counters, gauges or events: one for each place in the source, as [`name!`](crate::name) makes it.
pub struct RegionName {
    text: &'static str,
    number: AtomicU32,
}

/// A region that ends when it is dropped. It cannot be sent to another thread.
#[must_use = "the region ends when this is dropped"]
pub struct Region {
    number: u32,
    _of_this_thread: PhantomData<*mut ()>,
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.number != 0 {
            // SAFETY: any number will do.
            unsafe { raw::weigh_region_end(self.number) };
        }
    }
}

impl RegionName {
    /// A name that is looked up when it is used first.
    pub const fn new(text: &'static str) -> RegionName {
        RegionName { text, number: AtomicU32::new(0) }
    }

    fn number(&self) -> u32 {
        let known = self.number.load(Ordering::Relaxed);
        if known != 0 { known } else { self.look_up() }
    }

    #[cold]
    fn look_up(&self) -> u32 {
        // SAFETY: the text has so many bytes, and is copied.
        let found =
            unsafe { raw::weigh_region_name_of(self.text.as_ptr().cast(), self.text.len()) };
        self.number.store(found, Ordering::Relaxed);
        found
    }

    /// A region begins; it ends when it is dropped.
    #[inline]
    pub fn region(&self) -> Region {
        let number = if is_active() { self.number() } else { 0 };
        if number != 0 {
            // SAFETY: any number will do.
            unsafe { raw::weigh_region_begin(number) };
        }
        Region { number, _of_this_thread: PhantomData }
    }

    /// The same with the number of an iteration.
    #[inline]
    pub fn phase(&self, iteration: u64) -> Region {
        let number = if is_active() { self.number() } else { 0 };
        if number != 0 {
            // SAFETY: any number will do.
            unsafe { raw::weigh_phase_begin(number, iteration) };
        }
        Region { number, _of_this_thread: PhantomData }
    }

    /// Adds to the counter of this name.
    #[inline]
    pub fn count(&self, number: i64) {
        if is_active() {
            // SAFETY: any number will do.
            unsafe { raw::weigh_counter_add(self.number(), number) };
        }
    }

    /// Sets the gauge of this name.
    pub fn set(&self, value: f64) {
        if is_active() {
            // SAFETY: any number will do.
            unsafe { raw::weigh_gauge_set(self.number(), value) };
        }
    }

    /// Tells of an event of this name.
    pub fn tell(&self, value: f64) {
        if is_active() {
            // SAFETY: any number will do.
            unsafe { raw::weigh_event_tell(self.number(), value) };
        }
    }
}

/// The [`RegionName`](crate::RegionName) of this place in the source.
#[macro_export]
macro_rules! name {
    ($text:literal) => {{
        static NAME: $crate::RegionName = $crate::RegionName::new($text);
        &NAME
    }};
}

/// A region from here to the drop of what this gives.
#[macro_export]
macro_rules! region {
    ($text:literal) => {
        $crate::name!($text).region()
    };
}

/// Says something about the program; the last value of a key counts. A text with a zero inside is none.
pub fn metadata(key: &str, value: &str) {
    if let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) {
        // SAFETY: both end with a zero, and are copied.
        unsafe { raw::weigh_metadata(key.as_ptr(), value.as_ptr()) };
    }
}

/// Gives the profile out as it stands.
pub fn publish() {
    // SAFETY: it has no conditions.
    unsafe { raw::weigh_publish() };
}

/// Publishes by itself from now on: each so many seconds, and at each so many ends of a phase; 0: not by that.
pub fn publish_every(seconds: f64, phase: Option<&RegionName>, iterations: u64) {
    let phase = phase.map_or(0, RegionName::number);
    // SAFETY: any number will do.
    unsafe { raw::weigh_publish_every(seconds, phase, iterations) };
}

/// What a client has sent to the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// 1: a value under a key of the program's own; other kinds concern libweigh, which has carried them out.
    pub kind: u64,
    /// A number, where it has one.
    pub number: f64,
    /// Its key.
    pub key: String,
    /// Its text.
    pub text: String,
}

/// The next thing that was sent, oldest first.
pub fn poll_control() -> Option<Control> {
    let mut control = raw::Control { kind: 0, number: 0.0, key: [0; 65], text: [0; 169] };
    // SAFETY: it is written as a whole if there is one.
    if unsafe { raw::weigh_poll_control_(&mut control) } == 0 {
        return None;
    }
    let (key, text_of) = (text(&control.key), text(&control.text));
    Some(Control { kind: control.kind, number: control.number, key, text: text_of })
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Programs that it concerns.
    pub processes: u32,
    /// Of these: which have taken it.
    pub taken: u32,
    /// Which have not yet.
    pub waiting: u32,
    /// Which have ended.
    pub ended: u32,
}

/// Sends a request to programs under `weigh run`, and waits at most so long until they have taken it. The target is the PID of
/// one of them or of its `weigh run`, the job's name, or the directory of its recording.
///
/// # Errors
/// With the reason if it was not sent to each program.
pub fn send_control(target: &str, request: &Control, wait: Duration) -> Result<Sent, String> {
    let target = CString::new(target).map_err(|_| "a target has no zero byte".to_string())?;
    let mut sent =
        raw::Control { kind: request.kind, number: request.number, key: [0; 65], text: [0; 169] };
    put(&mut sent.key, &request.key)?;
    put(&mut sent.text, &request.text)?;
    let mut outcome =
        raw::Sent { processes: 0, taken: 0, waiting: 0, ended: 0, refused: 0, why: [0; 200] };
    // SAFETY: texts end with a zero; the outcome is written as a whole.
    let failed = unsafe {
        raw::weigh_control_send(target.as_ptr(), &sent, wait.as_secs_f64(), &mut outcome)
    };
    if failed != 0 {
        return Err(text(&outcome.why));
    }
    let raw::Sent { processes, taken, waiting, ended, .. } = outcome;
    Ok(Sent { processes, taken, waiting, ended })
}

/// With a zero behind it.
fn put(room: &mut [u8], text: &str) -> Result<(), String> {
    if text.len() >= room.len() || text.contains('\0') {
        return Err(format!(
            "a key or value has at most {} bytes, none of them zero",
            room.len() - 1
        ));
    }
    room[..text.len()].copy_from_slice(text.as_bytes());
    Ok(())
}

/// Why no regions are kept; none if they are.
pub fn regions_why() -> Option<String> {
    // SAFETY: it has no conditions; the text is a constant of the library.
    let text = unsafe { raw::weigh_regions_why() };
    // SAFETY: it is a null pointer or that text.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
