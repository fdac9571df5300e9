//! What the encoders here write is what those of the library write: the same rows, the same schema, the same bounds.

use std::path::Path;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use proptest::prelude::*;

use super::*;

/// What a column is filled with.
#[derive(Clone, Copy, Debug)]
enum Filling {
    Constant,
    /// So many values.
    Few(u64),
    /// The next is larger, by so much at most.
    Rising(u64),
    /// Any number.
    Any,
    /// The least and the most that there can be.
    Extremes,
}

/// Numbers that are always the same for the same beginning.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Values of a column; none where a row lacks it.
type Cells = Vec<Option<i64>>;

fn cells(filling: Filling, one_in: u64, rows: usize, seed: u64) -> Cells {
    let mut numbers = Numbers(seed);
    let mut last = numbers.next().cast_signed() >> 8;
    let mut one = || {
        let drawn = numbers.next();
        let is_missing = one_in > 0 && numbers.next().is_multiple_of(one_in);
        last = match filling {
            Filling::Constant => last,
            Filling::Few(values) => {
                (drawn % values).wrapping_mul(0xffff_8881_0000_0040).cast_signed()
            }
            Filling::Rising(most) => last.wrapping_add_unsigned(drawn % most),
            Filling::Any => drawn.cast_signed(),
            Filling::Extremes => {
                if drawn.is_multiple_of(2) {
                    i64::MIN
                } else {
                    i64::MAX
                }
            }
        };
        (!is_missing).then_some(last)
    };
    (0..rows).map(|_| one()).collect()
}

const NAMES: [&str; 5] = ["net:a", "net:b", "", "sched:some_longer_name", "z"];

fn name(cell: i64) -> &'static str {
    NAMES[cell.cast_unsigned() as usize % NAMES.len()]
}

/// A text, one of seven of them a long one.
fn text(cell: i64) -> String {
    let text = format!("{cell:x}");
    if cell.cast_unsigned().is_multiple_of(7) { text.repeat(9) } else { text }
}

fn write(path: &Path, columns: &[StreamColumn], table: &[Cells]) {
    let mut file = StreamWriter::create(path, columns, &[]).unwrap();
    let mut rows: Vec<_> = table.iter().map(|cells| cells.iter()).collect();
    for _ in &table[0] {
        for (place, (column, cells)) in columns.iter().zip(&mut rows).enumerate() {
            match (cells.next().copied().flatten(), column.kind) {
                (Some(cell), StreamKind::Name) => {
                    let number = file.name(place, name(cell).as_bytes()).unwrap();
                    file.number(place, number);
                }
                (Some(cell), StreamKind::Text | StreamKind::Bytes) => {
                    file.text(place, text(cell).as_bytes());
                }
                (Some(cell), _) => file.number(place, cell),
                (None, _) => {}
            }
        }
        assert!(file.end_row());
    }
    let closed = file.finish(&[]).unwrap();
    assert_eq!((closed.rows, closed.unwritten), (table[0].len() as u64, 0));
}

/// How many rows each row group of a file has.
fn rows_of_groups(path: &Path) -> Vec<usize> {
    let file = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    file.metadata().row_groups().iter().map(|group| group.num_rows() as usize).collect()
}

/// The same by the library alone, in row groups of so many rows.
fn write_by_library(path: &Path, columns: &[StreamColumn], table: &[Cells], groups: &[usize]) {
    let mut file = open(columns, &[], AtomicFile::create_at(path).unwrap()).unwrap();
    let all: Vec<usize> = (0..table[0].len()).collect();
    let mut rest = &all[..];
    for count in groups {
        let (rows, others) = rest.split_at(*count);
        rest = others;
        let mut group = file.next_row_group().unwrap();
        for (column, cells) in columns.iter().zip(table) {
            let mut chunk = group.next_column().unwrap().unwrap();
            let cells: Vec<Option<i64>> = rows.iter().map(|row| cells[*row]).collect();
            let levels: Vec<i16> = cells.iter().map(|cell| cell.is_some().into()).collect();
            let levels = (!column.always).then_some(&levels[..]);
            let values = cells.iter().flatten();
            match column.kind {
                StreamKind::Name => {
                    let texts: Vec<ByteArray> = values.map(|cell| name(*cell).into()).collect();
                    chunk.typed::<ByteArrayType>().write_batch(&texts, levels, None).unwrap();
                }
                StreamKind::Text | StreamKind::Bytes => {
                    let texts: Vec<ByteArray> =
                        values.map(|cell| text(*cell).as_str().into()).collect();
                    chunk.typed::<ByteArrayType>().write_batch(&texts, levels, None).unwrap();
                }
                _ => {
                    let values: Vec<i64> = values.copied().collect();
                    chunk.typed::<Int64Type>().write_batch(&values, levels, None).unwrap();
                }
            }
            chunk.close().unwrap();
        }
        group.close().unwrap();
    }
    assert!(rest.is_empty());
    file.into_inner().unwrap().commit_cut().unwrap();
}

