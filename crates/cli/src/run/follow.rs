//! Who follows the job: the kernel itself by BPF, or, without the rights for that, weigh by
//! looking at `/proc` now and then.

use weigh_collect::follow::{Follow, Wanted};
use weigh_collect::job::{JobError, KernelJob};
use weigh_collect::poll::PolledJob;

use super::settings::Settings;
use crate::arguments::Collector;

/// The kernel if it can, else weigh; the reason is told.
pub fn open(settings: &Settings) -> Box<dyn Follow> {
    let why = if settings.wants(Collector::Bpf) {
        let wanted = Wanted {
            network: settings.wants(Collector::Network),
            files: settings.wants(Collector::Files),
        };
        match KernelJob::open(wanted) {
            Ok(job) => return Box::new(job),
            Err(error @ JobError::Missing(_)) => error.to_string(),
            Err(error) => crate::in_full(&error.into()),
        }
    } else {
        "turned off by --without bpf".to_string()
    };
    eprintln!(
        "weigh: the kernel does not follow this job: {why}.\n\
         weigh: looking at /proc instead: processes and peaks between two looks are missed. \
         `weigh doctor` says more."
    );
    Box::new(PolledJob::open(&why))
}
