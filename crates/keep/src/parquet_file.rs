//! How every Parquet file of weigh begins: its schema, its notes, and what readers are given to skip by.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::atomic::AtomicFile;

/// Opens one for rows of these fields.
pub(crate) fn open(
    fields: Vec<TypePtr>,
    notes: impl IntoIterator<Item = (String, String)>,
    sink: AtomicFile,
) -> Result<SerializedFileWriter<AtomicFile>, ParquetError> {
    let schema = Type::group_type_builder("weigh").with_fields(fields).build()?;
    let notes = notes.into_iter().map(|(key, value)| KeyValue::new(key, value));
    let properties = WriterProperties::builder()
        .set_created_by(concat!("weigh ", env!("CARGO_PKG_VERSION")).to_string())
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(true)
        // Readers skip row groups by these; pages are too small to be worth statistics.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(notes.collect()))
        .build();
    SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties))
}
