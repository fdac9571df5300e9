//! The ways in which a job can be followed: what each sees, what it loses, what it needs.
//!
//! Declared once: the command line's check of `--mechanism` and `--level`, its help, and
//! `docs/mechanisms.md` follow from this table.

use crate::intrusiveness::Intrusiveness;
use crate::quality::Mechanism;

/// How deep a way of following looks into a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The job is asked now and then; it is not touched.
    Query,
    /// The beginning and the end of each process are told.
    Notification,
    /// Calls and files too.
    Interposition,
}

impl Level {
    /// All levels.
    pub const ALL: [Level; 3] = [Level::Query, Level::Notification, Level::Interposition];

    /// Its number, as on the command line.
    pub fn number(self) -> u8 {
        match self {
            Level::Query => 1,
            Level::Notification => 2,
            Level::Interposition => 3,
        }
    }

    /// Its name, in lower case.
    pub fn word(self) -> &'static str {
        match self {
            Level::Query => "query",
            Level::Notification => "notification",
            Level::Interposition => "interposition",
        }
    }

    /// What it is, in a line.
    pub fn help(self) -> &'static str {
        match self {
            Level::Query => "polling of /proc, wait4 and rusage, stat; the job is not touched",
            Level::Notification => "the beginning and the end of each process are told",
            Level::Interposition => "calls and files too",
        }
    }
}

/// One way to follow a job.
#[derive(Debug)]
pub struct Following {
    /// Its name on the command line.
    pub name: &'static str,
    /// What most of its values come from.
    pub mechanism: Mechanism,
    /// The levels it can work at.
    pub levels: &'static [Level],
    /// The level it works at unless another one is asked for.
    pub unasked: Level,
    /// The lowest level at which it tells of reads and writes by file (`--io`); none: at no level.
    pub by_file: Option<Level>,
    /// What it sees.
    pub sees: &'static str,
    /// What it does not see, or sees late.
    pub loses: &'static str,
    /// What it needs.
    pub needs: &'static str,
    /// How soon a limit is noticed, and how far past it a job can come.
    pub limits: &'static str,
    /// What it looks at.
    pub scope: &'static str,
    /// How far it interferes with the job.
    pub intrusiveness: Intrusiveness,
    /// What it costs, and whom.
    pub cost: &'static str,
}

