//! TypeScript types and JSON schemas of whatever serde can serialise, from the values themselves.
//!
//! A value is serialised into a [`Type`] instead of text; several values of one struct are merged,
//! so what is null or missing in one of them becomes `| null` or `?`. The names of enums' variants
//! come from their declarations, not from the values, so none can be forgotten.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::{self, Impossible};
use serde_json::{Value as Json, json};
use weigh_show::shape::shape_of;

/// A type as far as the values have shown it.
#[derive(Clone, Debug, PartialEq)]
enum Type {
    /// Nothing was seen: the element of an empty list, the inside of a null.
    Unseen,
    Plain(&'static str),
    /// A struct or enum, by its name.
    Named(&'static str),
    Nullable(Box<Type>),
    List(Box<Type>),
    Map(Box<Type>),
}

impl Type {
    fn merged(self, other: Type) -> Result<Type, Wrong> {
        use Type::*;
        Ok(match (self, other) {
            (Unseen, t) | (t, Unseen) => t,
            (Nullable(a), Nullable(b)) => Nullable(Box::new(a.merged(*b)?)),
            (List(a), List(b)) => List(Box::new(a.merged(*b)?)),
            (Map(a), Map(b)) => Map(Box::new(a.merged(*b)?)),
            (a, b) if a == b => a,
            (a, b) => return Err(wrong(format!("{a:?} and {b:?} are the same field"))),
        })
    }

    fn text(&self, field: &str) -> String {
        match self {
            Type::Unseen => panic!("no sample fills {field}: give it a value in sample.rs"),
            Type::Plain(name) | Type::Named(name) => name.to_string(),
            Type::Nullable(inner) => format!("{} | null", inner.text(field)),
            Type::List(inner) => match **inner {
                Type::Nullable(_) => format!("({})[]", inner.text(field)),
                _ => format!("{}[]", inner.text(field)),
            },
            Type::Map(inner) => format!("Record<string, {}>", inner.text(field)),
        }
    }
}

/// What a schema says of null besides.
fn or_null(schema: Json) -> Json {
    match schema.get("type").cloned() {
        Some(Json::String(one)) => {
            let mut schema = schema;
            schema["type"] = json!([one, "null"]);
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

impl Type {
    /// As a JSON schema; of a struct or enum, where it stands in a document of OpenAPI.
    fn schema(&self, field: &str) -> Json {
        match self {
            Type::Unseen => panic!("no sample fills {field}: give it a value in sample.rs"),
            Type::Plain(name) => json!({"type": name}),
            Type::Named(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
            Type::Nullable(inner) => or_null(inner.schema(field)),
            Type::List(inner) => json!({"type": "array", "items": inner.schema(field)}),
            Type::Map(inner) => {
                json!({"type": "object", "additionalProperties": inner.schema(field)})
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Field {
    name: &'static str,
    of: Type,
    optional: bool,
}

/// The types seen so far.
#[derive(Debug, Default)]
pub struct Types {
    structs: BTreeMap<&'static str, Vec<Field>>,
    enums: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Types {
    /// Declares an enum, with all variants it has.
    pub fn declare<T: DeserializeOwned>(&mut self) {
        let shape = shape_of::<T>();
        self.enums.insert(shape.name, shape.members.to_vec());
    }

    /// Learns from a value.
    pub fn learn<T: Serialize>(&mut self, value: &T) {
        value.serialize(Tracer(self)).expect("a value of known types");
    }

    /// All types, as TypeScript.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, variants) in &self.enums {
            let variants: Vec<_> = variants.iter().map(|v| format!("\"{v}\"")).collect();
            out.push_str(&format!("export type {name} = {};\n\n", variants.join(" | ")));
        }
        for (name, fields) in &self.structs {
            out.push_str(&format!("export interface {name} {{\n"));
            for field in fields {
                let mark = if field.optional { "?" } else { "" };
                out.push_str(&format!("  {}{mark}: {};\n", field.name, field.of.text(field.name)));
            }
            out.push_str("}\n\n");
        }
        out.trim_end().to_string() + "\n"
    }

    /// All types, as JSON schemas by name.
    pub fn schemas(&self) -> BTreeMap<&'static str, Json> {
        let of_enum = |(name, variants): (&&'static str, &Vec<&'static str>)| {
            (*name, json!({"type": "string", "enum": variants}))
        };
        let of_struct = |(name, fields): (&&'static str, &Vec<Field>)| {
            let properties =
                fields.iter().map(|field| (field.name.to_string(), field.of.schema(field.name)));
            let properties: serde_json::Map<String, Json> = properties.collect();
            let required: Vec<&str> =
                fields.iter().filter(|field| !field.optional).map(|field| field.name).collect();
            (*name, json!({"type": "object", "properties": properties, "required": required}))
        };
        let enums = self.enums.iter().map(of_enum);
        enums.chain(self.structs.iter().map(of_struct)).collect()
    }

    fn merge_struct(&mut self, name: &'static str, fields: Vec<Field>) -> Result<(), Wrong> {
        let Some(known) = self.structs.get_mut(name) else {
            self.structs.insert(name, fields);
            return Ok(());
        };
        for (known, new) in known.iter_mut().zip(fields) {
            assert_eq!(known.name, new.name, "fields of {name} come in one order");
            known.of = known.of.clone().merged(new.of)?;
            known.optional |= new.optional;
        }
        Ok(())
    }
}

/// Why a value has no type here.
#[derive(Debug)]
struct Wrong(String);

fn wrong(text: impl Into<String>) -> Wrong {
    Wrong(text.into())
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl ser::Error for Wrong {
    fn custom<T: fmt::Display>(text: T) -> Wrong {
        wrong(text.to_string())
    }
}

struct Tracer<'a>(&'a mut Types);

macro_rules! plain {
    ($type:literal: $($method:ident($of:ty)),+) => {
        $( fn $method(self, _: $of) -> Result<Type, Wrong> { Ok(Type::Plain($type)) } )+
    };
}

impl<'a> ser::Serializer for Tracer<'a> {
    type Ok = Type;
    type Error = Wrong;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Impossible<Type, Wrong>;
    type SerializeTupleStruct = Impossible<Type, Wrong>;
    type SerializeTupleVariant = Impossible<Type, Wrong>;
    type SerializeMap = Elements<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Impossible<Type, Wrong>;

    plain!("boolean": serialize_bool(bool));
    plain!("number": serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_f32(f32), serialize_f64(f64));
    plain!("string": serialize_char(char), serialize_str(&str));

    fn serialize_none(self) -> Result<Type, Wrong> {
        Ok(Type::Nullable(Box::new(Type::Unseen)))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Type, Wrong> {
        Ok(Type::Nullable(Box::new(value.serialize(self)?)))
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
    ) -> Result<Type, Wrong> {
        if !self.0.enums.contains_key(name) {
            return Err(wrong(format!("{name} is an enum that was not declared")));
        }
        Ok(Type::Named(name))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'a>, Wrong> {
        Ok(Elements { types: self.0, of: Type::Unseen })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Elements<'a>, Wrong> {
        Ok(Elements { types: self.0, of: Type::Unseen })
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'a>, Wrong> {
        Ok(Fields { types: self.0, name, fields: Vec::new() })
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<Type, Wrong> {
        Err(wrong("bytes have no type in JSON"))
    }

    fn serialize_unit(self) -> Result<Type, Wrong> {
        Err(wrong("units are not used"))
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Type, Wrong> {
        Err(wrong(format!("unit struct {name}")))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Type, Wrong> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Type, Wrong> {
        Err(wrong(format!("{name} is an enum with data")))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Wrong> {
        Err(wrong("tuples are not used"))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Wrong> {
        Err(wrong(format!("tuple struct {name}")))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Wrong> {
        Err(wrong(format!("{name} is an enum with data")))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Wrong> {
        Err(wrong(format!("{name} is an enum with data")))
    }
}

/// The elements of a list, or the values of a map.
struct Elements<'a> {
    types: &'a mut Types,
    of: Type,
}

impl Elements<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        let new = value.serialize(Tracer(self.types))?;
        self.of = self.of.clone().merged(new)?;
        Ok(())
    }
}

impl ser::SerializeSeq for Elements<'_> {
    type Ok = Type;
    type Error = Wrong;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.add(value)
    }

    fn end(self) -> Result<Type, Wrong> {
        Ok(Type::List(Box::new(self.of)))
    }
}

impl ser::SerializeMap for Elements<'_> {
    type Ok = Type;
    type Error = Wrong;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Wrong> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.add(value)
    }

    fn end(self) -> Result<Type, Wrong> {
        Ok(Type::Map(Box::new(self.of)))
    }
}

/// The fields of a struct.
struct Fields<'a> {
    types: &'a mut Types,
    name: &'static str,
    fields: Vec<Field>,
}

impl ser::SerializeStruct for Fields<'_> {
    type Ok = Type;
    type Error = Wrong;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Wrong> {
        let of = value.serialize(Tracer(self.types))?;
        self.fields.push(Field { name, of, optional: false });
        Ok(())
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), Wrong> {
        let of = Type::Unseen;
        self.fields.push(Field { name, of, optional: true });
        Ok(())
    }

    fn end(self) -> Result<Type, Wrong> {
        self.types.merge_struct(self.name, self.fields)?;
        Ok(Type::Named(self.name))
    }
}
