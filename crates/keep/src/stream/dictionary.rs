//! Which number of a list each of a column's values is, while they are few.

/// More are too many: then a value is shorter by itself.
const MOST: usize = 2048;
/// Places to look for one: a power of 2, and more than there can be values.
const PLACES: usize = 4 * MOST;
/// A place that nobody has.
const FREE: u16 = u16::MAX;

/// The values of a column that have come.
pub(super) struct Dictionary {
    values: Vec<i64>,
    /// Where each is in that list.
    places: Vec<(i64, u16)>,
    last: Option<(i64, u16)>,
}

impl Dictionary {
    pub(super) fn new() -> Dictionary {
        Dictionary { values: Vec::new(), places: vec![(0, FREE); PLACES], last: None }
    }

    /// Which one it is; none if there are too many.
    pub(super) fn index(&mut self, value: i64) -> Option<u16> {
        if let Some((last, index)) = self.last
            && last == value
        {
            return Some(index);
        }
        let index = self.find(value)?;
        self.last = Some((value, index));
        Some(index)
    }

    fn find(&mut self, value: i64) -> Option<u16> {
        // Addresses are multiples of 8 and more: the upper bits of the product have all of them.
        let product = value.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut at = (product >> (u64::BITS - PLACES.trailing_zeros())) as usize;
        loop {
            let place = &mut self.places[at % PLACES];
            if place.1 == FREE {
                if self.values.len() >= MOST {
                    return None;
                }
                *place = (value, self.values.len() as u16);
                self.values.push(value);
                return Some(place.1);
            }
            if place.0 == value {
                return Some(place.1);
            }
            at += 1;
        }
    }

    /// In the order in which they came.
    pub(super) fn values(&self) -> &[i64] {
        &self.values
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.places.fill((0, FREE));
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_again_until_there_are_too_many() {
        let mut dictionary = Dictionary::new();
        for round in 0..2 {
            for value in 0..MOST as i64 {
                let value = (value << 12) - 77;
                assert_eq!(dictionary.index(value), Some(((value + 77) >> 12) as u16), "{round}");
            }
        }
        assert_eq!(dictionary.index(1), None);
        assert_eq!(dictionary.index(-77), Some(0));
        assert_eq!(dictionary.values().len(), MOST);
        dictionary.clear();
        assert_eq!(dictionary.index(1), Some(0));
        assert_eq!(dictionary.values(), [1]);
    }
}
