//! Every call as a row, for a sink that keeps it.
//!
//! Reads single calls and their deferred costs; emits rows. A sink that fails does not end the command: the first error
//! is kept, and returned when the command has ended.

use std::time::{SystemTime, UNIX_EPOCH};

use weigh_account::{Owners, call_row};
use weigh_collect::calls::{Attached, KernelCalls, name};
use weigh_collect::clock::monotonic_ns;
use weigh_schema::call::{Call, LateCost, Tally};
use weigh_schema::call_row::CallRow;
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

/// Takes each call, in the order in which they end. Nothing is emitted any more when something has gone wrong.
pub trait CallSink {
    /// Takes one call.
    fn emit(&mut self, row: &CallRow) -> anyhow::Result<()>;

    /// Takes costs that came after a call, some or all of them, whether the call has come already or not.
    fn emit_deferred(&mut self, costs: &LateCost) -> anyhow::Result<()>;

    /// Some deferred costs were lost from one time to another, since the Unix epoch. Times come in their order.
    fn lose_deferred(&mut self, from_ns: i64, until_ns: i64);

    /// All has come, or what `tally` says is lost. Returns of how many calls the deferred costs are not known.
    fn finish(self: Box<Self>, tally: Tally) -> anyhow::Result<u64>;
}

/// Makes rows of calls, for a sink.
pub(super) struct CallRecorder {
    sink: anyhow::Result<Box<dyn CallSink>>,
    epoch_ns: i64,
    measured: u64,
    /// Deferred costs that were lost when that was looked at last, and when that was.
    lost_deferred: u64,
    checked_ns: u64,
}

impl CallRecorder {
    /// Emits to a sink what is seen of each call.
    pub fn new(sink: Box<dyn CallSink>, calls: &KernelCalls) -> CallRecorder {
        let is_seen = |attached: &&Attached| attached.probes > 0;
        let parts = calls.attached().iter().filter(is_seen);
        let bits = parts.filter_map(|part| Subsystem::named(&part.subsystem)).map(Subsystem::bit);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
        CallRecorder {
            sink: Ok(sink),
            epoch_ns: now_ns.saturating_sub_unsigned(monotonic_ns()),
            measured: bits.fold(SUBSYSTEMS[0].bit(), |set, bit| set | bit),
            lost_deferred: 0,
            checked_ns: monotonic_ns(),
        }
    }

    /// Takes calls in.
    pub fn record(&mut self, calls: &[Call], owners: &Owners) {
        for call in calls {
            let Ok(sink) = &mut self.sink else { return };
            let row = call_row(call.clone(), self.epoch_ns, self.measured, owners, &name);
            if let Err(error) = sink.emit(&row) {
                self.sink = Err(error);
            }
        }
    }

    /// Takes in what came later.
    pub fn record_deferred(&mut self, deferred: &[LateCost]) {
        for costs in deferred {
            let Ok(sink) = &mut self.sink else { return };
            if let Err(error) = sink.emit_deferred(costs) {
                self.sink = Err(error);
            }
        }
    }

    /// Checks whether deferred costs were lost since the last time.
    pub fn check_losses(&mut self, calls: &KernelCalls) {
        let now_ns = monotonic_ns();
        let lost_deferred = calls.tally().untold_later;
        if lost_deferred > self.lost_deferred
            && let Ok(sink) = &mut self.sink
        {
            let at = |monotonic_ns| self.epoch_ns.saturating_add_unsigned(monotonic_ns);
            sink.lose_deferred(at(self.checked_ns), at(monotonic_ns()));
        }
        (self.lost_deferred, self.checked_ns) = (lost_deferred, now_ns);
    }

    /// Ends the rows; returns a note where deferred costs are not known.
    pub fn finish(self, tally: Tally) -> anyhow::Result<Option<String>> {
        Ok(unknown(self.sink?.finish(tally)?, tally.untold_later))
    }
}

fn unknown(calls: u64, bits: u64) -> Option<String> {
    (calls > 0).then(|| {
        format!(
            "later costs of {calls} calls are not known: {bits} bits of what came later came faster than weigh \
             could read them, and may be theirs; in the rows of these calls they are absent"
        )
    })
}
