//! What was typed, as settings of the measurement.

use weigh_session::products::calls::{self as product, CallsSettings};

use crate::calls::{CallsArguments, CallsMechanism};

impl From<&CallsArguments> for CallsSettings {
    fn from(arguments: &CallsArguments) -> CallsSettings {
        CallsSettings {
            command: arguments.command.clone(),
            pid: arguments.pid,
            duration: arguments.duration,
            mechanism: match arguments.mechanism {
                CallsMechanism::Preload => product::CallsMechanism::Preload,
                CallsMechanism::Auto | CallsMechanism::Bpf => product::CallsMechanism::Bpf,
            },
            subsystems: arguments.subsystems.clone(),
            config: arguments.config.clone(),
            boundaries: arguments.functions.then(|| arguments.reached_by.clone()),
            by_part: arguments.by_part,
            counters: arguments.counters.clone(),
            only: arguments.only.clone(),
            grouping: arguments.by,
            sharing: arguments.share,
            slowest: arguments.slowest,
            has_idle: arguments.idle,
            has_sink: arguments.per_call.is_some(),
            is_quiet: arguments.quiet,
        }
    }
}
