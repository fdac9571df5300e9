//! The TOML of a file of rules: keys with their lines, and values of the kind that is expected.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use weigh_schema::amount::parse_duration;
use weigh_schema::configuration::At;
use weigh_schema::nearest;
use weigh_schema::rule::LONGEST_NAME_BYTES;

use super::error::RuleError;

/// The most words of a command, and names of a list.
const MOST_WORDS: usize = 64;

pub(super) type Answer<T> = Result<T, RuleError>;

#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub text: &'a str,
    pub path: &'a str,
}

/// A key with its value, and where it is.
pub(super) struct Item<'a> {
    pub name: &'a str,
    value: &'a DeValue<'a>,
    pub at: At,
}

impl<'a> Source<'a> {
    pub fn at(&self, key: &str, span: Range<usize>) -> At {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        At { file: self.path.to_string(), line, key: key.to_string() }
    }

    /// The values of a table in the order of the file; each has one of these names, or any if there are none.
    pub fn items(
        &self,
        table: &'a DeTable<'a>,
        inside: &str,
        known: &[&str],
    ) -> Answer<Vec<Item<'a>>> {
        let mut items = Vec::new();
        for (name, value) in table {
            let text = name.get_ref().as_ref();
            let key = if inside.is_empty() { text.to_string() } else { format!("{inside}.{text}") };
            let at = self.at(&key, name.span());
            if !known.is_empty() && !known.contains(&text) {
                let near = nearest(text, known.iter().copied());
                let near = near.into_iter().map(str::to_string).collect();
                let message = format!("there is no key '{text}': expected {}", known.join(", "));
                return Err(RuleError::new(at, message).near(near));
            }
            items.push((name.span().start, Item { name: text, value: value.get_ref(), at }));
        }
        items.sort_by_key(|(begin, _)| *begin);
        Ok(items.into_iter().map(|(_, item)| item).collect())
    }
}

impl<'a> Item<'a> {
    fn kind<T>(&self, expected: &str) -> Answer<T> {
        let message =
            format!("expected {expected}, found a value of the kind '{}'", self.value.type_str());
        Err(RuleError::new(self.at.clone(), message))
    }

    pub fn table(&self, expected: &str) -> Answer<&'a DeTable<'a>> {
        self.value.as_table().map_or_else(|| self.kind(expected), Ok)
    }

    pub fn text(&self, expected: &str) -> Answer<&'a str> {
        self.value.as_str().map_or_else(|| self.kind(expected), Ok)
    }

    pub fn boolean(&self) -> Answer<bool> {
        self.value.as_bool().map_or_else(|| self.kind("true or false"), Ok)
    }

    pub fn words(&self, expected: &str) -> Answer<Vec<String>> {
        let Some(list) = self.value.as_array() else { return self.kind(expected) };
        let word =
            |value: &toml::Spanned<DeValue<'a>>| value.get_ref().as_str().map(str::to_string);
        match list.iter().map(word).collect::<Option<Vec<String>>>() {
            Some(words) if words.len() <= MOST_WORDS => Ok(words),
            Some(_) => {
                Err(RuleError::new(self.at.clone(), format!("expected {MOST_WORDS} words at most")))
            }
            None => self.kind(expected),
        }
    }

    pub fn choice<T: Copy>(&self, known: &[(&'static str, T)]) -> Answer<T> {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let expected = names.join(", ");
        let text = self.text(&expected)?;
        let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let near = nearest(text, names).into_iter().map(str::to_string).collect();
            RuleError::new(self.at.clone(), format!("'{text}': expected {expected}")).near(near)
        })
    }

    pub fn duration_ns(&self) -> Answer<u64> {
        const EXPECTED: &str = "a duration of at most 30 days, such as \"30s\" or \"5min\"";
        const LONGEST_SECONDS: u64 = 30 * 86_400;
        let text = self.text(EXPECTED)?;
        let duration = parse_duration(text).ok().filter(|found| found.as_secs() <= LONGEST_SECONDS);
        let duration = duration.ok_or_else(|| {
            RuleError::new(self.at.clone(), format!("'{text}': expected {EXPECTED}"))
        })?;
        Ok(duration.as_nanos() as u64)
    }

    /// A name that stands in messages, files and URLs as it is.
    pub fn check_name(&self) -> Answer<()> {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_fine = self.name.len() <= LONGEST_NAME_BYTES
            && self.name.starts_with(|c: char| c.is_ascii_lowercase())
            && self.name.chars().all(is_part);
        match is_fine {
            true => Ok(()),
            false => Err(RuleError::new(
                self.at.clone(),
                format!(
                    "expected a name of at most {LONGEST_NAME_BYTES} letters a-z, digits and _, that begins with a letter"
                ),
            )),
        }
    }
}
