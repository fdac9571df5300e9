//! What is counted of a file and process besides the bytes of each kind of transfer.

use crate::histogram::Histogram;
use crate::unit::Unit;

/// How two values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// They add up.
    Sum,
    /// The greater one.
    Greatest,
    /// The smaller one; the greatest number of 64 bits stands for none.
    Least,
}

macro_rules! fields {
    ($($name:ident $slot:literal $unit:ident $fold:ident $help:literal;)*) => {
        /// A number that is kept of each file and process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // [`Field::help`] says it, and the reference has it from there
        pub enum Field { $($name),* }

        /// All of them, in the order in which they are kept.
        pub const FIELDS: &[Field] = &[$(Field::$name),*];

        impl Field {
            /// Its name in the BPF programs.
            pub const fn slot(self) -> &'static str {
                match self { $(Field::$name => $slot),* }
            }

            /// Its unit.
            pub const fn unit(self) -> Unit {
                match self { $(Field::$name => Unit::$unit),* }
            }

            /// How two values become one.
            pub const fn fold(self) -> Fold {
                match self { $(Field::$name => Fold::$fold),* }
            }

            /// What it counts.
            pub const fn help(self) -> &'static str {
                match self { $(Field::$name => $help),* }
            }
        }
    };
}

fields! {
    ReadTime "read_ns" Seconds Sum "time in calls that read";
    WriteTime "write_ns" Seconds Sum "time in calls that write";
    MetadataTime "metadata_ns" Seconds Sum "time in opens, seeks and metadata calls";
    SyncTime "sync_ns" Seconds Sum "time in fsync, fdatasync, sync_file_range and syncfs";
    Opens "opens" Count Sum "times it was opened";
    Closes "closes" Count Sum "times a descriptor of it was closed by close(2)";
    Seeks "seeks" Count Sum "calls of lseek";
    Metadata "metadata_calls" Count Sum
        "calls about it that move no data: fstat, fallocate, fchmod, flock, getdents and their like, by descriptor";
    Syncs "syncs" Count Sum "fsync, fdatasync, sync_file_range, syncfs";
    SmallSyncs "small_syncs" Count Sum "those of them after less than 64 KiB written since the last one";
    Truncates "truncates" Count Sum "ftruncate, and opens with O_TRUNC";
    Maps "maps" Count Sum "times it was mapped by mmap(2)";
    Failed "failed" Count Sum "calls on it that failed, ends of waiting (EAGAIN, EINTR) included";
    ConsecutiveReads "consecutive_reads" Count Sum "reads that begin where the last one ended";
    StridedReads "strided_reads" Count Sum "reads as far from the last one as that was from the one before";
    SequentialReads "sequential_reads" Count Sum "other reads that begin behind the end of the last one";
    RandomReads "random_reads" Count Sum "all other reads but the first";
    ConsecutiveWrites "consecutive_writes" Count Sum "writes that begin where the last one ended";
    StridedWrites "strided_writes" Count Sum "writes as far from the last one as that was from the one before";
    SequentialWrites "sequential_writes" Count Sum "other writes that begin behind the end of the last one";
    RandomWrites "random_writes" Count Sum "all other writes but the first";
    Reread "reread" Bytes Sum "bytes read that the process had read before";
    Rewritten "rewritten" Bytes Sum "bytes written that the process had written before";
    Forgotten "forgotten" Count Sum
        "stretches of the file that were forgotten for want of room: with any, bytes read or written again are a lower bound";
    Direct "direct_calls" Count Sum "reads and writes past the page cache (O_DIRECT)";
    Unaligned "unaligned_direct_calls" Count Sum
        "those of them whose offset or length is no multiple of 4096";
    Filled "filled" Bytes Sum
        "bytes of whole pages that came into the page cache under its calls: what the cache did not have";
    AheadUnused "readahead_unused" Bytes Sum
        "those of them that came in under its reads, for it or ahead of it, and that no call of the job has read or written since";
    AheadDoubts "readahead_doubts" Count Sum
        "times that pages of it may have been used unseen while they waited for that: mapped, or read at a place that is not known; with any, readahead_unused_bytes is an upper bound";
    Placed "placed" Count Sum "reads and writes whose offset in the file is known";
    Lowest "lowest" Bytes Least "where the first byte that was read or written lies";
    Highest "highest" Bytes Greatest "where the last byte that was read or written ends";
    First "first_ns" Seconds Least "when it was first used, since the following began";
    Last "last_ns" Seconds Greatest "when it was last used, since the following began";
    Cached "cached_reads" Count Sum
        "reads of files through the page cache during which nothing came into it: all was there, or on its way";
    DeviceRead "device_read" Bytes Sum
        "bytes that a device read for it: for the page cache, or past it";
    DeviceReadTime "device_read_ns" Seconds Sum
        "time of these requests, each from when it was made until it was done, and shared by bytes";
    DeviceWritten "device_written" Bytes Sum
        "bytes of it that a device wrote: of pages that the process made dirty, and past the page cache";
    DeviceWriteTime "device_write_ns" Seconds Sum "time of these requests";
    WrittenSelf "written_by_itself" Bytes Sum
        "those of them that the process itself handed to the device: by fsync and its like, or past the page cache";
    WrittenKernel "written_by_kernel" Bytes Sum "those that a thread of the kernel handed to the device";
    WrittenOther "written_by_others" Bytes Sum "those that another process handed to the device";
    WrittenFirst "written_first_ns" Seconds Least
        "when a device had first written something of it, since the following began";
    WrittenLast "written_last_ns" Seconds Greatest "when a device had last written something of it";
}

impl Field {
    /// Time in calls, all together.
    pub const TIMES: [Field; 4] =
        [Field::ReadTime, Field::WriteTime, Field::MetadataTime, Field::SyncTime];

    /// Its key in JSON and its column: the name, with the unit where it is one.
    pub fn key(self) -> String {
        match self.unit() {
            Unit::Seconds => format!("{}_seconds", self.slot().trim_end_matches("_ns")),
            Unit::Bytes => format!("{}_bytes", self.slot()),
            _ => format!("{}_total", self.slot()),
        }
    }
}

/// The smallest size that is counted in a bucket.
pub fn bucket_start(bucket: usize) -> u64 {
    SizeHistogram::first(bucket as u32)
}

/// The bucket of a size.
pub(super) fn bucket(bytes: u64) -> usize {
    (SizeHistogram::bucket(bytes) as usize).min(SIZES - 1)
}

/// Sizes, of which each doubling has one bucket.
type SizeHistogram = Histogram<0>;

/// Power-of-two buckets of sizes: 0, 1, 2-3, 4-7, and so on; the last has all that is greater.
pub const SIZES: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_have_their_units() {
        let keys: std::collections::HashSet<String> = FIELDS.iter().map(|f| f.key()).collect();
        assert_eq!(keys.len(), FIELDS.len());
        assert_eq!(Field::ReadTime.key(), "read_seconds");
        assert_eq!(Field::Reread.key(), "reread_bytes");
        assert_eq!(Field::Opens.key(), "opens_total");
    }

    #[test]
    fn a_field_is_its_place() {
        for (place, field) in FIELDS.iter().enumerate() {
            assert_eq!(*field as usize, place);
        }
    }
}
