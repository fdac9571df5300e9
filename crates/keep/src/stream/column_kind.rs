//! What a column of a stream holds, and its type in Parquet.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::Type;

/// What a column of a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Nanoseconds since the Unix epoch.
    Time,
    /// A whole number.
    Signed,
    /// A whole number that is never below 0.
    Unsigned,
    /// A text.
    Text,
    /// A text that is one of few, which are told before: see [`StreamWriter::name`]. To readers it is a text.
    Name,
    /// Bytes.
    Bytes,
    /// A list of texts. Rows may lack it, whatever is said of its column.
    Texts,
}

impl StreamKind {
    pub(super) fn field(self, name: &str, optional: bool) -> Result<Type, ParquetError> {
        if self == StreamKind::Texts {
            return list_type(name);
        }
        let (physical, logical) = match self {
            StreamKind::Time => {
                (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS)))
            }
            StreamKind::Signed => (Physical::INT64, None),
            StreamKind::Unsigned => (Physical::INT64, Some(LogicalType::integer(64, false))),
            StreamKind::Text | StreamKind::Name | StreamKind::Texts => {
                (Physical::BYTE_ARRAY, Some(LogicalType::String))
            }
            StreamKind::Bytes => (Physical::BYTE_ARRAY, None),
        };
        let repetition = if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .build()
    }
}

/// A list of texts, as the format wants lists (LogicalTypes.md).
fn list_type(name: &str) -> Result<Type, ParquetError> {
    let element = StreamKind::Text.field("element", false)?;
    let repeated = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(element)])
        .build()?;
    Type::group_type_builder(name)
        .with_logical_type(Some(LogicalType::List))
        .with_repetition(Repetition::OPTIONAL)
        .with_fields(vec![Arc::new(repeated)])
        .build()
}
