//! What the library counts by file, for the reports, and the kernel's counts that it is held against.
//!
//! Emits the grounds of a report: what the kernel itself has counted beside what was seen, the programs
//! that the library was not in, what it cannot know. Refuses to call anything exact that the kernel's own
//! counters have more of.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use weigh_schema::event::ProcessEnd;
use weigh_schema::io::{
    Event, Field, FileId, Process, ReportBasis, Tally, Transfer, Transferred, Trust, Use, Witness,
};
use weigh_schema::{Counter, CounterValues, Mechanism, Quality};

use super::io_table::{UsageTable, Witnessed};
use super::process_table;
use super::shared_file::RunFolder;

const NO_CACHE: &str =
    "a library in the programs does not see what the page cache does: that takes bpf";
const HOW_TO_SEE_ALL: &str = "weigh io --mechanism preload+ptrace, and weigh run --io --io-mechanism preload+ptrace, see such programs, too, and \
     tell what that costs";
const CUT: &str =
    "a program has cut the file that it shares with weigh: what was counted there is lost";
const PAST: &str = "what programs send, receive or splice by system calls of their own, past the C library's functions, is in no sum: \
                    neither the library nor the kernel counts it";
const NO_MAPPED: &str = "memory that is mapped is read and written without any call, and a library in the programs \
                         does not see what the page cache does for it: that takes bpf";

/// What is known of the job beside its files.
#[derive(Clone, Default)]
pub struct JobTotals {
    /// As the kernel has counted, without what the library itself has read.
    pub counters: CounterValues,
    /// Whether all were waited for, so that these are sums.
    pub is_whole: bool,
    /// The programs that the library was not in.
    pub blind: String,
    /// What moves bytes without a call.
    pub unseen: Vec<&'static str>,
    /// Processes alive.
    pub living: u64,
}

/// The counts by file. All of its clones are of the same job.
#[derive(Clone)]
pub struct CheckedCounts {
    uses: Rc<RefCell<UsageTable>>,
    known: Rc<RefCell<JobTotals>>,
}

impl CheckedCounts {
    /// Of this file.
    pub fn new(uses: UsageTable) -> CheckedCounts {
        CheckedCounts { uses: Rc::new(RefCell::new(uses)), known: Rc::default() }
    }

    /// The command is about to begin.
    pub fn begin(&self) {
        self.uses.borrow_mut().begin();
    }

    /// The same, and times are counted from an earlier moment of the monotonic clock.
    pub fn begin_at(&self, began_ns: u64) {
        self.uses.borrow_mut().begin_at(began_ns);
    }

    /// How long ago it began.
    pub fn elapsed_ns(&self) -> u64 {
        self.uses.borrow().elapsed_ns()
    }

    /// Takes in what is done with.
    pub fn look(
        &self,
        shared: &RunFolder,
        tally: &process_table::Tally,
        ended: &[(usize, ProcessEnd)],
    ) {
        self.uses.borrow_mut().look(shared, tally, ended);
    }

    /// Says what there is to hold it against.
    pub fn hold_against(&self, known: JobTotals) {
        *self.known.borrow_mut() = known;
    }

    /// What has come since the last time.
    pub fn events(&self) -> Vec<Event> {
        self.uses.borrow_mut().events()
    }

    /// Shows what is open still.
    pub fn each_open_use(&self, show: &mut dyn FnMut(Use)) {
        self.uses.borrow().open_uses().for_each(show);
    }

    /// The processes that live.
    pub fn living(&self) -> Vec<Process> {
        self.uses.borrow().living().to_vec()
    }

    /// What found no room by file.
    pub fn rest(&self) -> Option<Use> {
        self.uses.borrow().rest()
    }

    /// Has names told again.
    pub fn forget_names(&self, files: &[FileId]) {
        self.uses.borrow_mut().forget_names(files);
    }

    /// How much was seen.
    pub fn tally(&self) -> Tally {
        self.uses.borrow().tally(self.known.borrow().living)
    }

    /// How far it can be trusted.
    pub fn grounds(&self) -> ReportBasis {
        self.grounds_with(&Witnessed::default(), HOW_TO_SEE_ALL)
    }

    /// The same, where somebody else has counted that much in programs that the library was not in.
    pub fn grounds_beside(&self, others: &Witnessed) -> ReportBasis {
        self.grounds_with(others, "nor was the tracer")
    }

