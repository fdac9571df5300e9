//! How far the numbers of the kernel side can be trusted.

use std::collections::BTreeMap;

use weigh_schema::Quality;
use weigh_schema::io::{Tally, Trust};

/// What is written by mapped memory: its column has the same name.
pub const MAPPED_WRITTEN: &str = "mapped_written_bytes";
/// The same of what is read.
pub const MAPPED_READ: &str = "mapped_read_bytes";

/// How far the kernel side's numbers can be trusted. What comes into the page cache is told of in any case.
pub fn qualities(tally: &Tally) -> BTreeMap<String, Trust> {
    let known = [(MAPPED_WRITTEN, of_stores(tally)), (MAPPED_READ, of_holes(tally))];
    known.into_iter().filter_map(|(key, trust)| Some((key.to_string(), trust?))).collect()
}

/// Holes are no reads, and nothing tells of which pages they are.
fn of_holes(tally: &Tally) -> Option<Trust> {
    let reason = format!(
        "{} pages are of files with less storage than their size (sparse or compressed): those that are holes were \
         not read",
        tally.sparse_fills
    );
    (tally.sparse_fills > 0).then_some(Trust { quality: Quality::Estimated, reason })
}

/// Into what is mapped shared and writable there are stores that nothing tells of.
fn of_stores(tally: &Tally) -> Option<Trust> {
    let Tally { shared_maps, memory_maps, .. } = *tally;
    let in_memory = match memory_maps {
        0 => String::new(),
        maps => format!(
            "; nothing is seen of what is stored into pages that files of tmpfs have ({maps} of these)"
        ),
    };
    let times = match shared_maps {
        1 => "once".to_string(),
        maps => format!("{maps} times"),
    };
    let reason = format!(
        "files were mapped shared and writable ({times}): stores into pages that were dirty before are not \
         seen{in_memory}"
    );
    (shared_maps > 0).then_some(Trust { quality: Quality::Estimated, reason })
}
