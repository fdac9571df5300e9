//! Whether calls can be followed here: what `weigh doctor` shows, and the error of `weigh calls` and `weigh run --calls`.

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::event::CollectorStatus;
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};
use weigh_schema::subsystem::SUBSYSTEMS;

use super::counting::Counters;
use super::functions::Functions;
use super::kernel_calls::KernelCalls;
use super::request::{CallsRequest, Telling};

/// What it is for.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "syscalls",
    "what system calls cost in each part of the kernel (`weigh calls`, `weigh run --calls`)",
    None,
)
.probed_by(probe)
.asks(SourceTraits {
    mode: SourceMode::Notification,
    rights: "root, or CAP_BPF and CAP_PERFMON, or `weigh agent` running",
    scope: "job; the price is the machine's",
    intrusiveness: Intrusiveness::Low,
    cost: "about 0.6 µs at each system call of the job, 0.3 µs at those of others",
});

/// Loads what holds threads and time together, and the first part of the kernel: each part takes its time to load, and
/// what of it a kernel lacks is named in each report. Attaches nothing.
fn probe() -> CollectorStatus {
    let least = CallsRequest {
        subsystems: SUBSYSTEMS.iter().take(1).collect(),
        grouping: Grouping::Call,
        sharing: Sharing::Bytes,
        every_call: true,
        counters: Counters::of(&[]),
        by_part: false,
    };
    let trial = KernelCalls::load(&least, Telling::PLAIN, &Functions::default());
    CollectorStatus::of_trial(INFO.name, Mechanism::Bpf, trial.map(drop))
}
