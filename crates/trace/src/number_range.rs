//! The numbers that a side of a comparison can be, and what a comparison with a constant comes to there.
//!
//! Reads a width and a sign, a comparison and a constant; emits the comparison as it holds truly. Refuses constants
//! that the side can never be, and comparisons that are never true.

use crate::filter::Comparison;

/// All numbers of so many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberRange {
    bits: u32,
    is_signed: bool,
}

impl NumberRange {
    /// Of more than 64 bits there are none.
    pub(crate) fn new(bits: u32, is_signed: bool) -> NumberRange {
        NumberRange { bits: bits.min(64), is_signed }
    }

    fn least(self) -> i128 {
        if self.is_signed { -(1i128 << (self.bits.max(1) - 1)) } else { 0 }
    }

    fn most(self) -> i128 {
        let bits = if self.is_signed { self.bits.max(1) - 1 } else { self.bits };
        (1i128 << bits) - 1
    }

    /// The comparison that holds for the same numbers of the range, with a constant of it; else what is allowed.
    pub(crate) fn compare(self, how: Comparison, value: i128) -> Result<(Comparison, u64), String> {
        let (least, most) = (self.least(), self.most());
        let refusal = || Err(format!("the other side is {least} to {most}"));
        if matches!(how, Comparison::Equal | Comparison::Unequal) {
            // Of 64 bits either reading may be meant: the bits are the same.
            let is_reading =
                self.bits == 64 && (i64::MIN.into()..=u64::MAX.into()).contains(&value);
            return match is_reading || (least..=most).contains(&value) {
                true => Ok((how, value as u64)),
                false => refusal(),
            };
        }
        let is_beyond = self.bits == 64 && self.is_signed && value <= u64::MAX.into();
        if value < least || value > most && !is_beyond {
            return refusal();
        }
        match how {
            Comparison::Less if value == least => never(how, least, most),
            Comparison::Greater if value >= most => never(how, least, most),
            Comparison::AtLeast if value > most => never(how, least, most),
            // Every number of the range is below it.
            Comparison::Less | Comparison::AtMost if value > most => {
                Ok((Comparison::AtMost, most as u64))
            }
            _ => Ok((how, value as u64)),
        }
    }
}

fn never<T>(how: Comparison, least: i128, most: i128) -> Result<T, String> {
    let mark = match how {
        Comparison::Less => "less",
        Comparison::Greater => "greater",
        _ => "that much or more",
    };
    Err(format!("the other side is {least} to {most}, and never {mark}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_holds_for_the_numbers_that_it_is_true_for() {
        use Comparison::{AtLeast, AtMost, Equal, Greater, Less, Unequal};
        let numbers: Vec<i128> = (-9..=17).collect();
        let wide = [i64::MIN.into(), -11, 0, 11, i64::MAX.into(), 1 << 63, u64::MAX.into()];
        let holds = |left: i128, how, right: i128| match how {
            Equal => left == right,
            Unequal => left != right,
            Less => left < right,
            AtMost => left <= right,
            Greater => left > right,
            AtLeast => left >= right,
        };
        for (bits, constants) in [(3, &numbers[..]), (64, &wide)] {
            for is_signed in [false, true] {
                let range = NumberRange::new(bits, is_signed);
                let own = constants.iter().filter(|n| (range.least()..=range.most()).contains(n));
                let own: Vec<i128> = own.copied().collect();
                for how in [Less, AtMost, Greater, AtLeast] {
                    for constant in constants {
                        let told = range.compare(how, *constant);
                        let is_possible = own.iter().any(|n| holds(*n, how, *constant));
                        let Ok((other, bits)) = told else {
                            let is_own = own.contains(constant);
                            assert!(!is_own || !is_possible, "{how:?} {constant} is refused");
                            continue;
                        };
                        let value =
                            if is_signed { i128::from(bits as i64) } else { i128::from(bits) };
                        for n in &own {
                            let expected = holds(*n, how, *constant);
                            assert_eq!(holds(*n, other, value), expected, "{n} {how:?} {constant}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_can_never_be_is_refused() {
        let of =
            |bits, is_signed, how, value| NumberRange::new(bits, is_signed).compare(how, value);
        for (bits, is_signed, how, value) in [
            (32, false, Comparison::Less, 0),
            (32, false, Comparison::Greater, u32::MAX.into()),
            (32, false, Comparison::Equal, -1),
            (64, false, Comparison::Less, -1),
            (64, false, Comparison::AtLeast, -1),
            (64, true, Comparison::Greater, u64::MAX.into()),
            (64, true, Comparison::Less, i64::MIN.into()),
        ] {
            let refusal = of(bits, is_signed, how, value);
            assert!(refusal.is_err(), "{bits} {is_signed} {how:?} {value}: {refusal:?}");
        }
        assert_eq!(of(64, false, Comparison::Equal, -1), Ok((Comparison::Equal, u64::MAX)));
        assert_eq!(of(64, true, Comparison::Equal, 1 << 63), Ok((Comparison::Equal, 1 << 63)));
    }
}
