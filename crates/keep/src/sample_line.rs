//! A journal's line with samples, which are most of the lines: read without the copies that other entries take.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use weigh_schema::update::Update;

/// How its writer begins each line, and one with samples.
const ENTRY: &[u8] = br#"{"entry":""#;
pub(crate) const SAMPLES: &[u8] = br#"{"entry":"samples","#;

/// The samples of a line; none where it has none, or is no entry. An entry of another kind is not parsed.
pub(crate) fn samples_of(line: &[u8]) -> Option<SampleLine<'_>> {
    if line.starts_with(SAMPLES) {
        return serde_json::from_slice(line).ok();
    }
    if line.starts_with(ENTRY) {
        return None;
    }
    // From another writer.
    match serde_json::from_slice::<Update>(line).ok()? {
        Update::Samples { time_ns, scope, values } => {
            let values = values.into_iter().map(|(name, value)| (Cow::Owned(name), value));
            let scope = Cow::Owned(scope.to_string());
            Some(SampleLine { time_ns, scope, values: SampleValues(values.collect()) })
        }
        _ => None,
    }
}

/// [`Update::Samples`] as it stands in the line.
#[derive(Deserialize)]
pub(crate) struct SampleLine<'a> {
    pub(crate) time_ns: i64,
    #[serde(borrow)]
    pub(crate) scope: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) values: SampleValues<'a>,
}

impl From<SampleLine<'_>> for Update {
    fn from(line: SampleLine<'_>) -> Update {
        let values = line.values.0.into_iter();
        Update::Samples {
            time_ns: line.time_ns,
            scope: line.scope.into_owned().into(),
            values: values.map(|(name, value)| (name.into_owned(), value)).collect(),
        }
    }
}

/// Values by the names of their series, in their order.
pub(crate) struct SampleValues<'a>(pub(crate) Vec<(Cow<'a, str>, f64)>);

/// A name that borrows where it can.
#[derive(Deserialize)]
struct SeriesName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for SampleValues<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SampleValues<'a>, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = SampleValues<'de>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("values by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((SeriesName(name), value)) = map.next_entry()? {
                    pairs.push((name, value));
                }
                Ok(SampleValues(pairs))
            }
        }
        from.deserialize_map(Pairs)
    }
}
