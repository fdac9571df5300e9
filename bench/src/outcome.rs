//! What a tool said in a case, run after run, beside the truth. Pure.

use weigh_schema::Quality;

use crate::tools::{Figure, Quantity};

/// What came of the runs of one case under one tool.
#[derive(Clone, Debug)]
pub struct Outcome {
    quantity: Quantity,
    /// What was said, and the truth of the same run.
    pairs: Vec<(f64, f64)>,
    /// Runs of which the tool gives no figure.
    silent: bool,
    /// The tool has such a figure, and says that it does not know this one.
    unknown: bool,
    /// The program did not come to tell the truth.
    cut_short: bool,
    failure: Option<String>,
    quality: Option<Quality>,
    reason: Option<String>,
}

impl Outcome {
    /// No run yet.
    pub fn of(quantity: Quantity) -> Outcome {
        Outcome {
            quantity,
            pairs: Vec::new(),
            silent: false,
            unknown: false,
            cut_short: false,
            failure: None,
            quality: None,
            reason: None,
        }
    }

    /// One more run.
    pub fn add(&mut self, figure: Option<Figure>, truth: Option<f64>) {
        let Some(figure) = figure else {
            self.silent = true;
            return;
        };
        let worse = |quality: Quality| quality == Quality::Exact;
        if self.quality.is_none_or(worse) {
            (self.quality, self.reason) = (figure.quality, figure.reason);
        }
        match (figure.value, truth) {
            (None, _) => self.unknown = true,
            (_, None) => self.cut_short = true,
            (Some(said), Some(truth)) => self.pairs.push((said, truth)),
        }
    }

    /// A run that came to nothing.
    pub fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Whether the tool has no such figure.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether this is a figure of the kind that the tool does not give in the other case.
    pub fn is_heard_beside(&self, other: &Outcome) -> bool {
        other.silent && !self.silent && self.quantity == other.quantity
    }

    fn is_count(&self) -> bool {
        !matches!(self.quantity, Quantity::Memory | Quantity::Cpu)
    }

    /// How far the worst run is off: in percent, or as a number where something is counted. Absent
    /// where there is nothing to compare.
    pub fn worst(&self) -> Option<f64> {
        if self.silent || self.unknown || self.cut_short || self.failure.is_some() {
            return None;
        }
        let error = |(said, truth): &(f64, f64)| {
            if self.is_count() { said - truth } else { (said / truth - 1.0) * 100.0 }
        };
        self.pairs.iter().map(error).max_by(|a, b| a.abs().total_cmp(&b.abs()))
    }

    /// For a table: the worst run, and a letter for what is not called exact.
    pub fn cell(&self) -> String {
        if self.silent {
            return "–".to_string();
        }
        if self.failure.is_some() {
            return "failed".to_string();
        }
        if self.unknown {
            return "unavailable".to_string();
        }
        if self.cut_short {
            return "ended it".to_string();
        }
        let Some(error) = self.worst() else { return "–".to_string() };
        let mark = match self.quality {
            Some(Quality::Sampled) => " *s*",
            Some(Quality::Estimated) => " *e*",
            _ => "",
        };
        if self.is_count() {
            let sign = if error > 0.0 { "+" } else { "" };
            return format!("{sign}{error}{mark}").replace('-', "−");
        }
        let digits = if error.abs() < 10.0 { 2 } else { 0 };
        format!("{error:+.digits$} %{mark}").replace('-', "−")
    }

    /// Whether the tool says that the figure is exact, or within which bounds it is.
    pub fn claims(&self) -> bool {
        let bounded = self.reason.as_deref().and_then(bounds).is_some();
        !self.pairs.is_empty() && (self.quality == Some(Quality::Exact) || bounded)
    }

    /// Whether what it says of the figure's quality holds.
    pub fn is_honest(&self) -> bool {
        let off = |(said, truth): &(f64, f64)| (said - truth).abs() / truth.max(1.0);
        let tolerance = if self.is_count() { 0.0 } else { 0.005 };
        match (self.quality, self.reason.as_deref().and_then(bounds)) {
            (Some(Quality::Exact), _) => self.pairs.iter().all(|pair| off(pair) <= tolerance),
            (Some(_), Some((low, high))) => self.pairs.iter().all(|(_, truth)| {
                *truth >= low * (1.0 - tolerance) && *truth <= high * (1.0 + tolerance)
            }),
            _ => true,
        }
    }

