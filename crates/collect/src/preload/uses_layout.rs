//! What each process does with each file, as the library of level 4 counts it: a second shared file,
//! beside the one of the processes.
//!
//! Declared once, here: the build script includes this file and writes the library's header from it.
//! All of it is numbers of eight bytes but for the states, which lie close together, and the names.

use std::fmt::Write as _;

use weigh_schema::io::{Numbers, SEEN, STRIDES};

/// Changes whenever the layout does.
pub const MAGIC: u64 = 0x7765_6967_6869_0006;

/// Beside the name of the first shared file.
pub const SUFFIX: &str = ".io";

/// Files and processes that are kept at one moment, together with those that weigh has not read since they
/// were done with. The first one is the rest.
pub const USES: usize = 32_768;

/// Uses, and processes, for which a process makes room where it finds none left in the file: whole pages.
pub const ROOM_STEP: usize = 32;

/// The same as of the first shared file.
pub const PROCESSES: usize = super::layout::SLOTS;

/// Half of the smallest page: none lies across two.
pub const USE_BYTES: usize = 2048;

/// What the file begins with.
pub const HEAD: &[&str] = &[
    "magic",
    // Whether time is taken by the processor's counter; else by the kernel's monotonic clock.
    "is_by_counter",
    // The first free use, and above 32 bits a number that changes each time.
    "free",
    // Uses that were ever taken.
    "used",
    // Uses, and processes, that the file has room for: none is taken, or looked at, beyond.
    "room",
    "process_room",
    // Calls that found no room by file: in the rest.
    "rest_calls",
    // Programs whose address space has no room for this file, that found none in it, or that use no
    // processor's counter.
    "refused",
    // Processes whose streams (stdio) are not seen.
    "without_streams",
    // Files that have lost their last name: told of, read by weigh, and those for which there was no room.
    "unlinked",
    "unlinked_read",
    "unlinked_lost",
];

/// What is kept of a process.
pub const PROCESS: &[&str] = &[
    "path_calls",
    "path_time",
    "failed_opens",
    // Of those on files, for the kernel counts them as calls, too.
    "failed_reads",
    "failed_writes",
    // Moved by splice, tee, vmsplice, which the kernel does not count.
    "uncounted_read_bytes",
    "uncounted_read_calls",
    "uncounted_written_bytes",
    "uncounted_write_calls",
    // What the kernel had counted for it when it executed a program.
    "executed_read_bytes",
    "executed_read_calls",
    // From there until the library woke up in that: the kernel's own reading, the loader's.
    "start_read_bytes",
    "start_read_calls",
];

/// What is kept of a file and process besides its numbers.
pub const USE: &[&str] = &[
    "lock",
    "next_free",
    "next_in_bucket",
    // Of the process that refer to it.
    "descriptors",
    "pid",
    "slot",
    "device",
    "inode",
    // What tells files apart that have been given the same number: of when they were made.
    "born",
    "mode",
    "rdev",
    "links",
    // Bytes written since the last fsync.
    "unsynced",
    "slowest_time",
    "slowest_call",
    "slowest_at",
    "name_bytes",
];

/// Files that have lost their last name, told of one after the other, round and round.
pub const UNLINKED: usize = 4096;

/// What is told of one; at last its number, plus one.
pub const UNLINKED_FILE: &[&str] = &["device", "inode", "born", "complete"];

/// What `struct io_direction` of `io_numbers.h` has before the stretches and the strides.
pub const DIRECTION: &[&str] = &["last_from", "last_to", "last_stride", "accesses"];

/// Numbers of a direction.
pub const DIRECTION_WORDS: usize = DIRECTION.len() + 2 * SEEN + 2 * STRIDES;

/// Bytes of a process: with none of another in one line of the cache.
pub const PROCESS_BYTES: usize = 128;

