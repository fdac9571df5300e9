//! A number of some calls: how many have any, its mean, and how sure that is; and whether it differs on two
//! sides.

/// Means that differ by less than this factor are not named.
const LEAST_RATIO: f64 = 1.25;
/// Nor is what differs by less than so many standard errors: so much comes by chance, now and then,
/// where so many numbers are compared.
pub(super) const LEAST_ERRORS: f64 = 3.0;

/// What some calls have of a number.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Calls of which the number is known.
    pub(super) known: u64,
    /// Those that had any.
    pub(super) calls: u64,
    /// As accounts hold it: whole numbers, whose sum is exact.
    sum: f64,
    squares: f64,
}

impl Tally {
    pub(super) fn add(&mut self, raw: u64) {
        self.known += 1;
        if raw > 0 {
            self.calls += 1;
            self.sum += raw as f64;
            self.squares += raw as f64 * raw as f64;
        }
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.known.max(1) as f64
    }

    pub(super) fn variance(&self) -> f64 {
        let squares = (self.squares - self.sum * self.mean()).max(0.0);
        squares / (self.known.max(2) - 1) as f64
    }

    /// The square of the error of the mean. One call alone does not say how unlike calls are: the others do.
    fn error(&self, others: &Tally) -> f64 {
        match self.known {
            1 => others.variance(),
            _ => self.variance() / self.known.max(1) as f64,
        }
    }
}

pub(super) fn great_and_small(slow: &Tally, ordinary: &Tally) -> (f64, f64) {
    (slow.mean().max(ordinary.mean()), slow.mean().min(ordinary.mean()))
}

/// Whether the means differ by `least`, by a factor that matters, and by more than chance makes them.
pub(super) fn differ(slow: &Tally, ordinary: &Tally, least: f64) -> bool {
    let (more, less) = great_and_small(slow, ordinary);
    let by_chance = (slow.error(ordinary) + ordinary.error(slow)).sqrt() * LEAST_ERRORS;
    slow.known > 0
        && ordinary.known > 0
        && more >= less * LEAST_RATIO
        && more - less >= least.max(by_chance)
}