/// Compares all that a reader sees of two files.
fn are_the_same(one: &Path, other: &Path) {
    let open = |path| SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let (one, other) = (open(one), open(other));
    let (of_one, of_other) = (one.metadata(), other.metadata());
    assert_eq!(of_one.file_metadata().schema(), of_other.file_metadata().schema());
    assert_eq!(of_one.num_row_groups(), of_other.num_row_groups());
    for (one, other) in of_one.row_groups().iter().zip(of_other.row_groups()) {
        assert_eq!(one.num_rows(), other.num_rows());
        for (one, other) in one.columns().iter().zip(other.columns()) {
            let column = one.column_descr().name();
            assert_eq!(one.num_values(), other.num_values(), "{column}");
            let bounds = |of: &parquet::file::metadata::ColumnChunkMetaData| {
                let of = of.statistics().unwrap();
                let (least, most) = (of.min_bytes_opt(), of.max_bytes_opt());
                (least.map(<[u8]>::to_vec), most.map(<[u8]>::to_vec), of.null_count_opt())
            };
            let (own, expected) = (bounds(one), bounds(other));
            assert_eq!(own.2, expected.2, "{column}");
            // Of long texts there are none here, and beginnings there.
            if own.0.is_some() || one.column_type() != parquet::basic::Type::BYTE_ARRAY {
                assert_eq!(own, expected, "{column}");
            }
        }
    }
    let mut others = other.get_row_iter(None).unwrap();
    for (number, row) in one.get_row_iter(None).unwrap().enumerate() {
        let other = others.next().unwrap().unwrap();
        assert_eq!(row.unwrap(), other, "row {number}");
    }
    assert!(others.next().is_none());
}

fn compare(kinds: &[(StreamKind, Filling, u64)], rows: usize, seed: u64) {
    let column = |(place, (kind, _, one_in)): (usize, &(StreamKind, Filling, u64))| StreamColumn {
        name: format!("c{place}"),
        kind: *kind,
        always: *one_in == 0,
    };
    let columns: Vec<StreamColumn> = kinds.iter().enumerate().map(column).collect();
    let filled = kinds.iter().enumerate().map(|(place, (_, filling, one_in))| {
        cells(*filling, *one_in, rows, seed.wrapping_add(place as u64))
    });
    let table: Vec<Cells> = filled.collect();
    let directory = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| directory.path().join(name));
    write(&here, &columns, &table);
    let groups = rows_of_groups(&here);
    assert!(groups.iter().all(|rows| (1..=GROUP_ROWS).contains(rows)), "{groups:?}");
    write_by_library(&there, &columns, &table, &groups);
    are_the_same(&here, &there);
}

fn kind() -> impl Strategy<Value = StreamKind> {
    use StreamKind::{Bytes, Name, Signed, Text, Time, Unsigned};
    prop_oneof![Just(Time), Just(Signed), Just(Unsigned), Just(Name), Just(Text), Just(Bytes)]
}

