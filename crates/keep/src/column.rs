//! Columns, declared once: a name, a type, and the way into a row. Writing and reading both go
//! through the declaration, and so does the Parquet schema.
//!
//! Emits cells from rows and puts cells into rows; refuses a cell that the row's field cannot hold.

use std::borrow::Cow;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};
use serde::Deserialize;
use serde::de::value::{Error as PlainError, StrDeserializer};
use weigh_schema::call_row::Returned;
use weigh_schema::region::RegionKind;
use weigh_schema::{Quality, Unit};

/// One value on its way between a row and a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    /// Any whole number; an unsigned one keeps its 64 bits.
    Int(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

/// What a column means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nanoseconds since the Unix epoch, UTC.
    Time,
    /// A whole number below 2^63.
    Signed,
    /// A whole number below 2^64.
    Unsigned,
    Real,
    Text,
}

impl Meaning {
    pub(crate) fn physical(self) -> Physical {
        match self {
            Meaning::Time | Meaning::Signed | Meaning::Unsigned => Physical::INT64,
            Meaning::Real => Physical::DOUBLE,
            Meaning::Text => Physical::BYTE_ARRAY,
        }
    }

    fn logical(self) -> Option<LogicalType> {
        match self {
            Meaning::Time => Some(LogicalType::timestamp(true, TimeUnit::NANOS)),
            Meaning::Unsigned => Some(LogicalType::integer(64, false)),
            Meaning::Text => Some(LogicalType::String),
            Meaning::Signed | Meaning::Real => None,
        }
    }
}

/// A field's type that can stand in a column.
pub(crate) trait Stored: Sized {
    const MEANING: Meaning;
    const OPTIONAL: bool = false;

    fn to_cell(&self) -> Option<Cell<'_>>;
    /// None if the field cannot hold that cell.
    fn from_cell(cell: Cell<'_>) -> Option<Self>;
}

/// Signed 64-bit numbers in the rows are times, but for what calls return.
impl Stored for i64 {
    const MEANING: Meaning = Meaning::Time;

    fn to_cell(&self) -> Option<Cell<'_>> {
        Some(Cell::Int(*self))
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Int(n) = cell { Some(n) } else { None }
    }
}

impl Stored for Returned {
    const MEANING: Meaning = Meaning::Signed;

    fn to_cell(&self) -> Option<Cell<'_>> {
        Some(Cell::Int(self.0))
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Int(n) = cell { Some(Returned(n)) } else { None }
    }
}

impl Stored for u32 {
    const MEANING: Meaning = Meaning::Signed;

    fn to_cell(&self) -> Option<Cell<'_>> {
        Some(Cell::Int(i64::from(*self)))
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Int(n) = cell { n.try_into().ok() } else { None }
    }
}

impl Stored for u64 {
    const MEANING: Meaning = Meaning::Unsigned;

    fn to_cell(&self) -> Option<Cell<'_>> {
        Some(Cell::Int(self.cast_signed()))
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Int(n) = cell { Some(n.cast_unsigned()) } else { None }
    }
}

impl Stored for f64 {
    const MEANING: Meaning = Meaning::Real;

    fn to_cell(&self) -> Option<Cell<'_>> {
        Some(Cell::Real(*self))
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Real(x) = cell { Some(x) } else { None }
    }
}

impl Stored for String {
    const MEANING: Meaning = Meaning::Text;

    fn to_cell(&self) -> Option<Cell<'_>> {
        Some(Cell::Text(Cow::Borrowed(self)))
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Text(text) = cell { Some(text.into_owned()) } else { None }
    }
}

impl Stored for Quality {
    const MEANING: Meaning = Meaning::Text;

    fn to_cell(&self) -> Option<Cell<'_>> {
        Some(Cell::Text(Cow::Owned(self.to_string())))
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        let Cell::Text(text) = cell else { return None };
        Quality::deserialize(StrDeserializer::<PlainError>::new(&text)).ok()
    }
}

impl Stored for RegionKind {
    const MEANING: Meaning = Meaning::Text;

    fn to_cell(&self) -> Option<Cell<'_>> {
        Some(Cell::Text(Cow::Borrowed(self.name())))
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        let Cell::Text(text) = cell else { return None };
        RegionKind::ALL.iter().copied().find(|kind| kind.name() == text)
    }
}

impl<T: Stored> Stored for Option<T> {
    const MEANING: Meaning = T::MEANING;
    const OPTIONAL: bool = true;

    fn to_cell(&self) -> Option<Cell<'_>> {
        self.as_ref().and_then(T::to_cell)
    }

    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        T::from_cell(cell).map(Some)
    }
}

type Get<R> = Box<dyn Fn(&R) -> Option<Cell<'_>>>;
type Set<R> = Box<dyn Fn(&mut R, Cell<'_>) -> Option<()>>;
type SetAbsent<R> = Box<dyn Fn(&mut R)>;

/// The declaration of one column of rows `R`.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) unit: Option<Unit>,
    pub(crate) meaning: Meaning,
    pub(crate) optional: bool,
    get: Get<R>,
    set: Set<R>,
    set_absent: Option<SetAbsent<R>>,
}