/// All ways, the best first.
pub const FOLLOWINGS: &[Following] = &[
    Following {
        name: "bpf",
        mechanism: Mechanism::Bpf,
        levels: &[Level::Notification, Level::Interposition],
        unasked: Level::Interposition,
        by_file: Some(Level::Notification),
        sees: "every process and thread, whatever it does; memory at each update of the kernel's own counters; all I/O by calls to the byte; sockets, and opened files where functions can be probed",
        loses: "nothing of the job; copies of inherited pages until the pages are looked at",
        needs: "root, or CAP_BPF and CAP_PERFMON, or `weigh agent` running (without-root.md); a kernel with BTF",
        limits: "in the kernel, at the update that crosses it; of I/O at the end of the call (each system call of the machine takes up to 0.3 µs longer meanwhile); on the rest at the next look, every 2 to 20 ms",
        scope: "job",
        intrusiveness: Intrusiveness::None,
        cost: "at fork, exec, exit and changes of memory; each system call of the machine up to 0.3 µs while a limit on I/O asks for it",
    },
    Following {
        name: "ptrace",
        mechanism: Mechanism::Ptrace,
        levels: &[Level::Notification, Level::Interposition],
        // Two stops at each system call are dear.
        unasked: Level::Notification,
        by_file: None,
        sees: "every process and thread from its birth to its end: memory peak, CPU time, I/O totals of each, exactly, static programs and killed ones included; at level 3 their calls too, however they are made: bytes over the network, connections, opened files, all exactly; with --io what they read and write by file",
        loses: "the concurrent memory peak between two looks (bounded from both sides); at level 2 sockets and opened files; at level 3 what the kernel does by io_uring and AIO, and connections that nobody accepted; processes that need ptrace themselves (debuggers, strace, leak sanitizers) are let go and looked at in /proc, and at level 2 the kernel refuses ptrace to those that are not recognised (static programs without symbols that are written in Go, or have more than 4 MiB of code); set-user-ID programs run without that bit; with --seccomp the job's life without weigh: if weigh is killed, opens and transfers fail there with ENOSYS, and programs that trace others cannot",
        needs: "no rights; not with kernel.yama.ptrace_scope 2 or 3, nor where a seccomp profile forbids ptrace",
        limits: "at the next look; on processes and threads at the birth that crosses them, where both wait: a fork bomb comes to twice its limit at most; of I/O at the end of the call, where its thread waits (each system call of the job takes some 20 to 60 µs longer meanwhile; not with --seccomp)",
        scope: "job",
        intrusiveness: Intrusiveness::High,
        cost: "a stop at each fork, exec and exit; at level 3 two at each system call, tens of µs together",
    },
    Following {
        name: "preload",
        mechanism: Mechanism::Preload,
        levels: &[Level::Notification, Level::Interposition],
        unasked: Level::Interposition,
        by_file: Some(Level::Interposition),
        sees: "processes of dynamically linked programs: memory peak and CPU time at their end; at level 3 their calls of the C library: bytes, connections, opened files",
        loses: "what programs send, receive or splice by system calls of their own, not by the C library's functions; static programs, other C libraries, io_uring, set-user-ID programs, programs that run as another user, programs behind a seccomp filter of their own, programs with a sanitizer whose runtime must be the first library: each of these is named and looked at in /proc instead; the last moments of killed ones",
        needs: "no rights; programs that use the GNU C library",
        limits: "on memory, processes and threads as by poll (past a limit of 100 MB, one process that grows by 1 MB a millisecond came to 105 MB, four to 112 MB; to 126 MB where weigh is an ordinary user); past a limit on processes none makes another until weigh has looked, for 2 s at most: a fork bomb of programs that the library is in comes to twice its limit at most. On the rest at the next look",
        scope: "job: dynamically linked programs",
        intrusiveness: Intrusiveness::Medium,
        cost: "a library to load in each program; up to 0.1 µs at each call that it counts",
    },
    Following {
        name: "poll",
        mechanism: Mechanism::Proc,
        levels: &[Level::Query],
        unasked: Level::Query,
        by_file: None,
        sees: "what /proc shows at each look, and what the kernel adds up at the end: CPU time, faults, context switches and calls that read and write, of all that were waited for, are exact",
        loses: "processes that live between two looks, except their CPU time and I/O; peaks between two looks, except each process's own",
        needs: "nothing",
        limits: "on memory, processes and threads by a thread that looks every 0.5 to 4 ms and stops the whole job before it is looked at closer: past a limit of 100 MB, one process that grows by 1 MB a millisecond came to 104 MB, four to 110 MB (to 119 MB where weigh is an ordinary user, and to 175 MB where the CPUs are busy with others' work, too). Where weigh may go before the job (root, CAP_SYS_NICE) a fork bomb is outrun: under a limit of 200 it came to 320 processes and was ended within 0.6 s. An ordinary user's is not, for weigh gets no more of a CPU than each of its processes: it is ended when it cannot grow any more (one that stops at 20,000: after 17 to 48 s). On the rest at the next look",
        scope: "job",
        intrusiveness: Intrusiveness::None,
        cost: "a read or two of each process at each look",
    },
];

impl Following {
    /// Whether it costs so much at that level that it is the last to be taken unless it is named.
    pub fn is_dear_at(&self, level: Level) -> bool {
        level > self.unasked
    }

    /// Whether it tells of reads and writes by file at that level.
    pub fn tells_by_file(&self, level: Level) -> bool {
        self.by_file.is_some_and(|least| level >= least)
    }
}

/// The way of that name.
pub fn following(name: &str) -> Option<&'static Following> {
    FOLLOWINGS.iter().find(|following| following.name == name)
}
