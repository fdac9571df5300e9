//! Reads the file of `weigh trace`: batches of rows, of the columns that are asked for.
//!
//! Which columns there are only the file knows; what they mean, its notes say. Refuses what is no Parquet, and
//! columns of kinds that such a file has not. Damage that shows only in the rows is refused when it is met.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescriptor;

use crate::error::KeepError;
use crate::parquet_reader::{self, guarded};
use crate::parquet_source::ParquetSource;
use crate::stream::StreamKind;

/// Rows of a batch.
const BATCH_ROWS: usize = 4096;
/// Of a list: it has a text, and there is a list at all.
const ELEMENT: i16 = 2;
const LIST: i16 = 1;

/// A file that is being read.
pub struct StreamReader {
    path: PathBuf,
    reader: SerializedFileReader<ParquetSource>,
}

/// Some rows.
pub struct StreamBatch {
    /// How many.
    pub rows: usize,
    /// The columns, as they were asked for.
    pub columns: Vec<Values>,
}

/// What some rows have in a column.
pub enum Values {
    /// Numbers, or times.
    Numbers(Vec<Option<i64>>),
    /// Texts, or bytes.
    Texts(Vec<Option<ByteArray>>),
    /// Lists of texts: for each row where its list begins and ends.
    Lists {
        /// All texts.
        texts: Vec<ByteArray>,
        /// Of each row.
        of_rows: Vec<Option<(usize, usize)>>,
    },
}

impl StreamReader {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<StreamReader, KeepError> {
        let file = File::open(path).map_err(|error| KeepError::read(path, error))?;
        let reader = parquet_reader::open(path, file)?;
        Ok(StreamReader { path: path.to_path_buf(), reader })
    }

    /// What the file says of itself under that name.
    pub fn note(&self, name: &str) -> Option<&str> {
        let notes = self.reader.metadata().file_metadata().key_value_metadata()?;
        notes.iter().find(|note| note.key == name)?.value.as_deref()
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.reader.metadata().file_metadata().num_rows().try_into().unwrap_or(0)
    }

    /// Whether it has a column of that name.
    pub fn has_column(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    fn place(&self, name: &str) -> Option<usize> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let is_it = |column: &ColumnDescriptor| {
            column.path().parts().first().is_some_and(|part| part == name)
        };
        schema.columns().iter().position(|column| is_it(column))
    }

    /// Where the column of that name is; it is refused if it is not there, or is of another kind.
    pub fn column(&self, name: &str, kind: StreamKind) -> Result<usize, KeepError> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let Some(place) = self.place(name) else {
            return Err(KeepError::damaged(&self.path, format!("it has no column {name}")));
        };
        match kind_of(&schema.column(place)) {
            Some(found) if found == kind => Ok(place),
            found => {
                let found = found.map_or("what it has not".to_string(), |kind| format!("{kind:?}"));
                let reason = format!("column {name} holds {found}, expected was {kind:?}");
                Err(KeepError::damaged(&self.path, reason))
            }
        }
    }

    /// Shows all rows, some at a time, with the values of these columns.
    pub fn each_batch<E: From<KeepError>>(
        &self,
        columns: &[usize],
        mut visit: impl FnMut(&StreamBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = &self.path;
        for number in 0..self.reader.num_row_groups() {
            let group = guarded(path, || self.reader.get_row_group(number))?;
            let rows = group.metadata().num_rows();
            let mut left = usize::try_from(rows)
                .map_err(|_| KeepError::damaged(path, "its number of rows is negative"))?;
            let mut readers = self.readers(group.as_ref(), columns)?;
            while left > 0 {
                let rows = left.min(BATCH_ROWS);
                let mut batch = StreamBatch { rows, columns: Vec::with_capacity(columns.len()) };
                for (reader, is_list) in &mut readers {
                    batch.columns.push(guarded(path, || values(reader, *is_list, rows))?);
                }
                visit(&batch)?;
                left -= rows;
            }
        }
        Ok(())
    }

    /// The columns, and whether each holds lists.
    fn readers(
        &self,
        group: &dyn RowGroupReader,
        columns: &[usize],
    ) -> Result<Vec<(ColumnReader, bool)>, KeepError> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let reader = |place: &usize| {
            let is_list = schema.column(*place).max_rep_level() > 0;
            Ok((guarded(&self.path, || group.get_column_reader(*place))?, is_list))
        };
        columns.iter().map(reader).collect()
    }
}

