//! What a mount can see of what is done with its files, and how far its numbers can be trusted.

use std::collections::BTreeMap;

use weigh_mount::Sight;
use weigh_schema::io::{Field, ReportBasis, Transfer, Trust};
use weigh_schema::{Mechanism, Quality};

use Quality::{Estimated, Unavailable};

const PASSED: &str = "the kernel reads and writes the folder below by itself, and tells nobody; --exact has every call come here, --no-passthrough the writes; `weigh io` as the command counts where the calls are made";
const CACHED: &str = "reads that the page cache can answer do not come here; filled_bytes has what it lacked, and --exact has every call come here";
const PASSED_CALLS: &str = "calls that read and write have no row: the kernel does them by itself, and tells nobody; --exact has every call come here";
const CACHED_CALLS: &str = "calls that read have no row: the page cache answers them; what it lacked are rows of the kind fill, and --exact has every call come here";
const PIECES: &str =
    "what is more than 1 MiB in one call comes here in pieces, and each is counted";
const PAGES: &str = "a call that crosses the border of a page, or moves more than 1 MiB, may come here in pieces, and each is counted";
const SERVED: &str =
    "the time in which weigh served: the way through the kernel and back is not in it";
const KERNELS: &str = "the kernel does this by itself, and tells nobody";
const ALSO: &str = "the kernel answers most of these by itself; those that came here are counted";
const ENDS: &str = "what a process has open when it ends is closed for it, and counted, too";

/// Numbers that are not exact whatever is asked for.
const ALWAYS: [(&str, Quality, &str); 10] = [
    ("closes_total", Estimated, ENDS),
    ("maps_total", Unavailable, KERNELS),
    ("metadata_calls_total", Estimated, ALSO),
    ("metadata_seconds", Estimated, SERVED),
    ("path_calls_total", Estimated, ALSO),
    ("seeks_total", Estimated, ALSO),
    ("sync_seconds", Estimated, SERVED),
    ("readahead_unused_bytes", Unavailable, AHEAD),
    ("device_read_bytes", Unavailable, DEVICES),
    ("device_written_bytes", Unavailable, DEVICES),
];

const AHEAD: &str = "whether pages that the kernel asked for are used by anybody is not seen here: that takes --mechanism bpf";

const DEVICES: &str =
    "what devices read and write for files is not seen here: that takes --mechanism bpf";

const UNCACHED: &str =
    "every call comes here, and what the page cache below has of the folder is not seen";
const WRITES_ALONE: &str = "of mapped memory what is written comes here, and is exact; reads that the page cache can answer do not";

const MOVES_ALONE: &str = "of writes, copies and reads past the page cache: reads that the page cache can answer do not come here";

/// What follows from the order of reads, and from which there were.
const OF_READS: [Field; 6] = [
    Field::ConsecutiveReads,
    Field::StridedReads,
    Field::SequentialReads,
    Field::RandomReads,
    Field::Reread,
    Field::Cached,
];
/// The same of writes.
const OF_WRITES: [Field; 6] = [
    Field::ConsecutiveWrites,
    Field::StridedWrites,
    Field::SequentialWrites,
    Field::RandomWrites,
    Field::Rewritten,
    Field::SmallSyncs,
];
/// Of both.
const OF_MOVES: [Field; 5] =
    [Field::Direct, Field::Unaligned, Field::Placed, Field::Lowest, Field::Highest];

const READS: [&str; 3] = ["read_bytes", "read_calls", "read_seconds"];
const WRITES: [&str; 3] = ["written_bytes", "write_calls", "write_seconds"];