    /// `but` is said where the library was not in a program.
    fn grounds_with(&self, others: &Witnessed, but: &str) -> ReportBasis {
        let (uses, known) = (self.uses.borrow(), self.known.borrow());
        let own = uses.witnessed();
        let was_in_any = own.start.1 + own.read.1 + own.written.1 > 0;
        let seen = own.plus(others);
        let witness = known.is_whole.then(|| witness(&seen, &known.counters));
        let unseen = witness.map(|witness| witness.unseen());
        let (refused, without_streams) = uses.blind();
        let mut notes = Vec::new();
        match unseen {
            None => notes.push(
                "the kernel's own count is not whole: not all processes were waited for".to_string(),
            ),
            Some(unseen) if unseen == Transferred::default() => {}
            Some(unseen) => notes.push(format!(
                "{}, which the kernel has counted, were made past the library, and are in no row: the dynamic \
                 loader's, the C library's own, those of programs that it is not in",
                in_words(&unseen)
            )),
        }
        if !known.blind.is_empty() {
            notes.push(format!("the library was not in {}; {but}", known.blind));
        }
        if refused > 0 {
            notes.push(format!(
                "{refused} programs could not be counted in: their address space, or the file that they share with \
                 weigh, had no room for them"
            ));
        }
        if uses.is_cut() {
            notes.push(CUT.to_owned());
        }
        if without_streams > 0 {
            notes.push(format!(
                "{without_streams} programs have a C library whose streams (stdio) are not seen"
            ));
        }
        if known.unseen.contains(&process_table::BY_NUMBER) {
            notes.push(format!("{PAST}; there were such calls, by syscall(2)"));
        } else if was_in_any {
            notes.push(PAST.to_owned());
        }
        let is_all = notes.is_empty() && known.unseen.is_empty();
        ReportBasis {
            mechanism: Mechanism::Preload,
            quality: if is_all { Quality::Exact } else { Quality::Estimated },
            witness,
            price: None,
            qualities: qualities(&known),
            notes,
        }
    }
}

/// What was moved, without what is nothing. Of calls that failed the kernel counts some, so that there may be bytes of
/// which no call is known.
fn in_words(moved: &Transferred) -> String {
    let one_way = |bytes: u64, calls: u64, done: &str| match (bytes, calls) {
        (0, 0) => None,
        (bytes, 0) => Some(format!("{bytes} bytes {done}")),
        (bytes, 1) => Some(format!("{bytes} bytes {done} by 1 call")),
        (bytes, calls) => Some(format!("{bytes} bytes {done} by {calls} calls")),
    };
    let read = one_way(moved.read_bytes, moved.read_calls, "read");
    let written = one_way(moved.written_bytes, moved.write_calls, "written");
    read.into_iter().chain(written).collect::<Vec<_>>().join(" and ")
}

/// What the kernel has counted, and what was seen of it. Of calls that failed it counts some.
fn witness(witnessed: &Witnessed, counters: &CounterValues) -> Witness {
    let start = Transferred {
        read_bytes: witnessed.start.0,
        read_calls: witnessed.start.1,
        ..Transferred::default()
    };
    let failed =
        |kernel: u64, seen: u64, failed: u64| seen + failed.min(kernel.saturating_sub(seen));
    let kernel = Transferred {
        read_bytes: counters.get(Counter::ReadChars),
        read_calls: counters.get(Counter::ReadCalls),
        written_bytes: counters.get(Counter::WriteChars),
        write_calls: counters.get(Counter::WriteCalls),
        ..Transferred::default()
    };
    let seen = Transferred {
        read_bytes: witnessed.read.0,
        read_calls: failed(
            kernel.read_calls.saturating_sub(start.read_calls),
            witnessed.read.1,
            witnessed.failed.0,
        ),
        written_bytes: witnessed.written.0,
        write_calls: failed(kernel.write_calls, witnessed.written.1, witnessed.failed.1),
        ..Transferred::default()
    };
    Witness { kernel, seen, start }
}

fn qualities(known: &JobTotals) -> BTreeMap<String, Trust> {
    let mut all = BTreeMap::from([
        (Transfer::Mapped.name().to_string(), unavailable(NO_MAPPED.to_string())),
        (Field::Filled.key(), unavailable(NO_CACHE.to_string())),
        (Field::AheadUnused.key(), unavailable(NO_CACHE.to_string())),
        (Field::Cached.key(), unavailable(NO_CACHE.to_string())),
        (Field::DeviceRead.key(), unavailable(NO_CACHE.to_string())),
        (Field::DeviceWritten.key(), unavailable(NO_CACHE.to_string())),
    ]);
    let kinds = [(Transfer::Uring, "io_uring"), (Transfer::Aio, "native AIO")];
    for (kind, name) in kinds {
        if known.unseen.contains(&name) {
            let reason =
                format!("{name} was used: its requests are served without a call of the C library");
            all.insert(kind.name().to_string(), unavailable(reason));
        }
    }
    all
}

fn unavailable(reason: String) -> Trust {
    Trust { quality: Quality::Unavailable, reason }
}
