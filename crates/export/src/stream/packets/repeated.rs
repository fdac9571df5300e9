//! What is made of a packet's record besides its time and its bytes: its device, thread, CPU and link header, which
//! mostly are those of the packet before it.

use weigh_trace::probe::Probe;
use weigh_trace::record::Record;

use super::layout::Layout;

/// The records of a probe, and what was made of the last one.
pub struct Repeated<T> {
    /// Where a packet lies in them.
    pub layout: Layout,
    /// The bits of each word of a record that it is made of.
    mask: Box<[u64]>,
    /// Those words of the last record, if it had all of them.
    words: Box<[u64]>,
    had_words: bool,
    made: Option<T>,
}

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

impl<T> Repeated<T> {
    /// Refuses an event without the fields of packets.
    pub fn new(probe: &Probe) -> anyhow::Result<Repeated<T>> {
        let layout = Layout::new(probe)?;
        let parts = layout.repeated(probe);
        let end = parts.iter().map(|part| part.end).max().unwrap_or_default();
        let mut bytes = vec![0; end.next_multiple_of(WORD)];
        parts.into_iter().for_each(|part| bytes[part].fill(u8::MAX));
        let mask: Box<[u64]> = words(&bytes).collect();
        Ok(Repeated {
            layout,
            words: vec![0; mask.len()].into(),
            mask,
            had_words: false,
            made: None,
        })
    }

    /// Another probe, with this number: each has one of its own, in the order in which they come.
    pub fn add(
        all: &mut Vec<Option<Repeated<T>>>,
        number: usize,
        probe: &Probe,
    ) -> anyhow::Result<()> {
        let added = Repeated::new(probe)?;
        all.resize_with(number, || None);
        all.push(Some(added));
        Ok(())
    }

    /// What is made of a record: that of the last one, if nothing differs that it is made of.
    pub fn find(&mut self, record: Record<'_>, make: impl FnOnce() -> T) -> &T {
        let bytes = record.bytes().get(..self.mask.len() * WORD);
        if !self.is_same(bytes) {
            self.made = None;
            self.had_words = bytes.is_some();
            let each = words(bytes.unwrap_or_default());
            self.words.iter_mut().zip(each).for_each(|(last, word)| *last = word);
        }
        self.made.get_or_insert_with(make)
    }

    fn is_same(&self, bytes: Option<&[u8]>) -> bool {
        let Some(bytes) = bytes.filter(|_| self.had_words) else { return false };
        let each = words(bytes).zip(&self.words).zip(&self.mask);
        each.fold(0, |differing, ((word, last), mask)| differing | (word ^ last) & mask) == 0
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use weigh_trace::field_kind::FieldKind;
    use weigh_trace::probe::ProbeField;
    use weigh_trace::record::{HEADER_BYTES, offset};
    use weigh_trace::signature::Attach;

    const FIELDS: [(&str, FieldKind, u32, u32); 9] = [
        ("dev", FieldKind::Text, 40, 16),
        ("process", FieldKind::Text, 56, 16),
        ("packet_length", FieldKind::Unsigned, 72, 4),
        ("packet_kept", FieldKind::Unsigned, 76, 4),
        ("ifindex", FieldKind::Unsigned, 80, 4),
        ("mac", FieldKind::Unsigned, 84, 2),
        ("network", FieldKind::Unsigned, 86, 2),
        ("type", FieldKind::Unsigned, 88, 2),
        ("packet", FieldKind::Bytes, 90, 64),
    ];

    /// A probe of packets.
    pub fn probe() -> Probe {
        let field = |(name, kind, offset, bytes): (&str, FieldKind, u32, u32)| {
            let (shape, content) = kind.as_read(bytes, false);
            let (name, constants) = (name.to_string(), Vec::new());
            ProbeField { name, shape, is_signed: false, offset, bytes, content, constants }
        };
        Probe {
            name: "packets".to_string(),
            attach: Attach::Tracepoint { btf_id: 0, module: None },
            id: None,
            has_own_id: false,
            fields: FIELDS.map(field).to_vec(),
            test: None,
            sampling: None,
            only: None,
            compatible: None,
            packet: None,
            owner: None,
            record_bytes: 154,
        }
    }

    /// A record with another byte at each of these places.
    pub fn record(others: &[usize]) -> Vec<u8> {
        let mut bytes = vec![7; 154];
        bytes[offset::size..offset::time_ns].copy_from_slice(&154u32.to_le_bytes());
        others.iter().for_each(|place| bytes[*place] = 9);
        bytes
    }

    #[test]
    fn nothing_is_made_anew_as_long_as_nothing_differs_that_it_is_made_of() {
        let mut repeated = Repeated::new(&probe()).unwrap();
        let mut made = 0;
        let mut find = |bytes: &[u8]| {
            let record = Record::new(bytes).unwrap();
            let layout = repeated.layout;
            let read = || (layout.device(record), layout.thread(record), layout.link(record));
            let found = repeated.find(record, || {
                made += 1;
                read()
            });
            assert_eq!(*found, read());
            made
        };
        assert_eq!([find(&record(&[])), find(&record(&[]))], [1, 1]);
        // Event, time, id, how long it is, and the packet itself, from its first byte on.
        assert_eq!(find(&record(&[offset::event, offset::time_ns, offset::id, 72, 76, 90, 99])), 1);
        let places = [offset::cpu, offset::tgid, offset::tid + 3, 40, 55, 71, 83, 85, 86, 89];
        for (number, place) in (2..).step_by(2).zip(places) {
            assert_eq!(find(&record(&[place])), number, "{place}");
            assert_eq!(find(&record(&[])), number + 1, "{place}");
        }
        // One that ends too early is like no other.
        let mut short = record(&[])[..HEADER_BYTES].to_vec();
        short[offset::size] = HEADER_BYTES as u8;
        assert_eq!([find(&short), find(&short)], [22, 23]);
        assert_eq!([find(&record(&[])), find(&record(&[]))], [24, 24]);
    }
}
