//! Events of a `weigh trace` that runs, read while they happen.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use crate::event::HEADER_BYTES;
use crate::{FieldKind, Header, Reason, raw};

/// No record is larger.
const MOST_RECORD: usize = 32760;
/// Nor is an answer of a stream's.
const MOST_ANSWER: usize = 1 << 20;

/// How a stream is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Which of its buffers, by the name that it has there; none: the first.
    pub buffer: Option<String>,
    /// The reader is waked as soon as so many bytes have come; 0: not by that. If all of these are 0, by 64 KiB, or after 100 ms.
    pub bytes: u64,
    /// The same, events. 1: for each.
    pub count: u64,
    /// The same, so long after something has come; whole milliseconds.
    pub time: Duration,
}

/// What a reader has not got since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// It was overtaken by the stream.
    pub overrun: u64,
    /// Nobody got it: the rings were full, or the kernel passed over the probe.
    pub missing: u64,
}

/// Where a field lies in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    bytes: usize,
    kind: FieldKind,
    absent: u32,
}

impl Field {
    /// What it is.
    pub fn kind(&self) -> FieldKind {
        self.kind
    }
}

/// A reader of a stream: it has its own position, and nobody else loses anything by it. See `weigh.h`.
pub struct Stream {
    handle: NonNull<raw::TraceHandle>,
    record: Vec<u8>,
}

// SAFETY: libweigh keeps nothing of a reader in the thread that opened it; it is one thread's at a time, which `&mut`
// and not being `Sync` see to.
unsafe impl Send for Stream {}

impl Stream {
    /// Reads the stream of that process.
    pub fn open(pid: u32, options: &StreamOptions) -> Result<Stream, Reason> {
        let pid = i32::try_from(pid).map_err(|_| Reason::NoStream)?;
        Stream::begin(options, |buffer, wake, reason| {
            // SAFETY: the text, if there is one, and both others outlive the call.
            unsafe { raw::weigh_trace_open_buffer(pid, buffer, wake, reason) }
        })
    }

    /// Reads the stream that listens at that socket.
    pub fn open_at(path: &Path, options: &StreamOptions) -> Result<Stream, Reason> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Reason::NoStream)?;
        Stream::begin(options, |buffer, wake, reason| {
            // SAFETY: as above; so does the path.
            unsafe { raw::weigh_trace_open_buffer_at(path.as_ptr(), buffer, wake, reason) }
        })
    }

    fn begin(
        options: &StreamOptions,
        open: impl FnOnce(
            *const std::ffi::c_char,
            *const raw::TraceWake,
            *mut u32,
        ) -> *mut raw::TraceHandle,
    ) -> Result<Stream, Reason> {
        let StreamOptions { buffer, bytes, count, time } = options;
        let buffer = buffer.as_deref().map(CString::new).transpose();
        let buffer = buffer.map_err(|_| Reason::NoBuffer)?;
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let wake = raw::TraceWake { bytes: *bytes, count: *count, milliseconds };
        let mut reason = Reason::Measured as u32;
        let name = buffer.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        let handle = open(name, &raw const wake, &raw mut reason);
        Reason::check(reason)?;
        let handle = NonNull::new(handle).ok_or(Reason::NoMemory)?;
        Ok(Stream { handle, record: vec![0; MOST_RECORD] })
    }

    fn raw(&self) -> *mut raw::TraceHandle {
        self.handle.as_ptr()
    }

    /// The next event, the oldest of those that are there, whole: a copy of it, good until the next call. None if there
    /// is none within that time (none: it waits until there is one), or the stream has ended: [`Stream::has_ended`].
    pub fn next(&mut self, timeout: Option<Duration>) -> Option<Event<'_>> {
        let until = timeout.map(|timeout| std::time::Instant::now() + timeout);
        let size = loop {
            let left =
                until.map(|until| until.saturating_duration_since(std::time::Instant::now()));
            let left = left.map_or(-1, |left| i32::try_from(left.as_millis()).unwrap_or(i32::MAX));
            // SAFETY: the reader is open, and this thread's alone for now.
            if unsafe { raw::weigh_trace_next(self.raw(), left) }.is_null() {
                return None;
            }
            let to = self.record.as_mut_ptr().cast();
            // SAFETY: as above; there is so much room.
            let size = unsafe { raw::weigh_trace_copy(self.raw(), to, self.record.len()) };
            // What was written over while it was copied is lost, and counted.
            if (HEADER_BYTES..=self.record.len()).contains(&size) {
                break size;
            }
        };
        let record = &self.record[..size];
        Header::of(record).map(|header| Event { header, record })
    }

    /// Whether the stream, or the buffer that is read, has ended.
    pub fn has_ended(&self) -> bool {
        // SAFETY: the reader is open.
        unsafe { raw::weigh_trace_why(self.raw()) == Reason::Gone as u32 }
    }

    /// What was lost of an event, by its number, or of all.
    pub fn lost(&mut self, event: Option<u32>) -> Lost {
        let mut lost = raw::TraceLost::default();
        // SAFETY: the reader is open, and this thread's alone for now; the other outlives the call.
        unsafe { raw::weigh_trace_lost(self.raw(), event.unwrap_or(u32::MAX), &raw mut lost) };
        Lost { overrun: lost.overrun, missing: lost.missing }
    }

    /// An event's name, by its number.
    pub fn name(&self, event: u32) -> Option<String> {
        let mut name = [0; 256];
        // SAFETY: the reader is open, and there is so much room.
        let length = unsafe {
            raw::weigh_trace_name(self.raw(), event, name.as_mut_ptr().cast(), name.len())
        };
        let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| length > 0)?;
        Some(name.to_string_lossy().into_owned())
    }

    /// A field of an event, by the name that the stream has for it.
    pub fn field(&self, event: u32, name: &str) -> Result<Field, Reason> {
        let name = CString::new(name).map_err(|_| Reason::NoField)?;
        let mut field = raw::TraceField::default();
        // SAFETY: the reader is open; name and field outlive the call.
        Reason::check(unsafe {
            raw::weigh_trace_field(self.raw(), event, name.as_ptr(), &raw mut field)
        })?;
        let raw::TraceField { offset, bytes, kind, absent } = field;
        // Of a newer library.
        let kind = FieldKind::numbered(kind).ok_or(Reason::OtherVersion)?;
        Ok(Field { offset: offset as usize, bytes: bytes as usize, kind, absent })
    }

    /// All events with their fields, as JSON.
    pub fn description(&self) -> String {
        // SAFETY: the reader is open; the text is good until the next event is asked for, and it is copied here.
        let text = unsafe { CStr::from_ptr(raw::weigh_trace_description(self.raw())) };
        text.to_string_lossy().into_owned()
    }

    /// Asks what `weigh trace ctl` asks, as a line of JSON; the answer, which is JSON, too, also with
    /// [`Reason::Refused`].
    pub fn control(&mut self, request: &str) -> Result<String, (Reason, String)> {
        let none = |reason| (reason, String::new());
        let request = CString::new(request).map_err(|_| none(Reason::NotUnderstood))?;
        let mut answer = vec![0u8; MOST_ANSWER];
        // SAFETY: the reader is open, and this thread's alone for now; there is so much room.
        let reason = unsafe {
            raw::weigh_trace_control(
                self.raw(),
                request.as_ptr(),
                answer.as_mut_ptr().cast(),
                answer.len(),
            )
        };
        let answer = CStr::from_bytes_until_nul(&answer).unwrap_or_default();
        let answer = answer.to_string_lossy().into_owned();
        Reason::check(reason).map_err(|reason| (reason, answer.clone()))?;
        Ok(answer)
    }
}

