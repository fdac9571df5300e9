//! What was typed, as settings of the measurement.

use weigh_session::products::io::mount::{self, MountSettings, OverSettings, ServedFolder};
use weigh_session::products::io::{self, IoSettings};

use crate::arguments::{IoArguments, IoMechanism, MountArguments, MountMechanism, RunArguments};

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

/// What `weigh run --io-mount` and `--io-mount-over` serve; none if neither is asked for.
pub fn job_folder(arguments: &RunArguments) -> Option<ServedFolder> {
    let (source, mountpoint) = match (&arguments.io_mount_over, &arguments.io_mount[..]) {
        (Some(folder), _) => (folder, folder),
        (None, [source, mountpoint]) => (source, mountpoint),
        _ => return None,
    };
    let over = OverSettings { user_namespace: arguments.userns };
    Some(ServedFolder {
        source: source.clone(),
        mountpoint: mountpoint.clone(),
        over: arguments.io_mount_over.is_some().then_some(over),
        is_exact: arguments.io_exact,
        may_pass: !arguments.io_no_passthrough,
        each_call: arguments.io_calls,
        apart: arguments.io_by.apart(),
    })
}
