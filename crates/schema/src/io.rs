//! What `weigh io` keeps of each file and process, declared once.
//!
//! From here come the structures of the BPF programs (`collect`'s build script writes a header), the
//! keys of the JSON, the columns of the Parquet file and the reference in `docs/io.md`.
//!
//! * [`Transfer`]: the ways in which bytes are moved.
//! * [`Field`]: what else is counted.
//! * [`Numbers`]: all of it, of one file and process.
//! * [`Counting`]: how it is counted, where that is done in user space.
//! * [`Use`], [`Event`]: what `collect` hands to `account`.
//! * [`IoReport`]: what `account` hands to `show` and `keep`; [`Moment`], [`PlaceMoment`]: the same over time.

mod called;
mod counting;
mod field;
mod file_state;
mod header;
mod interval;
mod object;
mod offset_histogram;
mod pattern;
mod provenance;
mod report;
mod transfer;
mod transferred;
mod usage;

pub use called::{Called, Deed, IoCall, Untold};
pub use counting::{Counting, Moved, Span};
pub use field::{FIELDS, Field, Fold, SIZES, bucket_start};
pub use file_state::{FileAtEnd, FileState, FileStates};
pub use header::c_header;
pub use interval::{Moment, PlaceMoment};
pub use object::{FileId, Object};
pub use offset_histogram::{OffsetHistogram, PLACE_SHIFT, PLACES};
pub use provenance::{Price, ReportBasis, Witness};
pub use report::{
    Advice, FileUse, Flow, IoFound, IoReport, ProcessUse, REPORT, Rest, Slowest, Stride, Totals,
};
pub use transfer::Transfer;
pub use transferred::{Transferred, Trust, Unseen};
pub use usage::{
    Direction, Event, Named, Numbers, Process, SEEN, STRIDES, Sources, Stretch, Tally, Use, Who,
};
