//! What a value is about.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a value is about, with its instance. As text: `job`, `process:12`, `core:3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Scope {
    /// The job as a whole.
    Job,
    /// One process, by its PID.
    Process(u32),
    /// The node as a whole.
    Node,
    /// One of the node's CPUs.
    Core(u32),
    /// A disk, by the kernel's name.
    Disk(String),
    /// A network interface.
    Interface(String),
    /// A mount of a file system, by its mount point.
    Mount(String),
    /// One kind of operation on such a mount.
    Operation {
        /// As the file system names it: `READ`, `open`.
        name: String,
        /// The mount point, or the file system's name.
        mount: String,
    },
    /// A sensor: its chip and its input.
    Sensor(String),
    /// A power zone of the CPUs.
    PowerZone(String),
    /// A GPU, by its number.
    Gpu(u32),
    /// A GPU without a number of NVML, by its bus: `0000:0c:00.0`.
    GpuDevice(String),
    /// A control group that is a job, a unit or a container, by its path.
    Group(String),
    /// A scope of another version, as its text.
    Other(String),
}

impl From<String> for Scope {
    fn from(text: String) -> Scope {
        let number = |prefix: &str| {
            let digits = text.strip_prefix(prefix)?;
            // What is written again is the same: no sign, no leading zeros.
            digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
        };
        let named = |prefix: &str| text.strip_prefix(prefix).map(str::to_string);
        match text.as_str() {
            "job" => Scope::Job,
            "node" => Scope::Node,
            _ => (number("process:").map(Scope::Process))
                .or_else(|| number("core:").map(Scope::Core))
                .or_else(|| number("gpu:").map(Scope::Gpu))
                .or_else(|| named("gpu:").map(Scope::GpuDevice))
                .or_else(|| named("group:").map(Scope::Group))
                .or_else(|| named("disk:").map(Scope::Disk))
                .or_else(|| named("interface:").map(Scope::Interface))
                .or_else(|| named("mount:").map(Scope::Mount))
                .or_else(|| operation(&text))
                .or_else(|| named("sensor:").map(Scope::Sensor))
                .or_else(|| named("power:").map(Scope::PowerZone))
                .unwrap_or(Scope::Other(text)),
        }
    }
}

/// `operation:READ:/scratch`: a mount point may hold colons, a name does not.
fn operation(text: &str) -> Option<Scope> {
    let (name, mount) = text.strip_prefix("operation:")?.split_once(':')?;
    Some(Scope::Operation { name: name.to_string(), mount: mount.to_string() })
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.to_string()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Job => f.write_str("job"),
            Scope::Node => f.write_str("node"),
            Scope::Process(pid) => write!(f, "process:{pid}"),
            Scope::Core(core) => write!(f, "core:{core}"),
            Scope::Gpu(number) => write!(f, "gpu:{number}"),
            Scope::GpuDevice(bus) => write!(f, "gpu:{bus}"),
            Scope::Group(path) => write!(f, "group:{path}"),
            Scope::Disk(name) => write!(f, "disk:{name}"),
            Scope::Interface(name) => write!(f, "interface:{name}"),
            Scope::Mount(point) => write!(f, "mount:{point}"),
            Scope::Operation { name, mount } => write!(f, "operation:{name}:{mount}"),
            Scope::Sensor(name) => write!(f, "sensor:{name}"),
            Scope::PowerZone(name) => write!(f, "power:{name}"),
            Scope::Other(text) => f.write_str(text),
        }
    }
}
