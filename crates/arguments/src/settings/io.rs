//! What was typed, as settings of the measurement.

use weigh_session::products::io::IoSettings;
use weigh_session::products::io::mount::{MountSettings, ServedFolder};

use crate::io::{IoArguments, MountArguments};

impl From<&IoArguments> for IoSettings {
    fn from(arguments: &IoArguments) -> IoSettings {
        IoSettings {
            command: arguments.command.clone(),
            pid: arguments.pid,
            mount: arguments.mount.clone(),
            mechanism: arguments.mechanism,
            apart: arguments.by,
            each_call: arguments.calls.is_some(),
            seccomp: arguments.seccomp,
            duration: arguments.duration,
            is_quiet: arguments.telling.quiet,
            is_verbose: arguments.telling.all,
        }
    }
}

impl From<&MountArguments> for MountSettings {
    fn from(arguments: &MountArguments) -> MountSettings {
        MountSettings {
            folder: ServedFolder {
                source: arguments.source.clone(),
                mountpoint: arguments.mountpoint.clone(),
                is_exact: arguments.exact,
                may_pass: !arguments.no_passthrough,
                each_call: arguments.calls.is_some(),
                apart: arguments.by,
                over: None,
            },
            command: arguments.command.clone(),
            mechanism: arguments.mechanism,
            duration: arguments.duration,
        }
    }
}
