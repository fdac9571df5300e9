//! What each collector is good for, and what helps where it does not work.
//!
//! The list of collectors is not here: it is what a run reports. A collector without a note is
//! shown without one.

/// What there is to say about a collector.
pub struct Note {
    /// Its name, as in a summary.
    name: &'static str,
    /// What it is good for.
    pub gives: &'static str,
    /// What helps where it does not work.
    pub remedy: &'static str,
}

const NOTES: &[Note] = &[
    Note {
        name: "processes",
        gives: "every process and thread: CPU time, memory and its peaks, I/O by calls, faults, \
                switches, each counted in the kernel; limits checked there",
        remedy: "run as root, or give the binary CAP_BPF and CAP_PERFMON: sudo setcap \
                 cap_bpf,cap_perfmon+ep $(command -v weigh); the kernel must have BTF \
                 (CONFIG_DEBUG_INFO_BTF)",
    },
    Note {
        name: "poll",
        gives: "processes, CPU time, memory, I/O by calls as /proc shows them between two looks",
        remedy: "used where BPF can not be; what is above for `processes` replaces it",
    },
    Note {
        name: "network",
        gives: "bytes sent and received, connections, retransmissions",
        remedy: "needs the tracepoints of Linux 6.3, or function probes (CONFIG_FUNCTION_TRACER, \
                 CONFIG_BPF_EVENTS)",
    },
    Note {
        name: "files",
        gives: "which process opened which file, and how often",
        remedy: "function probes (CONFIG_FUNCTION_TRACER), else fanotify, which needs \
                 CAP_SYS_ADMIN, and CAP_DAC_READ_SEARCH to name the files",
    },
    Note {
        name: "fanotify",
        gives: "which process opened which file, where function probes do not work",
        remedy: "CAP_SYS_ADMIN, and CAP_DAC_READ_SEARCH to name the files",
    },
    Note {
        name: "uring",
        gives: "bytes and requests of io_uring",
        remedy: "a kernel with the io_uring tracepoints (CONFIG_IO_URING, CONFIG_TRACEPOINTS)",
    },
    Note {
        name: "hardware",
        gives: "instructions, cycles, cache misses from the CPU's own counters",
        remedy: "a machine, or a virtual machine, that offers the counters; CAP_PERFMON or \
                 kernel.perf_event_paranoid of at most 2",
    },
    Note {
        name: "footprint",
        gives: "space and number of files in the working directory and what --watch names",
        remedy: "permission to list the watched directories",
    },
    Note {
        name: "cgroup",
        gives: "the memory controller's own peak, page cache and kernel memory included",
        remedy: "a control group in which weigh may make children with the memory controller: \
                 run as root, or in systemd-run --user --scope -p Delegate=yes",
    },
    Note {
        name: "pages",
        gives: "memory that processes share counted once, page by page, at a new peak",
        remedy: "CAP_SYS_ADMIN shows page frames; without it the sum of proportional shares \
                 (Pss) takes their place",
    },
    Note {
        name: "delays",
        gives: "time waiting for block I/O, for reclaim, for pages to be swapped in",
        remedy: "as root: weigh run --delays switches the kernel's accounting on for the job, \
                 sysctl kernel.task_delayacct=1 for good (CONFIG_TASK_DELAY_ACCT)",
    },
    Note {
        name: "gpu",
        gives: "memory held on NVIDIA GPUs and their use",
        remedy: "a GPU and NVIDIA's driver with libnvidia-ml.so.1",
    },
];

/// The note on the collector of that name.
pub fn of(name: &str) -> Option<&'static Note> {
    NOTES.iter().find(|note| note.name == name)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::arguments::Collector;

    #[test]
    fn each_collector_that_can_be_left_out_has_a_note() {
        for collector in Collector::value_variants().iter().filter(|c| **c != Collector::Bpf) {
            assert!(of(&collector.name()).is_some(), "{}", collector.name());
        }
        assert!(of("processes").is_some(), "what the collector `bpf` reports as");
    }

    #[test]
    fn no_note_is_written_twice() {
        for (i, note) in NOTES.iter().enumerate() {
            assert!(NOTES[..i].iter().all(|earlier| earlier.name != note.name), "{}", note.name);
        }
    }
}
