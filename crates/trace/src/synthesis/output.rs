//! What comes of records.

use crate::record::Record;

/// What comes of a record.
#[derive(Default)]
pub struct Out {
    /// What joins it with others.
    pub flows: Vec<u64>,
    /// Records of derived events, one behind the other.
    pub records: Vec<u8>,
}

impl Out {
    /// The records of derived events.
    pub fn derived(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = self.records.as_slice();
        std::iter::from_fn(move || {
            let size = Record::new(rest)?.size() as usize;
            let (record, behind) = rest.split_at_checked(size)?;
            rest = behind;
            Record::new(record)
        })
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.flows.clear();
        self.records.clear();
    }
}