fn filling() -> impl Strategy<Value = Filling> {
    prop_oneof![
        Just(Filling::Constant),
        Just(Filling::Any),
        Just(Filling::Extremes),
        (1u64..5000).prop_map(Filling::Few),
        (1u64..1 << 40).prop_map(Filling::Rising),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn readers_see_what_the_library_would_have_written(
        // 1: no row has a value.
        kinds in proptest::collection::vec((kind(), filling(), 0u64..4), 1..5),
        rows in prop_oneof![1usize..300, PAGE_ROWS - 9..PAGE_ROWS + 9, 1..3 * PAGE_ROWS],
        seed in any::<u64>(),
    ) {
        compare(&kinds, rows, seed);
    }
}

#[test]
fn a_chunk_goes_over_to_differences_and_the_next_one_begins_anew() {
    // 3000 values are more than a dictionary takes, and come only with the second page of each.
    let kinds = [
        (StreamKind::Unsigned, Filling::Few(3000), 0),
        (StreamKind::Signed, Filling::Few(2000), 3),
        (StreamKind::Time, Filling::Rising(900), 0),
        (StreamKind::Name, Filling::Few(5), 0),
        (StreamKind::Text, Filling::Few(3000), 2),
        (StreamKind::Text, Filling::Constant, 0),
        (StreamKind::Bytes, Filling::Any, 0),
    ];
    compare(&kinds, GROUP_ROWS + PAGE_ROWS + 1, 5);
}

#[test]
fn rows_column_by_column_are_those_that_come_one_by_one() {
    let kinds = [StreamKind::Time, StreamKind::Unsigned, StreamKind::Text, StreamKind::Bytes];
    let column = |(place, kind): (usize, StreamKind)| StreamColumn {
        name: format!("c{place}"),
        kind,
        always: place == 0,
    };
    let columns: Vec<StreamColumn> = kinds.into_iter().enumerate().map(column).collect();
    let table: Vec<Cells> =
        (0..4).map(|seed| cells(Filling::Few(900), 0, 3 * PAGE_ROWS, seed)).collect();
    let directory = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| directory.path().join(name));
    write(&there, &columns, &table);
    let mut file = StreamWriter::create(&here, &columns, &[]).unwrap();
    let (mut row, mut wanted) = (0, 1);
    while row < table[0].len() {
        let count = wanted.min(file.room()).min(table[0].len() - row);
        for (place, cells) in table.iter().enumerate() {
            let cells = cells[row..row + count].iter().map(|cell| cell.unwrap());
            match columns[place].kind {
                StreamKind::Text | StreamKind::Bytes => cells
                    .enumerate()
                    .for_each(|(row, cell)| file.text_of(place, row, text(cell).as_bytes())),
                _ => file.numbers(place, cells),
            }
        }
        assert!(file.end_some(count));
        (row, wanted) = (row + count, wanted % 700 + 7);
    }
    file.finish(&[]).unwrap();
    are_the_same(&here, &there);
}

#[test]
fn what_is_said_again_and_again_takes_next_to_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let column = StreamColumn { name: "cpu".into(), kind: StreamKind::Unsigned, always: true };
    write(&path, &[column], &[vec![Some(7); GROUP_ROWS]]);
    assert!(std::fs::metadata(&path).unwrap().len() < 2048);
}

#[test]
fn rows_lack_what_they_were_not_given() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.parquet");
    let column = |name: &str, kind, always| StreamColumn { name: name.into(), kind, always };
    let columns = [
        column("time", StreamKind::Time, true),
        column("len", StreamKind::Unsigned, false),
        column("dev", StreamKind::Text, false),
        column("stack", StreamKind::Texts, false),
    ];
    let mut file = StreamWriter::create(&path, &columns, &[]).unwrap();
    for row in 0..5 {
        file.number(0, row);
        if row % 2 == 1 {
            file.number(1, row * 10);
        }
        if row == 4 {
            file.text(2, b"lo");
            file.texts(3, [&b"f"[..], b"g"].into_iter());
        }
        if row == 2 {
            file.texts(3, std::iter::empty());
        }
        assert!(file.end_row());
    }
    let closed = file.finish(&[("weigh.lost".into(), "3".into())]).unwrap();
    assert_eq!((closed.rows, closed.unwritten), (5, 0));
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let rows: Vec<String> =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert!(rows[0].contains("len: null, dev: null"), "{}", rows[0]);
    assert!(rows[3].contains("len: 30"), "{}", rows[3]);
    assert!(rows[4].contains("dev: \"lo\", stack: [\"f\", \"g\"]"), "{}", rows[4]);
    assert!(rows[2].contains("stack: []"), "{}", rows[2]);
    assert!(rows[3].contains("stack: null"), "{}", rows[3]);
    let length = std::fs::metadata(&path).unwrap().len();
    assert!(length < 4096, "nothing of the room that was asked for is left: {length}");
}