fn kind_of(column: &ColumnDescriptor) -> Option<StreamKind> {
    let logical = column.logical_type_ref();
    let is_text =
        logical == Some(&LogicalType::String) || column.converted_type() == ConvertedType::UTF8;
    match (column.path().parts().len(), column.physical_type()) {
        (1, Physical::INT64) => Some(match logical {
            Some(LogicalType::Timestamp { .. }) => StreamKind::Time,
            Some(LogicalType::Integer { .. }) => StreamKind::Unsigned,
            _ => StreamKind::Signed,
        }),
        (1, Physical::BYTE_ARRAY) if is_text => Some(StreamKind::Text),
        (1, Physical::BYTE_ARRAY) => Some(StreamKind::Bytes),
        (3, Physical::BYTE_ARRAY) if is_text && column.max_def_level() == ELEMENT => {
            Some(StreamKind::Texts)
        }
        _ => None,
    }
}

fn values(reader: &mut ColumnReader, is_list: bool, rows: usize) -> ParquetResult<Values> {
    match reader {
        ColumnReader::Int64ColumnReader(reader) => plain(reader, rows).map(Values::Numbers),
        ColumnReader::ByteArrayColumnReader(reader) => match is_list {
            true => lists(reader, rows),
            false => plain(reader, rows).map(Values::Texts),
        },
        _ => Err(ParquetError::General("a column has an unknown type".into())),
    }
}

fn lacks() -> ParquetError {
    ParquetError::General("a column ends too early".into())
}

fn plain<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
) -> ParquetResult<Vec<Option<T::T>>> {
    let (mut values, mut present) = (Vec::with_capacity(rows), Vec::new());
    let (records, ..) = reader.read_records(rows, Some(&mut present), None, &mut values)?;
    if records != rows {
        return Err(lacks());
    }
    let mut values = values.into_iter();
    let all = (0..rows).map(|row| match present.get(row) {
        Some(0) => Ok(None),
        // A column that is never absent comes without levels.
        _ => values.next().map(Some).ok_or_else(lacks),
    });
    all.collect()
}

fn lists(reader: &mut ColumnReaderImpl<ByteArrayType>, rows: usize) -> ParquetResult<Values> {
    let (mut texts, mut there, mut goes_on) = (Vec::new(), Vec::new(), Vec::new());
    let (records, ..) =
        reader.read_records(rows, Some(&mut there), Some(&mut goes_on), &mut texts)?;
    let (mut of_rows, mut at) = (Vec::with_capacity(rows), 0);
    for (level, repeated) in there.iter().zip(&goes_on) {
        if *repeated == 0 {
            of_rows.push((*level >= LIST).then_some((at, at)));
        }
        if *level == ELEMENT {
            at += 1;
            let Some(Some((_, end))) = of_rows.last_mut() else { return Err(lacks()) };
            *end = at;
        }
    }
    if records != rows || of_rows.len() != rows || at != texts.len() {
        return Err(lacks());
    }
    Ok(Values::Lists { texts, of_rows })
}

impl Values {
    /// The number of a row.
    pub fn number(&self, row: usize) -> Option<i64> {
        match self {
            Values::Numbers(numbers) => *numbers.get(row)?,
            _ => None,
        }
    }

    /// The text of a row, or its bytes.
    pub fn text(&self, row: usize) -> Option<&[u8]> {
        match self {
            Values::Texts(texts) => texts.get(row)?.as_ref().map(ByteArray::data),
            _ => None,
        }
    }

