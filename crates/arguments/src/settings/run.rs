//! What was typed, as settings of the run.

use weigh_session::products::io::mount::{OverSettings, ServedFolder};
use weigh_session::products::run::{self, RunIoSettings};

use crate::io::RunIoMechanism;
use crate::run::RunArguments;

impl RunArguments {
    /// Reads and writes by file, if they are asked for.
    pub fn io_settings(&self) -> Option<RunIoSettings> {
        self.io.then(|| RunIoSettings {
            mechanism: self.io_mechanism.into(),
            each_call: self.io_calls,
            apart: self.io_by,
            mount: self.served_folder(),
        })
    }

    /// Whether the job is to be kept within limits.
    pub(crate) fn has_limits(&self) -> bool {
        !self.limits.is_empty() || self.limits_file.is_some()
    }

    /// What --io-mount and --io-mount-over serve; none if neither is asked for.
    pub(crate) fn served_folder(&self) -> Option<ServedFolder> {
        let (source, mountpoint) = match (&self.io_mount_over, &self.io_mount[..]) {
            (Some(folder), _) => (folder, folder),
            (None, [source, mountpoint]) => (source, mountpoint),
            _ => return None,
        };
        let over = OverSettings { user_namespace: self.userns };
        Some(ServedFolder {
            source: source.clone(),
            mountpoint: mountpoint.clone(),
            over: self.io_mount_over.is_some().then_some(over),
            is_exact: self.io_exact,
            may_pass: !self.io_no_passthrough,
            each_call: self.io_calls,
            apart: self.io_by,
        })
    }
}

impl From<RunIoMechanism> for run::RunIoMechanism {
    fn from(mechanism: RunIoMechanism) -> run::RunIoMechanism {
        match mechanism {
            // Of a library the follower is asked: it is refused where it is asked for by this name.
            RunIoMechanism::Auto | RunIoMechanism::Preload => run::RunIoMechanism::Auto,
            RunIoMechanism::Bpf => run::RunIoMechanism::Bpf,
            RunIoMechanism::PreloadBpf => run::RunIoMechanism::PreloadBpf,
            RunIoMechanism::PreloadPtrace => run::RunIoMechanism::PreloadPtrace,
            RunIoMechanism::Ptrace => run::RunIoMechanism::Ptrace,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::run::COLLECTORS;

    #[test]
    fn a_collector_has_one_name() {
        for (collector, typed, _) in COLLECTORS {
            assert_eq!(*typed, collector.name());
        }
    }
}