/// Readable (poll, epoll) when the reader is waked, and when the stream has ended; [`Stream::next`] clears it.
impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the reader is open, and its descriptor stays so as long as it is.
        unsafe { BorrowedFd::borrow_raw(raw::weigh_trace_fd(self.raw())) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it was opened once, and nothing borrows from it any more.
        unsafe { raw::weigh_trace_close(self.raw()) }
    }
}

/// An event. A field is absent if it could not be had, or is one of another event's that does not fit.
#[derive(Clone, Copy, Debug)]
pub struct Event<'s> {
    header: Header,
    record: &'s [u8],
}

impl<'s> Event<'s> {
    /// What every event has.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// A field as it lies there: numbers are little-endian, a stack has 8 bytes for each address. The last one ends with
    /// the event.
    pub fn value(&self, field: &Field) -> Option<&'s [u8]> {
        let is_there = self.header.absent & field.absent == 0;
        let end = field.offset.checked_add(field.bytes)?.min(self.record.len());
        self.record.get(field.offset..end).filter(|_| is_there)
    }

    /// A field that is a number; one that can be below 0 is to be taken for an `i64`.
    pub fn number(&self, field: &Field) -> Option<u64> {
        if matches!(
            field.kind,
            FieldKind::Text
                | FieldKind::Bytes
                | FieldKind::Stack
                | FieldKind::Ustack
                | FieldKind::Ip
        ) {
            return None;
        }
        let value = self.value(field)?;
        let is_below =
            field.kind == FieldKind::Signed && value.last().is_some_and(|last| last & 0x80 != 0);
        let mut bytes = [if is_below { 0xff } else { 0 }; 8];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(u64::from_le_bytes(bytes))
    }

    /// A field that is a text, up to its end.
    pub fn text(&self, field: &Field) -> Option<&'s [u8]> {
        let value = self.value(field).filter(|_| field.kind == FieldKind::Text)?;
        value.split(|byte| *byte == 0).next()
    }

    /// The addresses of a stack, the innermost first.
    pub fn stack(&self, field: &Field) -> Option<impl Iterator<Item = u64> + use<'s>> {
        let is_stack = matches!(field.kind, FieldKind::Stack | FieldKind::Ustack);
        let (words, _) = self.value(field).filter(|_| is_stack)?.as_chunks::<8>();
        Some(words.iter().map(|word| u64::from_le_bytes(*word)).take_while(|word| *word != 0))
    }
}