/// How the numbers of such a mount are to be read.
pub fn grounds(sight: Sight) -> ReportBasis {
    let mut all: Vec<(&str, Quality, &str)> = ALWAYS.to_vec();
    let mapped = Transfer::Mapped.name();
    let unavailable = |keys: [&'static str; 3], why| keys.map(|key| (key, Unavailable, why));
    let seen = |[_, calls, seconds]: [&'static str; 3], pieces| {
        [(calls, Estimated, pieces), (seconds, Estimated, SERVED)]
    };
    match sight {
        Sight::Passing => {
            all.extend(unavailable(READS, PASSED));
            all.extend(unavailable(WRITES, PASSED));
            all.push((mapped, Unavailable, PASSED));
        }
        Sight::Cached => {
            all.extend(unavailable(READS, CACHED));
            all.extend(seen(WRITES, PAGES));
            all.push((mapped, Estimated, WRITES_ALONE));
        }
        Sight::Exact => {
            all.extend(seen(READS, PIECES));
            all.extend(seen(WRITES, PIECES));
        }
    }
    let fields = fields(sight).into_iter().map(|(field, quality, why)| (field.key(), quality, why));
    let all = all.into_iter().map(|(key, quality, reason)| (key.to_string(), quality, reason));
    let qualities = all
        .chain(fields)
        .map(|(key, quality, reason)| (key, Trust { quality, reason: reason.to_string() }));
    ReportBasis {
        mechanism: Mechanism::Fuse,
        quality: match sight {
            Sight::Passing => Unavailable,
            Sight::Cached => Estimated,
            Sight::Exact => Quality::Exact,
        },
        qualities: BTreeMap::from_iter(qualities),
        ..ReportBasis::default()
    }
}

/// Numbers that are not exact where these calls are not seen.
fn fields(sight: Sight) -> Vec<(Field, Quality, &'static str)> {
    let all = |fields: &[Field], quality, why| -> Vec<_> {
        fields.iter().map(|field| (*field, quality, why)).collect()
    };
    match sight {
        Sight::Passing => [&OF_READS[..], &[Field::Filled], &OF_WRITES, &OF_MOVES]
            .map(|of| all(of, Unavailable, PASSED))
            .concat(),
        Sight::Cached => {
            [all(&OF_READS, Unavailable, CACHED), all(&OF_MOVES, Estimated, MOVES_ALONE)].concat()
        }
        Sight::Exact => all(&[Field::Filled, Field::Cached], Unavailable, UNCACHED),
    }
}

/// Which calls have no row of their own where each is to have one.
pub fn calls_without_rows(sight: Sight) -> Option<&'static str> {
    match sight {
        Sight::Passing => Some(PASSED_CALLS),
        Sight::Cached => Some(CACHED_CALLS),
        Sight::Exact => None,
    }
}

/// Opens that the kernel did not pass through.
pub fn refused((times, error): &(u64, String)) -> String {
    format!(
        "{times} opens could not be passed through by the kernel, and were served here: {error}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unseen_has_a_reason() {
        for sight in [Sight::Passing, Sight::Cached, Sight::Exact] {
            let grounds = grounds(sight);
            let unseen = grounds.unseen();
            assert_eq!(unseen.any(), calls_without_rows(sight).is_some(), "{sight:?}");
            let of = |key: &str| grounds.qualities.get(key).map(|trust| trust.quality);
            let is = |key: &str| of(key) == Some(Unavailable);
            assert_eq!(READS.map(is), [unseen.reads; 3], "{sight:?}");
            assert_eq!(WRITES.map(is), [unseen.writes; 3], "{sight:?}");
            // What follows from reads is not known where they are not.
            let follows = ["consecutive_reads_total", "reread_bytes", "random_reads_total"];
            assert_eq!(follows.map(is), [unseen.reads; 3], "{sight:?}");
            let follows = ["consecutive_writes_total", "rewritten_bytes"];
            assert_eq!(follows.map(is), [unseen.writes; 2], "{sight:?}");
            assert!(is("cached_reads_total"), "{sight:?}");
            assert_eq!(is("filled_bytes"), sight != Sight::Cached);
            let mapped = match sight {
                Sight::Passing => Some(Unavailable),
                Sight::Cached => Some(Estimated),
                Sight::Exact => None,
            };
            assert_eq!(of("mapped"), mapped);
            let all = match sight {
                Sight::Passing => Unavailable,
                Sight::Cached => Estimated,
                Sight::Exact => Quality::Exact,
            };
            assert_eq!(grounds.quality, all);
        }
    }
}
