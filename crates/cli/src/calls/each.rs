//! `--per-call`: every call that is told, as a row of a Parquet file.
//!
//! A file that can not be written does not end the command: the first error is kept, and told when
//! the command has ended.

use std::time::{SystemTime, UNIX_EPOCH};

use weigh_account::{Owners, call_row, shell_words};
use weigh_collect::calls::{KernelCalls, name};
use weigh_collect::clock::monotonic_ns;
use weigh_keep::{CallsNote, CallsWriter, KeepError};
use weigh_schema::base64;
use weigh_schema::call::{Call, Later, Tally};
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use crate::arguments::CallsArguments;

/// The file of all calls.
pub struct Each {
    file: Result<CallsWriter, KeepError>,
    epoch_ns: i64,
    measured: u64,
    /// Bits of what came later that were lost when that was looked at last, and when that was.
    untold_later: u64,
    looked_ns: u64,
}

impl Each {
    /// Writes to a file what is seen of each call.
    pub fn new(file: CallsWriter, calls: &KernelCalls) -> Each {
        let seen = |attached: &&weigh_collect::calls::Attached| attached.probes > 0;
        let parts = calls.attached().iter().filter(seen);
        let bits = parts.filter_map(|part| Subsystem::named(&part.subsystem)).map(Subsystem::bit);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
        Each {
            file: Ok(file),
            epoch_ns: now_ns.saturating_sub_unsigned(monotonic_ns()),
            measured: bits.fold(SUBSYSTEMS[0].bit(), |set, bit| set | bit),
            untold_later: 0,
            looked_ns: monotonic_ns(),
        }
    }

    /// Takes calls in.
    pub fn write(&mut self, calls: &[Call], owners: &Owners) {
        for call in calls {
            let Ok(file) = &mut self.file else { return };
            let row = call_row(call.clone(), self.epoch_ns, self.measured, owners, &name);
            if let Err(error) = file.push(&row) {
                self.file = Err(error);
            }
        }
    }

    /// Takes in what came later.
    pub fn add_later(&mut self, later: &[Later]) {
        for Later { sequence, growth } in later {
            let Ok(file) = &mut self.file else { return };
            if let Err(error) = file.push_later(*sequence, growth) {
                self.file = Err(error);
            }
        }
    }

    /// Looks whether bits of what came later were lost since the last time.
    pub fn look_for_losses(&mut self, calls: &KernelCalls) {
        let now_ns = monotonic_ns();
        let untold_later = calls.tally().untold_later;
        if untold_later > self.untold_later
            && let Ok(file) = &mut self.file
        {
            let at = |monotonic_ns| self.epoch_ns.saturating_add_unsigned(monotonic_ns);
            file.lost_later(at(self.looked_ns), at(monotonic_ns()));
        }
        (self.untold_later, self.looked_ns) = (untold_later, now_ns);
    }

    /// Gives the file its name; emits what is to be said of it.
    pub fn finish(
        self,
        arguments: &CallsArguments,
        tally: Tally,
    ) -> Result<Option<String>, KeepError> {
        let words = arguments.command.iter().map(|a| a.to_string_lossy().into_owned());
        let command = match arguments.pid {
            Some(pid) => format!("process {pid}"),
            None => shell_words(&words.collect::<Vec<_>>()),
        };
        let note = CallsNote {
            command,
            command_base64: base64::of_words_ended(&arguments.command),
            untold: tally.untold,
            lost: tally.lost,
            untold_later: tally.untold_later,
            merged_later: tally.merged_later,
            unknown_later: 0,
        };
        let written = self.file?.finish(&note)?;
        Ok(unknown(written.unknown_later, tally.untold_later))
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
