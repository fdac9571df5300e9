//! How much a recording holds of regions: a program may tell of phases and events as fast as it can, for days.

/// So many rows of each kind.
const MOST: u64 = 1_000_000;

/// Rows that may still be recorded, and those that could not be.
#[derive(Debug, Default)]
pub(super) struct RowBudget {
    rows: Rows,
    phases: Rows,
    samples: Rows,
}

#[derive(Debug, Default)]
struct Rows {
    taken: u64,
    left_out: u64,
}

impl Rows {
    fn takes(&mut self, count: u64) -> bool {
        let is_room = self.taken + count <= MOST;
        let sum = if is_room { &mut self.taken } else { &mut self.left_out };
        *sum += count;
        is_room
    }
}

impl RowBudget {
    pub fn takes_row(&mut self) -> bool {
        self.rows.takes(1)
    }

    pub fn takes_phase(&mut self) -> bool {
        self.phases.takes(1)
    }

    pub fn takes_samples(&mut self, count: u64) -> bool {
        self.samples.takes(count)
    }

    /// What was left out, by what it was.
    pub fn left_out(&self) -> [(&'static str, u64); 3] {
        [
            ("rows", self.rows.left_out),
            ("phase_rows", self.phases.left_out),
            ("samples", self.samples.left_out),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_is_counted() {
        let mut budget = RowBudget::default();
        assert_eq!((0..MOST + 3).filter(|_| budget.takes_phase()).count() as u64, MOST);
        assert!(budget.takes_samples(MOST) && !budget.takes_samples(7) && budget.takes_row());
        assert_eq!(budget.left_out(), [("rows", 0), ("phase_rows", 3), ("samples", 7)]);
    }
}
