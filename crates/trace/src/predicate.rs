//! Predicates: which records go into a buffer, by their headers alone.
//!
//! Reads text in the grammar of filters; emits a [`Test`] of the header's words. Refuses other words, texts, and
//! numbers that a word can never be. What it compares with can be changed while the stream runs.

use crate::condition::{Right, Source, Test, one_of};
use crate::error::{Refusal, Span, Wrong};
use crate::filter::{Comparison, Filter, Operand};
use crate::number_range::NumberRange;
use crate::path::Path;
use crate::suggest::nearest;

/// The words, and how many bits each has.
const WORDS: [(&str, Source, u32); 6] = [
    ("event", Source::Event, 32),
    ("size", Source::Size, 32),
    ("id", Source::Id, 64),
    ("cpu", Source::Cpu, 32),
    ("tgid", Source::Tgid, 32),
    ("tid", Source::Tid, 32),
];

/// Reads a predicate. `event` is the number of an event's name, if there is such a one.
pub fn parse(text: &str, event: &dyn Fn(&str) -> Option<u32>) -> Result<Test, Refusal> {
    Reading { text, event }.test(&Filter::parse(text)?)
}

struct Reading<'t> {
    text: &'t str,
    event: &'t dyn Fn(&str) -> Option<u32>,
}

impl Reading<'_> {
    fn test(&self, filter: &Filter) -> Result<Test, Refusal> {
        let both = |a: &Filter, b: &Filter| -> Result<_, Refusal> {
            Ok((Box::new(self.test(a)?), Box::new(self.test(b)?)))
        };
        Ok(match filter {
            Filter::And(a, b) => both(a, b).map(|(a, b)| Test::And(a, b))?,
            Filter::Or(a, b) => both(a, b).map(|(a, b)| Test::Or(a, b))?,
            Filter::Not(of) => Test::Not(Box::new(self.test(of)?)),
            Filter::Compare { left, mask, how, right } => {
                self.compare(left, mask.as_ref(), *how, right)?
            }
            Filter::In { left, items } => {
                one_of(self.text, left, items, |how, right| self.compare(left, None, how, right))?
            }
        })
    }

    fn compare(
        &self,
        left: &Path,
        mask: Option<&Operand>,
        how: Comparison,
        right: &Operand,
    ) -> Result<Test, Refusal> {
        let (source, bits) = self.word(left)?;
        let mask = match mask {
            Some(Operand::Number { value, span }) => Some(self.bounded(*value, *span, 64)?),
            Some(other) => {
                let wrong = Wrong::Expected { expected: "a constant" };
                return Err(other.span().refuse(self.text, wrong));
            }
            None => None,
        };
        let (how, right) = match right {
            Operand::Number { value, span } => {
                // What is left of a masked word has as many bits as the word.
                let compared = NumberRange::new(bits, false).compare(how, *value);
                compared.map_err(|allowed| self.out_of_range(*value, *span, allowed))?
            }
            Operand::Path(path) => (how, self.event(&source, path)?),
            Operand::Text { span, .. } | Operand::Address { span, .. } => {
                return Err(span.refuse(self.text, Wrong::Expected { expected: "a number" }));
            }
        };
        Ok(Test::Number {
            left: source,
            mask,
            how,
            is_signed: false,
            right: Right::Constant(right),
        })
    }

    fn word(&self, path: &Path) -> Result<(Source, u32), Refusal> {
        let found = WORDS.iter().find(|(name, ..)| path.word() == Some(name));
        found.map(|(_, source, bits)| (source.clone(), *bits)).ok_or_else(|| {
            let expected = "a word of the header: event, size, id, cpu, tgid or tid";
            let refusal = path.span.refuse(self.text, Wrong::Expected { expected });
            refusal.near(nearest(&path.base, WORDS.iter().map(|(name, ..)| *name)))
        })
    }

    fn event(&self, left: &Source, path: &Path) -> Result<u64, Refusal> {
        let number =
            path.word().filter(|_| *left == Source::Event).and_then(|name| (self.event)(name));
        number.map(u64::from).ok_or_else(|| {
            let expected = "a number, or behind `event` the name of one that is followed";
            path.span.refuse(self.text, Wrong::Expected { expected })
        })
    }

    fn bounded(&self, value: i128, span: Span, bits: u32) -> Result<u64, Refusal> {
        let most = (1i128 << bits) - 1;
        match u64::try_from(value) {
            Ok(number) if value <= most => Ok(number),
            _ => Err(self.out_of_range(value, span, format!("the other side is 0 to {most}"))),
        }
    }

    fn out_of_range(&self, value: i128, span: Span, allowed: String) -> Refusal {
        span.refuse(self.text, Wrong::Range { number: value.to_string(), allowed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Test, Refusal> {
        parse(text, &|name| (name == "net_dev_queue").then_some(3))
    }

    #[test]
    fn words_of_the_header_are_compared_with_numbers() {
        let test =
            read("event == net_dev_queue && cpu in 0..3 && !(id & 0x10) && size > 64").unwrap();
        assert_eq!(test.constants(), [3, 0, 3, 0, 64]);
        assert!(
            test.has_form_of(
                &read("event == 9 && cpu in 1..2 && !(id & 0x10) && size > 1").unwrap()
            )
        );
        assert_eq!(read("id == 0xffffffffffffffff").unwrap().constants(), [u64::MAX]);
    }

    #[test]
    fn anything_else_is_refused() {
        for (text, says) in [
            ("skb->len > 3", "a word of the header"),
            ("tgit == 3", "tgid"),
            ("tgid == 4294967296", "out of range"),
            ("cpu == -1", "out of range"),
            ("event == nothing", "the name of one that is followed"),
            ("tgid == net_dev_queue", "a number"),
            ("tgid == \"3\"", "a number"),
            ("tgid ==", "expected"),
            ("tgid < 0", "never less"),
            ("cpu in 5..3", "3..5 may be meant"),
        ] {
            let refusal = read(text).unwrap_err().to_string();
            assert!(refusal.contains(says), "{text}: {refusal}");
        }
    }
}
