//! The names of a type's fields or variants, asked from its derived `Deserialize`.
//!
//! So that documentation and the page's types need no second list of what `schema` declares.
//! Emits the names as they stand in JSON; refuses (with an empty list) types that are neither a
//! struct nor an enum.

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};

/// What a type is called, and its fields or variants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The type's name in Rust.
    pub name: &'static str,
    /// Its fields or variants, as JSON has them.
    pub members: &'static [&'static str],
}

/// The shape of `T`.
pub fn shape_of<T: Deserialize<'static>>() -> Shape {
    let mut shape = Shape::default();
    // The only way out of a deserializer that has no data is an error; the names came before.
    let _ = T::deserialize(Listener(&mut shape));
    shape
}

struct Listener<'a>(&'a mut Shape);

impl<'de> Deserializer<'de> for Listener<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        members: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Shape { name, members };
        Err(Error::custom("only the names were wanted"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        members: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Shape { name, members };
        Err(Error::custom("only the names were wanted"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("neither a struct nor an enum"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::summary::Host;
    use weigh_schema::{Number, Quality};

    #[test]
    fn names_are_those_of_the_json() {
        let quality = shape_of::<Quality>();
        assert_eq!(quality.name, "Quality");
        assert_eq!(quality.members, ["exact", "sampled", "estimated", "unavailable"]);
        assert_eq!(shape_of::<Host>().members[0], "node");
        assert_eq!(shape_of::<Number>(), Shape::default());
    }
}
