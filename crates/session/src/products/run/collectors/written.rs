//! What the job has had written to storage, page by page: by the same accounts as `weigh calls` has. Who has no rights
//! has it of the agent.
//!
//! Without it, or where it does not work, the metric is the kernel's own counter.

use weigh_agent::{RemoteError, RemoteWrites};
use weigh_collect::calls::KernelCalls;
use weigh_collect::follow::PageWrites;
use weigh_collect::spawn::Waiting;
use weigh_schema::call::WrittenFound;
use weigh_schema::event::{CollectorState, CollectorStatus, Note};
use weigh_schema::{Mechanism, Quality, Unit, Value, metric, metric_name};

use super::collector::{ActiveCollector, Claim, CollectorSource, Findings};
use crate::products::run::recorder::Recorder;

const NAME: &str = "written";
pub(super) const WRITTEN: &str = metric_name::storage_written_bytes_total;

/// Starts it on the command, which is created but not yet executed.
pub(super) fn start(waiting: &Waiting) -> ActiveCollector {
    let open = || -> Result<Box<dyn PageWrites>, String> {
        let mut writes = open()?;
        let pid = waiting.pid().as_raw_nonzero().get().cast_unsigned();
        writes.arm(pid, waiting.pidfd()).map_err(|error| error.to_string())?;
        Ok(writes)
    };
    let collector: Box<dyn CollectorSource> = match open() {
        Ok(writes) => Box::new(WrittenPages(writes)),
        Err(why) => Box::new(MissingWrites(why)),
    };
    // At other moments than the end it is the kernel's counter.
    ActiveCollector { metrics: &[], mechanism: Mechanism::Bpf, collector }
}

/// The kernel side: weigh's own, or, for who has no rights, the agent's.
fn open() -> Result<Box<dyn PageWrites>, String> {
    let own = match KernelCalls::open_for_writes() {
        Ok(calls) => return Ok(Box::new(calls)),
        Err(own) => own,
    };
    match RemoteWrites::open(&weigh_agent::socket()) {
        Ok(remote) => Ok(Box::new(remote)),
        Err(RemoteError::NoAgent(..)) => Err(own.to_string()),
        Err(remote) => Err(format!("{own}; {remote}")),
    }
}

/// Why the kernel's own counter has to do.
struct MissingWrites(String);

impl CollectorSource for MissingWrites {
    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder<'_>) -> CollectorStatus {
        findings.notes.push(Note::new(
            WRITTEN,
            Quality::Estimated,
            format!("the kernel's own counter, for --written was not possible: {}", self.0),
        ));
        let state = CollectorState::Unavailable;
        CollectorStatus::new(NAME, Mechanism::Bpf, state, Some(self.0))
    }
}

struct WrittenPages(Box<dyn PageWrites>);

impl CollectorSource for WrittenPages {
    fn claim(&self) -> Claim<'_> {
        Claim { metrics: &[WRITTEN], refusal: None }
    }

    fn finish(
        mut self: Box<Self>,
        findings: &mut Findings,
        recorder: &mut Recorder<'_>,
    ) -> CollectorStatus {
        let WrittenFound { written, lost, missing } = match self.0.found() {
            Ok(found) => found,
            Err(error) => {
                return Box::new(MissingWrites(error.to_string())).finish(findings, recorder);
            }
        };
        if let Some(written) = written {
            findings
                .given
                .insert(WRITTEN.to_string(), value(written.total(), written.to_come, lost));
        }
        let status = match (written, missing.is_empty()) {
            (None, _) => CollectorState::Unavailable,
            (_, false) => CollectorState::Degraded,
            _ => CollectorState::Active,
        };
        let agent = self.0.is_remote().then(|| "through the agent".to_string());
        let reasons: Vec<String> = agent.into_iter().chain(missing).collect();
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        CollectorStatus { name: NAME.to_string(), mechanism: Mechanism::Bpf, status, reason, lost }
    }
}

/// The value, of so many bytes in all, those among them that are not on a device yet, and how often there was no room.
pub(super) fn value(total: u64, to_come: u64, lost: u64) -> Value {
    let unit = metric(WRITTEN).map_or(Unit::Bytes, |m| m.unit);
    let mut reasons = Vec::new();
    if to_come > 0 {
        reasons.push(format!("{to_come} bytes of it are not on the device yet"));
    }
    if lost > 0 {
        reasons.push(format!("{lost} times there was no room to follow what was written"));
    }
    let value = Value::whole(unit, total, Mechanism::Bpf);
    match reasons.is_empty() {
        true => value,
        false => {
            let quality = if lost > 0 { Quality::Estimated } else { Quality::Exact };
            value.qualified(quality, reasons.join("; "))
        }
    }
}
