//! What the kernel side reports and keeps, as bytes: a process with privileges hands it on to one without, which
//! reads it. So whatever is told of a file is declared once, however it comes.
//!
//! Things lie one behind the other, each behind its length. What is cut off is nothing.

use weigh_schema::io::{Event, Process, Use};

use super::layout;

/// What the kernel side keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// What processes do with files that they have open.
    Uses,
    /// What devices did with files.
    Devices,
    /// The processes that live.
    Processes,
    /// AIO requests that no call has handed over.
    Requests,
    /// What found no room by file and process.
    Rest,
}

/// Things that were told, as the kernel side has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBatch(Vec<u8>);

impl RecordBatch {
    /// Changes with the layout of what is sent: a reader that finds another number cannot read it.
    pub fn layout() -> u64 {
        let sizes = layout::SIZES.map(|size| size.to_string()).join(" ");
        let text = weigh_schema::io::c_header() + env!("CARGO_PKG_VERSION") + &sizes;
        // FNV-1a.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// As somebody has handed it on.
    pub fn from_bytes(bytes: Vec<u8>) -> RecordBatch {
        RecordBatch(bytes)
    }

    /// The same, to be handed on whole.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// To be handed on.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more: an entry's key and value, or a record.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        // None is longer than a path.
        let length = (key.len() + value.len()) as u32;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value);
    }

    /// What came after it.
    pub fn append(&mut self, more: &RecordBatch) {
        self.0.extend_from_slice(&more.0);
    }

    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = self.0.as_slice();
        std::iter::from_fn(move || {
            let (length, behind) = left.split_first_chunk()?;
            let length = u32::from_ne_bytes(*length) as usize;
            let one = behind.get(..length)?;
            left = &behind[length..];
            Some(one)
        })
    }

    /// Records; times are counted from then.
    pub fn events(&self, began_ns: u64) -> impl Iterator<Item = Event> {
        self.each().filter_map(move |record| layout::event(record, began_ns))
    }

    /// [`RecordKind::Uses`], and [`RecordKind::Rest`].
    pub fn uses(&self, began_ns: u64) -> impl Iterator<Item = Use> {
        let of = move |entry: &[u8]| {
            let (key, value) = entry.split_at_checked(layout::KEY_BYTES)?;
            layout::used(key, value, began_ns)
        };
        self.each().filter_map(of)
    }

    /// [`RecordKind::Devices`].
    pub fn of_devices(&self, began_ns: u64) -> impl Iterator<Item = Use> {
        let of = move |entry: &[u8]| {
            let (key, value) = entry.split_at_checked(layout::KEY_BYTES)?;
            layout::of_device(key, value, began_ns)
        };
        self.each().filter_map(of)
    }

    /// [`RecordKind::Processes`].
    pub fn processes(&self, began_ns: u64) -> impl Iterator<Item = Process> {
        let of = move |entry: &[u8]| {
            let (_, value) = entry.split_at_checked(size_of::<u32>())?;
            layout::process(value, began_ns)
        };
        self.each().filter_map(of)
    }

    /// [`RecordKind::Requests`].
    pub fn requests(&self) -> impl Iterator<Item = Use> {
        let of = |entry: &[u8]| {
            let (_, value) = entry.split_at_checked(layout::REQUEST_KEY_BYTES)?;
            layout::request(value)
        };
        self.each().filter_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_and_what_is_cut_off_does_not() {
        let mut told = RecordBatch::default();
        assert!(told.is_empty());
        told.push(b"", b"one");
        told.push(b"t", b"wo");
        told.push(b"", b"");
        let whole: Vec<&[u8]> = told.each().collect();
        assert_eq!(whole, [&b"one"[..], b"two", b""]);
        for length in 0..told.bytes().len() {
            let cut = RecordBatch::from_bytes(told.bytes()[..length].to_vec());
            assert!(cut.each().count() < 3, "{length}");
            assert!(cut.each().zip(&whole).all(|(found, expected)| found == *expected));
        }
    }

    #[test]
    fn entries_that_are_too_short_are_none() {
        let mut told = RecordBatch::default();
        for length in [0, 1, 4, 23, 24, 32, 200] {
            told.push(&[1; 3][..3.min(length)], &vec![1; length.saturating_sub(3)]);
        }
        assert_eq!(told.uses(0).count(), 0);
        assert_eq!(told.events(0).count(), 0);
    }
}
