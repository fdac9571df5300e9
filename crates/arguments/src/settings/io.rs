//! What was typed, as settings of the measurement.

use weigh_session::products::io::mount::{self, MountSettings, ServedFolder};
use weigh_session::products::io::{self, IoSettings};

use crate::io::{IoArguments, IoMechanism, MountArguments, MountMechanism};

impl From<&IoArguments> for IoSettings {
    fn from(arguments: &IoArguments) -> IoSettings {
        IoSettings {
            command: arguments.command.clone(),
            pid: arguments.pid,
            mount: arguments.mount.clone(),
            mechanism: arguments.mechanism.into(),
            apart: arguments.by.apart(),
            each_call: arguments.calls.is_some(),
            seccomp: arguments.seccomp,
            duration: arguments.duration,
            is_quiet: arguments.telling.quiet,
            is_verbose: arguments.telling.all,
        }
    }
}

impl From<IoMechanism> for io::IoMechanism {
    fn from(mechanism: IoMechanism) -> io::IoMechanism {
        match mechanism {
            IoMechanism::Auto => io::IoMechanism::Auto,
            IoMechanism::Bpf => io::IoMechanism::Bpf,
            IoMechanism::Preload => io::IoMechanism::Preload,
            IoMechanism::PreloadBpf => io::IoMechanism::PreloadBpf,
            IoMechanism::PreloadPtrace => io::IoMechanism::PreloadPtrace,
            IoMechanism::Ptrace => io::IoMechanism::Ptrace,
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
                apart: arguments.by.apart(),
                over: None,
            },
            command: arguments.command.clone(),
            mechanism: arguments.mechanism.into(),
            duration: arguments.duration,
        }
    }
}

impl From<MountMechanism> for mount::MountMechanism {
    fn from(mechanism: MountMechanism) -> mount::MountMechanism {
        match mechanism {
            MountMechanism::Auto => mount::MountMechanism::Auto,
            MountMechanism::Bpf => mount::MountMechanism::Bpf,
            MountMechanism::Fuse => mount::MountMechanism::Fuse,
        }
    }
}