    /// The list of a row.
    pub fn texts(&self, row: usize) -> Option<impl Iterator<Item = &[u8]>> {
        match self {
            Values::Lists { texts, of_rows } => {
                let (from, to) = (*of_rows.get(row)?)?;
                Some(texts.get(from..to)?.iter().map(ByteArray::data))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{StreamColumn, StreamWriter};

    const ROWS: i64 = 140_001;

    fn write(path: &Path) {
        write_rows(path, ROWS);
    }

    fn write_rows(path: &Path, rows: i64) {
        let column = |name: &str, kind, always| StreamColumn { name: name.into(), kind, always };
        let columns = [
            column("time", StreamKind::Time, true),
            column("len", StreamKind::Unsigned, false),
            column("dev", StreamKind::Text, false),
            column("stack", StreamKind::Texts, false),
        ];
        let mut file = StreamWriter::create(path, &columns, &[]).unwrap();
        for row in 0..rows {
            file.number(0, row);
            if row % 3 == 1 {
                file.number(1, -row);
                file.text(2, row.to_string().as_bytes());
            }
            if row % 7 < 3 {
                let names = [&b"f"[..], b"g"];
                file.texts(3, names.into_iter().take((row % 7) as usize));
            }
            assert!(file.end_row());
        }
        file.finish(&[("weigh.trace".into(), "said".into())]).unwrap();
    }

    #[test]
    fn what_was_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.parquet");
        write(&path);
        let file = StreamReader::open(&path).unwrap();
        assert_eq!((file.rows(), file.note("weigh.trace")), (ROWS as u64, Some("said")));
        let columns = [
            file.column("time", StreamKind::Time).unwrap(),
            file.column("len", StreamKind::Unsigned).unwrap(),
            file.column("dev", StreamKind::Text).unwrap(),
            file.column("stack", StreamKind::Texts).unwrap(),
        ];
        let mut row = 0;
        let read = file.each_batch(&columns, |batch| {
            for place in 0..batch.rows {
                let of = |column: usize| &batch.columns[column];
                assert_eq!(of(0).number(place), Some(row));
                assert_eq!(of(1).number(place), (row % 3 == 1).then_some(-row));
                let text = of(2).text(place).map(|text| String::from_utf8_lossy(text).into_owned());
                assert_eq!(text, (row % 3 == 1).then(|| row.to_string()));
                let texts = of(3).texts(place).map(Iterator::count);
                assert_eq!(texts, (row % 7 < 3).then_some((row % 7) as usize), "{row}");
                row += 1;
            }
            Ok::<_, KeepError>(())
        });
        read.unwrap();
        assert_eq!(row, ROWS);
    }

    #[test]
    fn whatever_bit_is_wrong_a_file_is_refused_or_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.parquet");
        write_rows(&path, 40);
        let whole = std::fs::read(&path).unwrap();
        let mut refused = 0;
        for bit in (0..whole.len() * 8).step_by(5) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &damaged).unwrap();
            let Ok(file) = StreamReader::open(&path) else {
                refused += 1;
                continue;
            };
            let column = |name, kind| file.column(name, kind).ok();
            let columns = [
                column("time", StreamKind::Time),
                column("len", StreamKind::Unsigned),
                column("dev", StreamKind::Text),
                column("stack", StreamKind::Texts),
            ];
            for column in columns.into_iter().flatten() {
                let _ = file.each_batch(&[column], |_| Ok::<_, KeepError>(()));
            }
        }
        assert!(refused > whole.len() / 5, "{refused} of {} bytes", whole.len());
    }

    #[test]
    fn a_page_that_says_it_holds_gigabytes_is_refused_before_they_are_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.parquet");
        write_rows(&path, 40);
        let mut bytes = std::fs::read(&path).unwrap();
        // Behind "PAR1" the first page's header: its type, then how many bytes become of it, as a zigzag varint.
        assert!(matches!(bytes[4..7], [0x15, _, 0x15]), "{:?}", &bytes[4..7]);
        let varint = 7 + bytes[7..].iter().position(|byte| *byte < 0x80).unwrap();
        bytes.splice(7..=varint, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
        std::fs::write(&path, &bytes).unwrap();
        let refused = StreamReader::open(&path).err().unwrap().to_string();
        assert!(refused.contains("a page says that it holds more than it can"), "{refused}");
    }

    #[test]
    fn what_is_not_there_or_damaged_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.parquet");
        write(&path);
        let file = StreamReader::open(&path).unwrap();
        for (name, kind) in [("lenn", StreamKind::Unsigned), ("len", StreamKind::Text)] {
            let refused = file.column(name, kind).unwrap_err().to_string();
            assert!(refused.contains(name), "{refused}");
        }
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(matches!(StreamReader::open(&path), Err(KeepError::Damaged { .. })));
        // The end is there, the rows are not what they were.
        let mut other = whole.clone();
        other[100..20_000].fill(0x5a);
        std::fs::write(&path, &other).unwrap();
        let read = StreamReader::open(&path).and_then(|file| {
            let len = file.column("len", StreamKind::Unsigned)?;
            let dev = file.column("dev", StreamKind::Text)?;
            let time = file.column("time", StreamKind::Time)?;
            file.each_batch(&[time, len, dev], |_| Ok::<_, KeepError>(()))
        });
        assert!(matches!(read, Err(KeepError::Damaged { .. })), "{read:?}");
    }
}