/// Room for a name; of a longer one the end is kept.
pub const NAME_BYTES: usize = USE_BYTES - 8 * (USE.len() + Numbers::WORDS + 2 * DIRECTION_WORDS);

const HEAD_BYTES: usize = 4096;

/// Where the states begin, of four bytes each.
pub const STATES_AT: usize = HEAD_BYTES;
/// Where the processes begin.
pub const PROCESSES_AT: usize = STATES_AT + 4 * USES;
/// Where the uses begin.
pub const USES_AT: usize = PROCESSES_AT + PROCESS_BYTES * PROCESSES;
/// Where the files begin that have lost their last name.
pub const UNLINKED_AT: usize = USES_AT + USE_BYTES * USES;
/// Bytes of the file.
pub const BYTES: usize = UNLINKED_AT + 8 * UNLINKED_FILE.len() * UNLINKED;

const _: () = assert!(8 * PROCESS.len() <= PROCESS_BYTES && 8 * HEAD.len() <= HEAD_BYTES);

/// Nobody's.
#[allow(dead_code)] // the library knows it as zero
pub const USE_FREE: u32 = 0;
/// Is being filled.
pub const USE_BEGUN: u32 = 1;
/// Its process has it open.
pub const USE_OPEN: u32 = 2;
/// Its process is done with it.
pub const USE_DONE: u32 = 3;

/// The header that the library is compiled with.
#[allow(dead_code)] // the build script does
pub fn c_header() -> String {
    let mut text = String::from(
        "/* Derived from crates/collect/src/preload/uses_layout.rs. */\n#include <stddef.h>\n\
         #include <stdint.h>\n#include <linux/types.h>\n#include \"io_numbers.h\"\n",
    );
    let _ = writeln!(text, "#define USES_MAGIC {MAGIC:#x}ull\n#define USES_SUFFIX \"{SUFFIX}\"");
    let _ = writeln!(
        text,
        "enum {{ USES = {USES}, UNLINKED = {UNLINKED}, USE_STEP = {ROOM_STEP}, USE_FREE = {USE_FREE}, USE_BEGUN = {USE_BEGUN}, \
         USE_OPEN = {USE_OPEN}, USE_DONE = {USE_DONE} }};"
    );
    let mut structure = |name: &str, fields: &[&str], more: &str| {
        let _ = writeln!(text, "struct {name} {{");
        for field in fields {
            let _ = writeln!(text, "\tuint64_t {field};");
        }
        let _ = writeln!(text, "{more}}};");
    };
    structure("uses_head", HEAD, "");
    structure("io_process", PROCESS, "");
    structure("io_unlinked", UNLINKED_FILE, "");
    let more = format!(
        "\tstruct io_numbers numbers;\n\tstruct io_direction directions[2];\n\tchar name[{NAME_BYTES}];\n"
    );
    structure("io_use", USE, &more);
    let _ = writeln!(
        text,
        "struct uses_file {{\n\tstruct uses_head head __attribute__((aligned({HEAD_BYTES})));\n\
         \t_Atomic uint32_t states[USES] __attribute__((aligned({HEAD_BYTES})));\n\
         \tstruct {{ struct io_process at __attribute__((aligned({PROCESS_BYTES}))); }} processes[{PROCESSES}];\n\
         \tstruct io_use uses[USES];\n\tstruct io_unlinked unlinked[UNLINKED];\n}};"
    );
    for (expression, value) in [
        ("sizeof(struct io_use)", USE_BYTES),
        ("sizeof(struct io_direction)", 8 * DIRECTION_WORDS),
        ("offsetof(struct uses_file, processes)", PROCESSES_AT),
        ("offsetof(struct uses_file, uses)", USES_AT),
        ("offsetof(struct uses_file, unlinked)", UNLINKED_AT),
        ("sizeof(struct uses_file)", BYTES),
    ] {
        let _ = writeln!(text, "_Static_assert({expression} == {value}, \"layout\");");
    }
    text
}
