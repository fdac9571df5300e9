//! What each collector is good for, and what helps where it does not work.
//!
//! The list of collectors is not here: it is what a run reports. A collector without a note is
//! shown without one.

/// What there is to say about a collector.
pub(super) struct Note {
    /// Its name, as in a summary.
    name: &'static str,
    /// What it is good for.
    pub gives: &'static str,
    /// What helps where it does not work, if its own reason does not say it.
    pub remedy: Option<&'static str>,
}

const fn note(name: &'static str, gives: &'static str, remedy: Option<&'static str>) -> Note {
    Note { name, gives, remedy }
}

const FUNCTION_PROBES: &str =
    "function probes: a kernel with CONFIG_FUNCTION_TRACER that lets root use them";

const NOTES: &[Note] = &[
    note(
        "processes",
        "each process and thread: CPU, memory and its peaks, I/O by calls, faults, switches",
        None,
    ),
    note(
        "preload",
        "each process of a dynamically linked program: CPU, memory, I/O by calls, network, files",
        None,
    ),
    note(
        "poll",
        "processes, CPU, memory, I/O by calls, as /proc shows them now and then",
        Some(
            "it stands in where BPF cannot be used. Run as root, or give the binary CAP_BPF and \
             CAP_PERFMON; the kernel must have BTF",
        ),
    ),
    note("network", "bytes, connections, retransmissions of sockets", Some(FUNCTION_PROBES)),
    note(
        "io_uring",
        "I/O by io_uring requests",
        Some("a kernel with CONFIG_IO_URING and its tracepoints"),
    ),
    note(
        "calls",
        "I/O by splice, tee, vmsplice and AIO, which no tracepoint sees",
        Some(FUNCTION_PROBES),
    ),
    note("files", "which process opened which file, and how often", Some(FUNCTION_PROBES)),
    note(
        "fanotify",
        "opened files, where functions cannot be probed",
        Some("CAP_SYS_ADMIN, and CAP_DAC_READ_SEARCH to name the files"),
    ),
    note(
        "hardware",
        "instructions, cycles, cache misses from the CPU's own counters",
        Some("a machine that offers them; CAP_PERFMON, or kernel.perf_event_paranoid up to 2"),
    ),
    note(
        "footprint",
        "space and number of files in the watched directories",
        Some("permission to list them"),
    ),
    note(
        "cgroup",
        "the memory controller's own peak, page cache included",
        Some(
            "a control group below which weigh may make others: run as root, or in \
             systemd-run --user --scope -p Delegate=yes",
        ),
    ),
    note(
        "pages",
        "memory that processes share counted once, page by page, at a new peak",
        Some("CAP_SYS_ADMIN, which shows page frames; without it shares (Pss) are added up"),
    ),
    note("delays", "time waiting for block I/O, reclaim, swap-in", None),
    note("gpu", "memory on NVIDIA GPUs, and their use", Some("a GPU with NVIDIA's driver")),
    note("pressure", "for how long anything on the machine waited for CPU, memory or I/O", None),
    note("recording", "what was recorded, on disk", Some("space and permission to write")),
];

/// The note on the collector of that name.
pub(super) fn note_on(name: &str) -> Option<&'static Note> {
    NOTES.iter().find(|note| note.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_note_is_written_twice() {
        for (i, note) in NOTES.iter().enumerate() {
            assert!(NOTES[..i].iter().all(|earlier| earlier.name != note.name), "{}", note.name);
        }
    }
}