    /// For the table of everything: truth, what was said, quality, reason.
    pub fn details(&self) -> [String; 4] {
        let number = |value: f64| match self.quantity {
            Quantity::Cpu => format!("{value:.3}"),
            _ => format!("{value:.0}"),
        };
        let said: Vec<f64> = self.pairs.iter().map(|pair| pair.0).collect();
        let least = said.iter().copied().reduce(f64::min);
        let greatest = said.iter().copied().reduce(f64::max);
        let said = match (least, greatest) {
            (Some(least), Some(greatest)) if number(least) == number(greatest) => number(least),
            (Some(least), Some(greatest)) => format!("{} … {}", number(least), number(greatest)),
            _ => self.cell(),
        };
        let truth = self.pairs.last().map_or("–".to_string(), |pair| number(pair.1));
        let quality = self.quality.map_or("–".to_string(), |quality| quality.to_string());
        let reason = self.failure.clone().or(self.reason.clone()).unwrap_or("–".to_string());
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        [truth, said, quality, reason]
    }
}

/// The bounds that a reason states: `between A and B bytes`, or `at most B bytes`.
///
/// A lower bound beside `at most` is one of resident sizes, in which shared memory counts more than
/// once: none of the memory held.
fn bounds(reason: &str) -> Option<(f64, f64)> {
    let number = |text: &str| text.split_once(" bytes")?.0.parse().ok();
    let between = || {
        let (low, high) = reason.split_once("between ")?.1.split_once(" and ")?;
        Some((low.parse().ok()?, number(high)?))
    };
    between().or_else(|| Some((0.0, number(reason.split_once("at most ")?.1)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, quality: Option<Quality>, reason: Option<&str>) -> Option<Figure> {
        Some(Figure { value: Some(value), quality, reason: reason.map(String::from) })
    }

    #[test]
    fn the_worst_run_counts_in_percent() {
        let mut outcome = Outcome::of(Quantity::Memory);
        outcome.add(figure(1001.0, Some(Quality::Exact), None), Some(1000.0));
        outcome.add(figure(980.0, Some(Quality::Sampled), None), Some(1000.0));
        assert_eq!(outcome.cell(), "−2.00 % *s*");
        assert!(outcome.is_honest());
        let [truth, said, quality, _] = outcome.details();
        assert_eq!((&*truth, &*said, &*quality), ("1000", "980 … 1001", "sampled"));
    }

    #[test]
    fn counts_are_held_to_the_unit() {
        let mut outcome = Outcome::of(Quantity::Processes);
        outcome.add(figure(500.0, Some(Quality::Exact), None), Some(501.0));
        assert_eq!(outcome.cell(), "−1");
        assert!(!outcome.is_honest(), "called exact, and is not");
        let mut outcome = Outcome::of(Quantity::Read);
        outcome.add(figure(7.0, Some(Quality::Exact), None), Some(7.0));
        assert_eq!(outcome.cell(), "0");
        assert!(outcome.is_honest() && outcome.claims());
    }

    #[test]
    fn bounds_are_held_to_the_truth() {
        let reason = "not looked at; between 500 and 2500 bytes, by the kernel's counters";
        assert_eq!(bounds(reason), Some((500.0, 2500.0)));
        assert_eq!(bounds("between two looks"), None);
        let reason_of_sum = "the sum is at least 700 and at most 2500 bytes, by what each held";
        assert_eq!(bounds(reason_of_sum), Some((0.0, 2500.0)));
        assert_eq!(bounds("of 64 MiB at most"), None);
        for (truth, honest) in [(503.0, true), (490.0, false), (2600.0, false)] {
            let mut outcome = Outcome::of(Quantity::Memory);
            outcome.add(figure(2500.0, Some(Quality::Estimated), Some(reason)), Some(truth));
            assert_eq!(outcome.is_honest(), honest, "{truth}");
        }
    }

    #[test]
    fn what_is_not_said_is_not_wrong() {
        let mut outcome = Outcome::of(Quantity::Read);
        outcome.add(None, Some(5.0));
        assert!(outcome.is_silent());
        assert_eq!((outcome.cell().as_str(), outcome.worst()), ("–", None));
        let silent = outcome;
        let mut outcome = Outcome::of(Quantity::Memory);
        outcome.add(figure(5.0, None, None), None);
        assert!(!outcome.is_heard_beside(&silent), "bytes read are another figure");
        assert_eq!((outcome.cell().as_str(), outcome.worst()), ("ended it", None));
        assert!(outcome.is_honest() && !outcome.claims());
    }
}
