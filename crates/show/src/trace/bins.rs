//! Columns of time, of which there are always as many: when what comes lies behind the last, two become one.

/// So many.
pub const COLUMNS: usize = 256;
/// How wide they are at first.
const FIRST_NS: u64 = 1000;

/// How wide they are.
pub struct Bins {
    /// In nanoseconds.
    pub width_ns: u64,
}

impl Default for Bins {
    fn default() -> Bins {
        Bins { width_ns: FIRST_NS }
    }
}

impl Bins {
    /// Whether a time lies behind the last.
    pub fn is_behind(&self, at_ns: u64) -> bool {
        at_ns / self.width_ns >= COLUMNS as u64
    }

    /// The column of a time.
    pub fn column(&self, at_ns: u64) -> usize {
        ((at_ns / self.width_ns) as usize).min(COLUMNS - 1)
    }

    /// Makes them twice as wide; all that is counted in them has to be folded.
    pub fn double(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
    }
}

/// Counts, a number for each column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(pub Vec<u32>);

impl Default for Columns {
    fn default() -> Columns {
        Columns(vec![0; COLUMNS])
    }
}

impl Columns {
    /// One more.
    pub fn add(&mut self, column: usize) {
        self.0[column] = self.0[column].saturating_add(1);
    }

    /// Two become one.
    pub fn fold(&mut self) {
        for column in 0..COLUMNS / 2 {
            self.0[column] = self.0[2 * column].saturating_add(self.0[2 * column + 1]);
        }
        self.0[COLUMNS / 2..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_stays_where_it_was() {
        let (mut bins, mut columns) = (Bins::default(), Columns::default());
        let times = [0, 999, 1000, 200_000, 255_999, 700_000];
        for at in times {
            while bins.is_behind(at) {
                bins.double();
                columns.fold();
            }
            columns.add(bins.column(at));
        }
        assert_eq!(bins.width_ns, 4000);
        let mut expected = vec![0; COLUMNS];
        times.iter().for_each(|at| expected[(at / 4000) as usize] += 1);
        assert_eq!(columns.0, expected);
    }
}
