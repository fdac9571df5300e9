//! From the bytes of a record to the values of its fields.
//!
//! Reads the beginning of what is left of a record, and takes it off; refuses what is too short.

use crate::counter::{Counter, CounterValues};

/// What a record's bytes are taken for.
pub trait Field: Sized {
    /// How many there are.
    const BYTES: usize;

    /// Takes the field off the beginning of a record; none if that is too short.
    fn take(record: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),+) => { $(
        impl Field for $number {
            const BYTES: usize = size_of::<$number>();

            fn take(record: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = record.split_first_chunk()?;
                *record = rest;
                Some(<$number>::from_ne_bytes(*bytes))
            }
        }
    )+ };
}
numbers!(u8, u32, u64, i64);

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    const BYTES: usize = N * T::BYTES;

    fn take(record: &mut &[u8]) -> Option<Self> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::take(record)?;
        }
        Some(values)
    }
}

impl Field for CounterValues {
    const BYTES: usize = <[u64; Counter::COUNT]>::BYTES;

    fn take(record: &mut &[u8]) -> Option<Self> {
        Field::take(record).map(CounterValues)
    }
}
