//! Parquet files as another weigh would have made them: with columns and notes taken out.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// Copies a file without these columns and notes, as made by `maker`.
pub fn without(from: &Path, to: &Path, left_out: &[&str], maker: &str) {
    let source = File::open(from).expect("a file");
    let reader =
        SerializedFileReader::new(source.try_clone().expect("a descriptor")).expect("Parquet");
    let file = reader.metadata().file_metadata();
    let fields = file.schema_descr().root_schema().get_fields();
    let is_kept = |name: &str| !left_out.contains(&name);
    let fields: Vec<_> = fields.iter().filter(|field| is_kept(field.name())).cloned().collect();
    let schema = Type::group_type_builder("weigh").with_fields(fields).build().expect("a schema");
    let notes = file.key_value_metadata().into_iter().flatten();
    let notes: Vec<KeyValue> = notes.filter(|note| is_kept(&note.key)).cloned().collect();
    let taken =
        reader.metadata().file_metadata().schema_descr().num_columns() - schema.get_fields().len();
    let known = left_out.iter().filter(|name| !name.contains('.')).count();
    assert_eq!(taken, known, "all of {left_out:?} were there");
    let properties = WriterProperties::builder()
        .set_created_by(maker.to_string())
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(notes))
        .build();
    let target = File::create(to).expect("a file");
    let mut writer = SerializedFileWriter::new(target, Arc::new(schema), Arc::new(properties))
        .expect("a writer");
    for group in reader.metadata().row_groups() {
        let mut rows = writer.next_row_group().expect("a row group");
        for column in group.columns().iter().filter(|c| is_kept(c.column_descr().name())) {
            let close = ColumnCloseResult {
                bytes_written: column.compressed_size() as u64,
                rows_written: group.num_rows() as u64,
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            rows.append_column(&source, close).expect("a column");
        }
        rows.close().expect("a row group");
    }
    writer.close().expect("a file");
}