impl<R: 'static> Column<R> {
    /// A column that is a field of the row; its type follows from the field's.
    pub(crate) fn field<T: Stored + 'static>(
        name: &'static str,
        help: &'static str,
        get: fn(&R) -> &T,
        get_mut: fn(&mut R) -> &mut T,
    ) -> Column<R> {
        Column {
            name,
            help,
            unit: None,
            meaning: T::MEANING,
            optional: T::OPTIONAL,
            get: Box::new(move |row| get(row).to_cell()),
            set: Box::new(move |row, cell| {
                *get_mut(row) = T::from_cell(cell)?;
                Some(())
            }),
            set_absent: None,
        }
    }

    /// A column that may be absent and is worked out from the row.
    pub(crate) fn computed<T: Stored + 'static>(
        name: &'static str,
        help: &'static str,
        unit: Option<Unit>,
        get: impl Fn(&R) -> Option<T> + 'static,
        set: impl Fn(&mut R, T) + 'static,
    ) -> Column<R> {
        // What `get` returns is gone when the cell leaves, so that the cell must own its text.
        let owned = |cell: Cell<'_>| match cell {
            Cell::Text(text) => Cell::Text(Cow::Owned(text.into_owned())),
            Cell::Int(n) => Cell::Int(n),
            Cell::Real(x) => Cell::Real(x),
        };
        Column {
            name,
            help,
            unit,
            meaning: T::MEANING,
            optional: true,
            get: Box::new(move |row| get(row)?.to_cell().map(owned)),
            set: Box::new(move |row, cell| {
                set(row, T::from_cell(cell)?);
                Some(())
            }),
            set_absent: None,
        }
    }

    /// The same column; a row without a value is told so when it is read.
    pub(crate) fn or_absent(self, set_absent: impl Fn(&mut R) + 'static) -> Column<R> {
        Column { set_absent: Some(Box::new(set_absent)), ..self }
    }

    /// The same column, in the unit that its name ends with.
    pub(crate) fn in_its_unit(self) -> Column<R> {
        let unit = match self.name.rsplit('_').next() {
            Some("bytes") => Some(Unit::Bytes),
            Some("seconds") => Some(Unit::Seconds),
            Some("total") => Some(Unit::Count),
            _ => None,
        };
        Column { unit, ..self }
    }

    /// The same column, where every row has a value.
    pub(crate) fn always(self) -> Column<R> {
        Column { optional: false, ..self }
    }

    /// The column of a row that is a part of another one, which may lack it.
    pub(crate) fn within<W: 'static>(
        self,
        part: fn(&W) -> Option<&R>,
        part_mut: fn(&mut W) -> &mut R,
    ) -> Column<W> {
        let Column { name, help, unit, meaning, get, set, set_absent, .. } = self;
        Column {
            name,
            help,
            unit,
            meaning,
            optional: true,
            get: Box::new(move |row| get(part(row)?)),
            set: Box::new(move |row, cell| set(part_mut(row), cell)),
            set_absent: set_absent.map(|set| -> SetAbsent<W> {
                Box::new(move |row| {
                    if part(row).is_some() {
                        set(part_mut(row));
                    }
                })
            }),
        }
    }

    /// The row's value in this column.
    pub(crate) fn get<'r>(&self, row: &'r R) -> Option<Cell<'r>> {
        (self.get)(row)
    }

    /// Puts a value into the row; false if the field cannot hold it.
    pub(crate) fn set(&self, row: &mut R, cell: Cell<'_>) -> bool {
        (self.set)(row, cell).is_some()
    }

    /// The row has no value in this column.
    pub(crate) fn set_absent(&self, row: &mut R) {
        if let Some(set) = &self.set_absent {
            set(row);
        }
    }

    /// The column's type in the file.
    pub(crate) fn parquet_type(&self) -> Result<TypePtr, ParquetError> {
        let repetition = if self.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(self.name, self.meaning.physical())
            .with_logical_type(self.meaning.logical())
            .with_repetition(repetition)
            .build()
            .map(Arc::new)
    }
}

/// `column!(field, "help")` or `column!("name" = field, "help")`.
macro_rules! column {
    ($field:ident, $help:literal) => {
        column!((stringify!($field)) = $field, $help)
    };
    ($name:literal = $field:ident, $help:literal) => {
        column!(($name) = $field, $help)
    };
    (($name:expr) = $field:ident, $help:literal) => {
        $crate::column::Column::field($name, $help, |row| &row.$field, |row| &mut row.$field)
    };
}
pub(crate) use column;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quality_has_a_cell_and_back() {
        for quality in [Quality::Exact, Quality::Sampled, Quality::Estimated, Quality::Unavailable]
        {
            let cell = quality.to_cell().unwrap();
            assert_eq!(Quality::from_cell(cell), Some(quality));
        }
        assert_eq!(Quality::from_cell(Cell::Text("perfect".into())), None);
    }

    #[test]
    fn a_cell_that_does_not_fit_is_refused() {
        assert_eq!(u32::from_cell(Cell::Int(-1)), None);
        assert_eq!(u32::from_cell(Cell::Int(1 << 32)), None);
        assert_eq!(String::from_cell(Cell::Real(0.0)), None);
        assert_eq!(u64::from_cell(Cell::Int(-1)), Some(u64::MAX));
    }
}
